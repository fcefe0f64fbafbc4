"""Tests that coverage below log start becomes one row, and every answer about it stays the same."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.adapters.postgres import READER, connect, transaction
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.offsets import Bounds, TopicView
from lockstep.core.planning.bounds import AtOffsets
from lockstep.core.states import Lane
from lockstep.ledger.views import tracing
from lockstep.steps.proof.verify import verify
from lockstep.steps.requests import requests
from lockstep.steps.upkeep.coverage import Upkept, upkeep
from simulation.world import ME, World
from support.fakes.ledger_rows import CLUSTER, TOPIC, TOPIC_ID
from support.scenes.archived import drop_archived, put_archived

PARTITIONS = itertools.count()
PIECE = st.tuples(
    st.sampled_from(["batch", "batch", "batch", "skipped", "loss"]),
    st.integers(1, 4),
    st.sampled_from([None, None, None, None, "claimed", "asked"]),
)


def history(tmp_path, database, *, kind: str = "appended") -> World:
    """Makes four batches of five offsets in each of three partitions.

    The second and third of partition 0 are replayed as one.
    """
    world = World(database, tmp_path, kind=kind)
    for content in ("data", "garbage", "deletion", "data"):
        for partition in range(3):
            world.log.produce(partition, 5, kind=content if partition == 0 else "data")
        world.run()
    world.redo("replay", {0: 5}, {0: 15})
    return world


def trimmed(world: World, until: int, *partitions: int) -> World:
    for partition in partitions:
        world.log.trim(partition, until)
    return world


def kept(world: World, **how: int) -> Upkept:
    with world._at() as at:  # noqa: SLF001 - a world's own way to its ledger
        return upkeep(at.conn, at.broker.view, **({"least": 2} | how))


def coverage(world: World, partition: int = 0) -> list[tuple]:
    return world.ask(
        "select lower(c.offsets), upper(c.offsets), c.kind from lockstep.coverage c join lockstep.stream s using (stream_id)"
        " where s.partition = %s order by 1",
        partition,
    )


def answers(world: World) -> dict:
    """Returns lineage's answer for every offset, and blame's for every key."""
    told = {}
    with closing(connect(world.dsn)) as conn, transaction(conn, READER) as cur:
        for partition, position in world.positions().items():
            for offset in range(position):
                told[partition, offset] = tracing.outcome_of_record(cur, world.pipeline, partition, offset)
            for key in range(7) if world.key else ():
                name = str(key) if world.log.anywhere else f"{partition}-{key}"
                try:
                    told[name] = tracing.record_of_row(cur, world.pipeline, [name])  # type: ignore[index]
                except Refusal as refusal:
                    told[name] = refusal.message  # type: ignore[assignment, index]
    return told


def forgotten(world: World, before: dict) -> list[str]:
    """Returns today's answers for keys whose answer has changed."""
    return [answer for name, answer in answers(world).items() if answer != before[name]]


def unkept(world: World) -> list[str]:
    """Returns the faults that verify and the independent checker find."""
    with closing(connect(world.dsn)) as conn:
        checks = verify(conn, None, world.folder, deep=False)
    return [f"{check.name}: {check.detail}" for check in checks if not check.ok] + world.violations()


@pytest.mark.parametrize("kind", ["appended", "keyed", "accumulated"])
def test_what_lies_below_log_start_becomes_one_row_and_every_answer_stays(database, tmp_path, kind):
    world = trimmed(history(tmp_path, database, kind=kind), 17, 0)
    before, positions, others = answers(world), world.positions(), coverage(world, 1)

    assert kept(world) == Upkept(
        merged=1, streams=1, forgotten=5 if kind == "keyed" else 0
    )  # a deletion of each key, also of those that came back

    assert coverage(world) == [(0, 15, "batch"), (15, 20, "batch")]
    assert (coverage(world, 1), world.positions()) == (others, positions)
    dead = ["public.house: the row with id = '0-3' is not there, and no tombstone says that it was"]
    assert forgotten(world, before) == (dead if kind == "keyed" else [])
    assert unkept(world) == []
    assert kept(world).merged == 0

    world.log.produce(0, 5)  # and the work goes on over it
    world.run()
    world.redo("replay", {0: 20}, {0: 25})
    trimmed(world, 25, 0)
    assert kept(world).merged == 2
    assert coverage(world) == [(0, 25, "batch")]
    assert unkept(world) == []


def test_a_replay_of_a_merged_stretch_is_refused_and_says_why(database, tmp_path):
    world = trimmed(history(tmp_path, database), 15, 0)
    kept(world)
    for begin, end in ((0, 5), (5, 15), (10, 20)):
        with pytest.raises(Refusal, match=r"house.v1-0 \[0, \d+\): its first segment begins below the log's start 15"):
            world.redo("replay", {0: begin}, {0: end})

    # a transform may mix partitions: a batch that is merged in one of them is not replayed in the others
    mixing = replace(world.folder, transform="def transform(records): ...")
    wanted = requests.NewRequest(Lane.REPLAY, AtOffsets({1: 0}), AtOffsets({1: 5}))
    with world._at() as at, pytest.raises(Refusal, match="below the log's start 15"):  # noqa: SLF001 - as above
        requests.open_request(at.conn, at.broker, mixing, wanted, ME, datetime.now(UTC))


