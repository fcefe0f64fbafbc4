"""Tests that Postgres plans for as many rows as there are, though its statistics know nothing of a new table or batch."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lockstep.adapters.postgres import OWNER, transaction
from lockstep.core.planning.decisions import Caller
from lockstep.core.staging import STAGING_SCHEMA, AttemptId
from lockstep.ledger.batch.commit import committed_ranges
from lockstep.ledger.batch.results import stream_totals
from lockstep.steps.batch import stage as staging
from lockstep.steps.batch.plan import plan
from support.fakes.ledger_rows import commit_in
from support.scenes.here import Here

KNOWN = f"select reltuples::int from pg_class where relnamespace = '{STAGING_SCHEMA}'::regnamespace and relname = %s"


@pytest.mark.parametrize(("many", "known"), [(1, True), (1_000_000, False)], ids=["many", "few"])
def test_many_staged_rows_are_looked_at_before_they_are_counted_and_sorted(drill, monkeypatch, many, known):
    monkeypatch.setattr(staging, "MANY", many)
    here, who = Here(drill), Caller("me")

    planned = plan(here.at.conn, here.at.broker, here.folder, who, datetime.now(UTC))
    attempt = staging.stage(here.at, here.engine, here.folder, planned.batch_id, who)
    here.at.close()

    (staged,) = drill.ask("select sum(rows)::int from lockstep.manifest")
    assert staged > (0,)
    assert drill.ask(KNOWN, attempt.table) == [staged if known else (-1,)]


ROWS_READ = """select sum(seq_tup_read + idx_tup_fetch)::int from pg_stat_xact_user_tables
    where schemaname = 'lockstep' and relname in ('batch_range', 'commit', 'manifest', 'result')"""
SEEN_OF_STREAMS = """(select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables
    where schemaname = 'lockstep' and relname = 'stream')::int"""
RANGES = 200


def rows_read(cur) -> int:
    cur.execute(ROWS_READ)
    return cur.fetchone()[0]


def test_each_range_of_a_wide_batch_is_looked_up_by_itself(ledger):
    first = ledger.stream(0)
    for begin in range(3):
        ledger.done({first: (begin, begin + 1)})
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("analyze lockstep.batch_range, lockstep.commit, lockstep.result")  # they know narrow batches alone
    batch = ledger.planned({ledger.stream(partition): (0, 5) for partition in range(1, RANGES + 1)})
    token = ledger.opened(batch)
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute(
            "insert into lockstep.manifest select %s, %s, 1, stream_id, 5, 5, 0, 5, 10, 10, 30, 0, 4, now(), now(), 0, 0"
            " from lockstep.batch_range where batch_id = %s",
            (batch, token, batch),
        )
        commit_in(cur, batch, token)
        cur.execute("set local enable_seqscan = off")  # a ledger is larger
        begin = rows_read(cur)
        totals = stream_totals(cur, AttemptId(batch, token))
        told = committed_ranges(cur, batch)
        cur.execute("set constraints lockstep.committed_whole immediate")
        assert rows_read(cur) - begin < 20 * RANGES
    assert [(row.delivered, row.rows, row.first_offset, row.last_offset) for row in totals] == [(5, 5, 0, 4)] * RANGES
    assert [(row.partition, row.delivered, row.state) for row in told] == [
        (n + 1, 5, "committed") for n in range(RANGES)
    ]


def test_a_pipeline_of_many_partitions_is_born_without_a_look_at_every_stream_for_each(ledger):
    for partition in range(3):
        ledger.stream(partition)
    with transaction(ledger.conn, OWNER) as cur:
        cur.execute("insert into lockstep.pipeline (name) values ('wide')")
        cur.execute(f"select {SEEN_OF_STREAMS}")
        (begin,) = cur.fetchone()
        cur.execute(
            "insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset,"
            " position) select 'wide', 'c', 'wide', 'i', n, 0, 0, 0, 0 from generate_series(0, %s) n",
            (RANGES - 1,),
        )
        cur.execute(f"select {SEEN_OF_STREAMS}, (select count(*) from lockstep.stream where pipeline = 'wide')")
        seen, streams = cur.fetchone()
    assert streams == RANGES
    assert seen - begin < 20 * RANGES
