"""Tests logins that lack one right: each command says in one line which, and blames neither data nor code."""

from __future__ import annotations

import pytest

from lockstep.cli.exits import Exit
from lockstep.core.ledger_rights import OF_A_RUN

ASKS = (
    ("status", "drill"),
    ("plan", "drill"),
    ("plan", "--all"),
    ("run", "drill"),
    ("replay", "drill", "--reason", "r"),
    ("replay", "drill", "--preview"),
    ("skip", "drill", "--to", "latest", "--reason", "r"),
    ("pause", "drill", "--reason", "r"),
    ("batches", "drill"),
    ("batch", "1"),
    ("lineage", "drill", "--partition", "0", "--offset", "0"),
    ("holes", "drill"),
    ("hours", "drill"),
    ("verify", "drill"),
    ("rejects", "drill"),
    ("reap",),
    ("doctor", "drill"),
)


@pytest.mark.parametrize("lacking", OF_A_RUN)
def test_a_role_that_a_login_lacks_is_named_by_every_command_that_needs_it(lockstep, here, login, produce, lacking):
    here.drain()
    produce(here.drill.topic, [("k", '{"id": "late", "n": 1}')] * 5, partition=1)
    name = login(", ".join(role for role in OF_A_RUN if role != lacking))
    refused = 0
    for words in ASKS:
        said = lockstep(*words, "--json")
        assert said.code != Exit.UNEXPECTED, (words, said.err)
        if "take on the role" in said.err:
            refused += 1
            assert said.code == Exit.REFUSED
            assert f"does not let {name} take on the role {lacking}" in said.err, (words, said.err)
            assert f"Next: grant {lacking} to {name}, or set LOCKSTEP_DSN to a login that has it" in said.err
            assert said.err.count("\n") == 1
    assert refused or lacking == "lockstep_partition", "only tasks that commit take it on"
    assert here.drill.ask("select count(*) from lockstep.attempt where fault = 'data'") == [(0,)]


def test_a_right_that_a_target_takes_is_named_and_blames_no_data(lockstep, here, admin):
    """The column is that of `bigserial`: its sequence is the targets' owner's alone."""
    admin("set role lockstep_targets; create sequence public.nth")
    admin("alter table public.drill add column nth bigint default nextval('public.nth')")

    said = [lockstep("run", "drill", "--json") for _ in range(4)]

    assert [each.code for each in said] == [Exit.REFUSED] * 4, said[-1].err
    words = "public.drill may not be written: permission denied for sequence nth"
    assert all(words in each.err for each in said)
    assert "Next: grant that to lockstep_committer, then lockstep run drill" in said[0].err
    assert here.drill.ask("select distinct fault from lockstep.attempt") == [("surroundings",)]
    admin("grant usage on sequence public.nth to lockstep_committer")
    assert lockstep("run", "drill", "--until-idle").code == Exit.DONE
    assert here.drill.ask("select count(*), count(nth) from public.drill") == [(150, 150)]


@pytest.mark.parametrize(
    ("guarantee", "behind"), [("PerBatch()", ""), ("PerPartition()", ""), ("PerBatch()", "_rows")], ids=str
)
def test_a_column_that_counts_by_a_sequence_is_filled_by_every_writer(lockstep, here, guarantee, behind):
    """Postgres asks who inserts, and not the table's owner, for the right on the sequence of a `bigserial`."""
    here.rewrite("limits=", f"guarantee={guarantee}, limits=")
    here.rewrite("import Append,", f"import {guarantee[:-2]}, Append,")
    target = here.drill.home / "drill" / "target.sql"
    made = target.read_text().replace("public.drill (id text,", f"public.drill{behind} (nth bigserial, id text,")
    target.write_text(f"drop table public.drill; {made}")
    assert lockstep("migrate", "drill").code == Exit.DONE

    said = lockstep("run", "drill", "--until-idle")

    assert said.code == Exit.DONE, said.err
    assert here.drill.ask("select count(distinct nth), count(distinct id) from public.drill") == [(150, 150)]
