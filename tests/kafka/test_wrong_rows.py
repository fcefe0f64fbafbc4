"""Tests that verify names the command that puts wrong rows right, and that nothing is wrong after it."""

from __future__ import annotations

import json

import pytest

from lockstep.core.errors import Refusal
from lockstep.core.proof.verification import next_step
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.proof.recount import Recounted, recount
from lockstep.steps.proof.verify import verify
from support.scenes.here import ME

UPSERT = 'Upsert("public.drill", key=("id",))'
COPY = "insert into {0} select t.* from {0} t where id = 'r7'"
SPOILS = {
    "changed": "update {0} set {1} = 4711 where id = 'r7'",
    "deleted": "delete from {0} where id = 'r7'",
    "emptied": "delete from {0} where id in ('r3', 'r7', 'r149')",
}


def append(verified):
    verified.into('Append("public.drill")', "id text, n int", "_stream, _offset, _ordinal")


def append_per_partition(verified):
    append(verified)
    verified.here.rewrite("limits=", "guarantee=PerPartition(), limits=")
    migrate_target(verified.here.at.conn, verified.here.folder)


def append_behind_a_view(verified):
    table = """create table if not exists public.drill_rows (id text, n int, _stream int4 not null, _offset int8 not null,
        _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal))"""
    (verified.here.drill.home / "drill" / "target.sql").write_text(table)
    verified.spoil("drop table public.drill")
    migrate_target(verified.here.at.conn, verified.here.folder)


def append_by_batch(verified):
    verified.into(
        'Append("public.drill")', "id text, n int", "_stream, _offset, _ordinal, _batch", "partition by list (_batch)"
    )


def upsert(verified):
    verified.into(UPSERT, "id text, n int", "id", format_='Json("id string, n int", key="id")')


def accumulate(verified):
    totals = 'Accumulate("public.drill", key=("id",), totals=(Count("records"), Sum("n", of="n")))'
    verified.into(totals, "id text, records bigint, n numeric", "id")


def history(verified):
    columns = (
        "id text not null, n int, valid_from timestamptz not null, valid_until timestamptz, _deleted boolean not null"
    )
    verified.into(
        'History("public.drill", key=("id",))',
        columns,
        "_stream, _offset, _ordinal",
        format_='Json("id string, n int", key="id")',
    )


TARGETS = (append, append_per_partition, append_behind_a_view, append_by_batch, upsert, accumulate, history)


def then(verified, *, deep: bool) -> str | None:
    return next_step("drill", verified.checks(deep=deep), deep=deep)


def put_right(verified) -> list[str]:
    """Runs what verify names until it names nothing. Returns these commands."""
    done = []
    for _ in range(5):
        command = then(verified, deep=False) or then(verified, deep=True)
        if command is None:
            return done
        done.append(command)
        match command.split():
            case ["lockstep", "verify", "drill", "--deep"]:
                command = then(verified, deep=True)
                assert command is not None
                done.append(command)
        match command.split():
            case ["lockstep", "replay", "drill", "--batch", batch]:
                verified.here.replay(batch, batch)
            case ["lockstep", "recount", "drill", "--reason", "..."]:
                recount(verified.here.at.conn, verified.here.at.broker, verified.here.folder, ME)
            case other:
                raise AssertionError(other)
    raise AssertionError(done)


@pytest.mark.parametrize(
    "spoil", [spoil if spoil == "deleted" else pytest.param(spoil, marks=pytest.mark.long) for spoil in SPOILS]
)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_verify_leads_to_the_command_that_puts_wrong_rows_right(verified, target, spoil):
    target(verified)
    verified.here.rewrite("records=200", "records=60")
    verified.here.drain()
    assert (verified.wrong(), verified.wrong(deep=False)) == ({}, {})
    table = "public.drill_rows" if target is append_behind_a_view else "public.drill"
    whole = verified.here.drill.ask("select id, n from public.drill order by id, n")
    assert len(whole) == 150
    verified.spoil(SPOILS[spoil].format(table, "n"))
    assert verified.wrong() != {}

    done = put_right(verified)

    assert any("replay drill --batch" in command for command in done)
    assert verified.here.drill.ask("select id, n from public.drill order by id, n") == whole
    assert (verified.wrong(), verified.wrong(deep=False)) == ({}, {})


def test_a_row_that_a_later_record_has_brought_back_is_counted_on_by_decision(verified, produce):
    upsert(verified)
    verified.here.drain()
    verified.spoil(SPOILS["deleted"].format("public.drill"))
    produce(verified.here.drill.topic, [("r7", json.dumps({"id": "r7", "n": 8}))], partition=0)
    with pytest.raises(Refusal, match=r"each key's newest record is its row: .*its row is missing"):
        recount(verified.here.at.conn, verified.here.at.broker, verified.here.folder, ME)
    verified.here.drain()

    assert then(verified, deep=False) == "lockstep verify drill --deep"
    assert then(verified, deep=True) == "lockstep recount drill --reason ..."
    found = recount(verified.here.at.conn, verified.here.at.broker, verified.here.folder, ME)
    assert found == (Recounted("public.drill", 151, 150),)
    assert (verified.wrong(), verified.wrong(deep=False)) == ({}, {})
    assert recount(verified.here.at.conn, verified.here.at.broker, verified.here.folder, ME) == ()
    told = verified.here.drill.ask("select detail from lockstep.decision where kind = 'recount'")
    assert told == [({"target": "public.drill", "rows": -1},)]

    verified.spoil("delete from public.drill where id = 'r9'")
    assert verified.wrong(deep=False).keys() == {"rows are all there"}


def test_only_tables_whose_keys_are_counted_are_counted_anew(verified):
    append(verified)
    verified.here.drain()
    with pytest.raises(Refusal, match="only rows of upserted tables") as no:
        recount(verified.here.at.conn, verified.here.at.broker, verified.here.folder, ME)
    assert no.value.next_command == "lockstep verify drill"


def test_rejects_that_are_gone_come_back_with_a_replay(verified, produce):
    append(verified)
    verified.here.rewrite("limits=", "max_reject_share=1.0, limits=")
    produce(verified.here.drill.topic, [("k", "{no json")], partition=0)
    verified.here.drain()
    (reject,) = verified.here.drill.ask('select "offset", reason, value from lockstep.reject')
    verified.spoil("delete from lockstep.reject")
    assert "rejects are all there" in verified.wrong(deep=False)

    (command,) = put_right(verified)

    assert command.startswith("lockstep replay drill --batch ")
    assert verified.here.drill.ask('select "offset", reason, value from lockstep.reject') == [reject]
    checks = verify(verified.here.at.conn, verified.here.at.broker, verified.here.folder, deep=True)
    assert all(check.ok for check in checks)
