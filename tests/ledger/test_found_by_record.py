"""Tests that the rows of a record are found by an index: by lineage, blame, a preview and a replay of a large table."""

from __future__ import annotations

from contextlib import closing

import pytest

from lockstep.adapters.postgres import READER, TARGETS_ROLE, connect, transaction
from lockstep.ledger.admin.origin_index import ENDING, origin_index
from lockstep.ledger.migrate import migrate_target
from lockstep.ledger.views import tracing
from lockstep.steps.changes.evolve import apply, propose
from support.scenes.here import ME

ROWS = 50_000
INDEXES = """select pg_get_indexdef(indexrelid) from pg_index
    where indrelid = 'public.drill'::regclass and not indisunique order by 1"""
SCANS = "select seq_tup_read::int from pg_stat_user_tables where relid = 'public.drill'::regclass"
MANY = """insert into public.drill select 'other ' || i, {of_others}, 1 + i %% 3, 1000000 + i, 0, 1
    from generate_series(1, {rows}) i; analyze public.drill"""
OF_OTHERS = {"upsert": "i", "accumulate": "i, 1"}


def owner(here, statement: str) -> None:
    with closing(connect(here.drill.dsn)) as conn, transaction(conn, TARGETS_ROLE) as cur:
        cur.execute(statement.replace("%%", "%"))


def read_in_turn(here) -> int:
    """Returns the rows that sequential scans of the table have read. A closed session has reported its own."""
    here.at.close()
    here.at = type(here)(here.drill).at
    ((read,),) = here.drill.ask("select pg_sleep(0.05) is null or true") and here.drill.ask(SCANS)
    return read


@pytest.mark.parametrize("kind", ["upsert", pytest.param("accumulate", marks=pytest.mark.long)])
def test_no_look_for_the_rows_of_a_record_reads_a_large_table_through(contents, kind):
    here = contents(kind)
    here.drain()
    ((stream, offset, key),) = here.drill.ask("select _stream, _offset, id from public.drill where id = 'r149'")
    partition = here.drill.ask(f"select partition from lockstep.stream where stream_id = {stream}")[0][0]
    ((rows,),) = here.drill.ask(f"select count(*) from public.drill where _stream = {stream}")
    owner(here, MANY.format(of_others=OF_OTHERS[kind], rows=ROWS))
    before = read_in_turn(here)

    with transaction(here.at.conn, READER) as cur:
        found = tracing.outcome_of_record(cur, here.folder.pipeline, partition, offset)
        blamed = tracing.record_of_row(cur, here.folder.pipeline, [key])
    assert [row["id"] for row in found["rows"]] == ["r149"]
    assert (blamed["partition"], blamed["offset"]) == (partition, offset)
    assert read_in_turn(here) == before

    shown, _ = here.preview("replay", f"{partition}:0")
    assert (shown.counts["unchanged"], shown.counts["changed"], shown.counts["removed"]) == (rows, 0, 0)
    assert read_in_turn(here) == before

    assert here.replay(f"{partition}:0")[0].batch_id
    assert read_in_turn(here) == before
    assert here.drill.ask("select count(*), count(*) filter (where left(id, 1) = 'r') from public.drill") == [
        (ROWS + 150, 150)
    ]


SCANNED = """select relname, seq_scan + coalesce(idx_scan, 0) from pg_stat_user_tables where relid in (
    select inhrelid from pg_inherits where inhparent = 'public.drill'::regclass) order by 1"""


def test_a_replay_of_a_table_by_batch_touches_its_batches_partitions_alone(contents, drill, produce):
    here = contents("by batch")
    here.drain()
    for batch in range(2):
        produce(drill.topic, [("k", f'{{"id": "later {batch}", "n": 1}}')])
        here.drain()
    owner(here, "analyze public.drill")
    read_in_turn(here)
    before = dict(drill.ask(SCANNED))
    assert len(before) == 3
    replayed = min(before)

    here.replay("1", "1")

    read_in_turn(here)
    after = dict(drill.ask(SCANNED))
    assert [part for part in before if part in after and after[part] != before[part]] in ([replayed], [])
    assert drill.ask("select count(*), count(distinct id) from public.drill") == [(152, 152)]


@pytest.mark.parametrize("kind", ["upsert", pytest.param("accumulate", marks=pytest.mark.long)])
def test_a_table_that_had_rows_before_gets_its_index_by_a_decision(contents, kind):
    here = contents(kind)
    ((made,),) = here.drill.ask(INDEXES)
    assert made.endswith("(_stream, _offset)")
    assert f"drill{ENDING}" in made
    here.drain()
    owner(here, f"drop index public.drill{ENDING}")
    sql = here.drill.home / "drill" / "target.sql"
    sql.write_text(sql.read_text().replace("create table public", "create table if not exists public"))
    migrate_target(here.at.conn, here.folder)
    assert here.drill.ask(INDEXES) == []
    pipeline = here.folder.pipeline
    how = here.at.conn, pipeline, [pipeline.columns]

    (change,) = propose(*how).changes
    done = apply(*how, propose(*how).digest, ME)

    assert done.statements == (change.statement,) == (origin_index(here.at.conn.cursor(), "public.drill"),)
    assert here.drill.ask(INDEXES) == [(made,)]
    assert here.drill.ask("select detail -> 'statements' from lockstep.decision") == [([change.statement],)]
    assert propose(*how).changes == ()