def test_what_a_batch_claims_and_what_an_open_request_is_about_is_left_alone(database, tmp_path):
    world = history(tmp_path, database)
    before = coverage(world)
    world.dying("redo", "replay", {0: 0}, {0: 20}, fault="plan.committed=kill")
    trimmed(world, 20, 0)
    assert kept(world).merged == 0
    world.ask("delete from lockstep.claim")  # only the request is left
    assert kept(world).merged == 0
    assert coverage(world) == before

    world.ask("update lockstep.request set closed_at = now() where closed_at is null")

    assert world.dying("reap", fault="upkeep.merged=kill").kind == "killed"  # one transaction: nothing was merged
    assert coverage(world) == before
    assert kept(world).merged == 2


def test_what_was_filled_before_the_start_is_not_merged_with_what_follows_it(database, tmp_path):
    world = World(database, tmp_path)
    world.pipeline = replace(world.pipeline, start="latest")
    world.folder = replace(world.folder, pipeline=world.pipeline)
    world.log.produce(0, 10)
    world.run()
    world.log.produce(0, 10)
    world.run()
    world.redo("fill", {0: 0}, {0: 5})
    world.redo("fill", {0: 5}, {0: 10})
    trimmed(world, 20, 0)

    assert kept(world).merged == 1
    assert coverage(world) == [(0, 10, "batch"), (10, 20, "batch")]
    assert unkept(world) == []


def test_a_log_that_cannot_be_asked_or_is_another_one_is_left_as_it_is(conn, ledger):
    stream = ledger.stream(0)
    for begin in (0, 10):
        ledger.done({stream: (begin, begin + 10)})

    def away(_: str) -> TopicView:
        raise Unreachable("Kafka does not answer")

    assert upkeep(conn, away) == Upkept(0, 0)  # so little is not asked about
    assert upkeep(conn, away, least=2).left == (f"{TOPIC}: Kafka does not answer",)
    another = TopicView(CLUSTER, TOPIC, "another", {0: Bounds(20, 20)})
    assert upkeep(conn, lambda _: another, least=2) == Upkept(0, 0)
    assert rows(ledger, stream) == [(0, 10), (10, 20)]


def test_a_pipeline_that_is_planned_meanwhile_is_merged_the_next_time(conn, ledger, behind, monkeypatch):
    monkeypatch.setattr("lockstep.steps.upkeep.coverage.COVERAGE_LOCK_SECONDS", 0.2)
    stream = ledger.stream(0)
    for begin in (0, 10):
        ledger.done({stream: (begin, begin + 10)})
    view = TopicView(CLUSTER, TOPIC, TOPIC_ID, {0: Bounds(20, 20)})

    with behind("select 1 from lockstep.pipeline for no key update"):
        busy = upkeep(conn, lambda _: view, least=2)

    assert (busy.merged, [line.partition(":")[0] for line in busy.left]) == (0, [f"{TOPIC}-0"])
    assert upkeep(conn, lambda _: view, least=2).merged == 1


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(pieces=st.lists(PIECE, min_size=1, max_size=7), log_start=st.integers(0, 30), most=st.integers(2, 5))
def test_exactly_the_free_neighbours_below_log_start_are_merged(conn, ledger, pieces, log_start, most):
    partition = next(PARTITIONS)
    stream, at, expected, was_free = ledger.stream(partition), 0, [], False
    for kind, span, held in pieces:
        begin, at = at, at + span
        if kind == "batch":
            ledger.done({stream: (begin, at)})
        else:
            ledger.covered(stream, begin, at, kind)
        _hold(ledger, stream, begin, at, held)
        is_free = kind == "batch" and held is None and at <= log_start
        if is_free and was_free:
            begin = expected.pop()[0]
        expected.append((begin, at))
        was_free = is_free
    view = TopicView(CLUSTER, TOPIC, TOPIC_ID, {partition: Bounds(log_start, max(at, log_start))})

    done = upkeep(conn, lambda _: view, least=1, most=most)

    assert rows(ledger, stream) == expected
    assert done.merged == len(pieces) - len(expected)


def _hold(ledger, stream: int, begin: int, end: int, held: str | None) -> None:
    if held == "claimed":
        ledger.planned({stream: (begin, end)}, lane="fill")
    elif held == "asked":
        ledger.ask(
            """with r as (insert into lockstep.request (pipeline, lane, token, who, why)
                values ('orders', 'replay', 1, 'me', 'because') returning request_id)
            insert into lockstep.request_window select request_id, %(s)s, int8range(%(a)s, %(b)s) from r returning 1""",
            s=stream, a=begin, b=end,
        )  # fmt: skip


def rows(ledger, stream: int) -> list[tuple]:
    return ledger.ask(
        "select lower(offsets), upper(offsets) from lockstep.coverage where stream_id = %(s)s order by 1", s=stream
    )


@pytest.mark.long
def test_what_the_archive_holds_stays_apart_until_it_is_dropped(tmp_path, database):
    world = trimmed(history(tmp_path, database), 20, 0, 1)
    with closing(connect(world.dsn)) as conn:
        put_archived(conn, 1, 5, 7)
        assert kept(world).merged == 3
        assert coverage(world) == [(0, 20, "batch")]
        assert coverage(world, 1) == [(0, 5, "batch"), (5, 10, "batch"), (10, 20, "batch")]
        with pytest.raises(psycopg2.IntegrityError, match="archived_in_time"):
            put_archived(conn, 1, 12, 14)
        drop_archived(conn)
    assert kept(world).merged == 2
    assert coverage(world, 1) == [(0, 20, "batch")]
