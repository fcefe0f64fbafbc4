"""Tests that upkeep merges the parts of old batches, and that no reader misses a row of them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import psycopg2
import pytest

from ledger.test_parts import COUNTED, LEAVES, held, in_parts, proven  # noqa: F401 - a fixture
from lockstep.adapters.postgres import COMMITTER, READER, snapshot, transaction
from lockstep.core.health.ledger_findings import MANY_PARTITIONS, target_findings
from lockstep.faults import InjectedFault
from lockstep.ledger.admin.facts import target_facts
from lockstep.steps.upkeep.merge_parts import merge_parts
from simulation.scene import told

RELKIND = "select relkind::text from pg_class where oid = 'public.drill_1'::regclass"


@pytest.mark.long
def test_the_oldest_batches_are_merged_until_few_parts_are_left(in_parts, drill, produce):  # noqa: F811
    here = in_parts(more=", check (n >= 0)")
    here.drain()
    produce(drill.topic, [(f"k{n}", f'{{"id": "r{150 + n}", "n": {150 + n}}}') for n in range(60)])
    here.drain()
    assert len(drill.ask(LEAVES)) == 6
    assert merge_parts(here.at.conn, kept=6) == ([], [])
    assert merge_parts(here.at.conn, kept=5) == (["public.drill_1"], [])
    assert drill.ask(LEAVES) == [("drill_1",), *((f"drill_2_part_{n}",) for n in (1, 2, 3))]
    assert drill.ask("select count(*) from pg_indexes where tablename = 'drill_1'") == [(2,)]
    assert drill.ask(COUNTED) == [(210, 210)]
    assert merge_parts(here.at.conn, kept=0) == (["public.drill_2"], [])
    assert merge_parts(here.at.conn, kept=0) == ([], [])
    owners = (
        "select distinct relowner::regrole::text, relacl::text from pg_class where relname in ('drill_1', 'drill_2')"
    )
    assert [owner for owner, acl in drill.ask(owners)] == ["lockstep_targets"]
    assert drill.violations() == []
    proven(here, deep=True)
    here.code = lambda value: value | {"n": value["n"] * 2}
    here.replay("0:5", "0:15")
    assert drill.ask(COUNTED) == [(210, 210)]
    proven(here)


def test_a_snapshot_from_before_a_merge_misses_no_row(in_parts, drill):  # noqa: F811
    here = in_parts()
    here.drain()
    with closing(psycopg2.connect(drill.dsn)) as early, snapshot(early, READER) as cur:
        cur.execute("select count(*) from lockstep.batch")  # its snapshot is taken, and the table is not looked at
        assert merge_parts(here.at.conn, kept=0) == (["public.drill_1"], [])
        cur.execute(COUNTED)
        assert cur.fetchone() == (150, 150)
    held(drill)


@pytest.mark.long
def test_a_reader_of_the_table_is_not_waited_for(in_parts, drill):  # noqa: F811
    here = in_parts()
    here.drain()
    with closing(psycopg2.connect(drill.dsn)) as reader:
        reader.cursor().execute("set role lockstep_reader; select count(*) from public.drill")
        assert merge_parts(here.at.conn, kept=0) == (
            [],
            ["the parts of public.drill_1: a reader of public.drill is in the way"],
        )
    assert drill.ask(RELKIND) == [("p",)]
    held(drill)


@pytest.mark.long
def test_a_batch_that_has_lost_rows_stays_in_parts(in_parts, drill):  # noqa: F811
    here = in_parts()
    here.drain()
    here.code = lambda value: value | {"n": value["n"] * 2}
    here.replay("0:5", "0:15")
    assert merge_parts(here.at.conn, kept=0) == ([], [])
    assert drill.ask(RELKIND) == [("p",)]
    proven(here)


@pytest.mark.long
def test_what_a_person_has_attached_there_stays(in_parts, drill):  # noqa: F811
    here = in_parts()
    here.drain()
    drill.ask(
        "set role lockstep_targets; create table public.mine partition of public.drill_1 for values in (99); select 1"
    )
    assert merge_parts(here.at.conn, kept=0) == ([], [])
    held(drill)


@pytest.mark.long
def test_a_merge_that_dies_changes_nothing_and_the_next_one_does_it(in_parts, drill, monkeypatch, tmp_path):  # noqa: F811
    here = in_parts()
    here.drain()
    (armed := tmp_path / "armed").touch()
    monkeypatch.setenv("LOCKSTEP_FAULT", f"upkeep.parts_copied=raise@{armed}")
    with pytest.raises(InjectedFault):
        merge_parts(here.at.conn, kept=0)
    assert drill.ask(RELKIND) == [("p",)]
    held(drill)
    assert merge_parts(here.at.conn, kept=0) == (["public.drill_1"], [])
    held(drill)


def test_a_row_is_not_deleted_between_the_copy_and_the_end_of_a_merge(in_parts, drill, monkeypatch):  # noqa: F811
    """The copy still has the row: it would be back once the copy replaces the parts."""
    here = in_parts()
    here.drain()
    said = []

    def delete(_: str) -> None:
        with closing(psycopg2.connect(drill.dsn)) as other, other.cursor() as cur:
            cur.execute("set role lockstep_targets; set lock_timeout = '300ms'")
            said.append(told(lambda: cur.execute("delete from public.drill where id = 'r7'")))
            other.commit()

    monkeypatch.setattr("lockstep.steps.upkeep.merge_parts.reach", delete)

    assert merge_parts(here.at.conn, kept=0) == (["public.drill_1"], [])

    assert [each.partition(":")[0] for each in said] == ["LockNotAvailable"]
    held(drill)


@pytest.mark.long
def test_only_a_copy_of_this_transaction_takes_the_place_of_parts(in_parts, drill):  # noqa: F811
    here = in_parts()
    here.drain()
    drill.ask("set role lockstep_targets; create table public.drill_1_merged (like public.drill); select 1")
    refused = None
    try:
        with transaction(here.at.conn, COMMITTER) as cur:
            cur.execute("select lockstep.end_merge('public.drill', 'public.drill_1', 'public.drill_1_merged')")
    except psycopg2.DatabaseError as error:
        refused = error.diag.constraint_name
    assert refused == "own_merge"
    held(drill)


@pytest.mark.long
def test_doctor_counts_parts_among_the_partitions(in_parts):  # noqa: F811
    here = in_parts()
    here.drain()
    with transaction(here.at.conn, None) as cur:
        facts = target_facts(cur, here.folder.pipeline)
    assert (facts.partitions, facts.parts) == (3, 3)
    many = replace(facts, partitions=MANY_PARTITIONS + 1, parts=900)
    (finding,) = target_findings("drill", many)
    assert finding is not None
    assert finding.found == "1,001 partitions, 900 of them parts of batches"
    assert finding.remedy.startswith("lockstep reap, which merges the parts of old batches")
    assert target_findings("drill", facts) == [None]
