"""Tests a range's commit and a batch's closing: each rule by constraint alone, and by the code alone."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import COMMITTER, OWNER, PARTITION_ROLE, PLANNER, STAGER, connect, transaction
from lockstep.core.errors import LockTimeout, PositionMoved, Refusal, Superseded
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.proof.accounting import Digest, ManifestLine
from lockstep.core.staging import AttemptId
from lockstep.ledger.batch import ranges
from lockstep.ledger.batch.commit import my_backend
from lockstep.ledger.changes import decisions


class Half:
    """A batch over two streams, tried once, each range to be committed by itself."""

    def __init__(self, ledger) -> None:
        self.ledger = ledger
        self.streams = [ledger.stream(p) for p in range(2)]
        self.batch = ledger.planned(dict.fromkeys(self.streams, (0, 10)))
        self.attempt = self.again()

    def again(self) -> AttemptId:
        return AttemptId(self.batch, self.ledger.opened(self.batch, unit="stream"))

    def item(self, place: int) -> StreamRange:
        return StreamRange(self.streams[place], OffsetRange(TopicPartition("orders.v1", place), 0, 10))

    def write(self, cur, place: int, attempt: AttemptId | None = None) -> None:
        item = self.item(place)
        line = ManifestLine(1, item.stream_id, 10, 10, 0, 10, 100, Digest(10, 45, 285), 0, 9)
        ranges.write_range_ledger(cur, attempt or self.attempt, item, ranges.RangeRead(line, (0, 0)), "live", "d1")  # type: ignore[arg-type]

    def commit(self, conn, place: int, attempt: AttemptId | None = None) -> None:
        with transaction(conn, PARTITION_ROLE) as cur:
            ranges.require_newest_of_range(cur, attempt or self.attempt)
            self.write(cur, place, attempt)

    def positions(self) -> list[int]:
        return [at for (at,) in self.ledger.ask("select position from lockstep.stream order by stream_id")]


@pytest.fixture
def half(ledger):
    return Half(ledger)


def test_a_range_is_committed_while_its_batch_is_not(half, conn):
    half.commit(conn, 0)

    assert half.positions() == [10, 0]
    assert half.ledger.ask("select stream_id from lockstep.claim") == [(half.streams[1],)]
    said = r"orders.v1-1 \[0, 10\): batch 1 has not committed this range"
    with pytest.raises(Refusal, match=said), transaction(conn, COMMITTER) as cur:
        ranges.require_all_ranges(cur, half.batch)


@pytest.mark.parametrize(
    "act",
    [
        """insert into lockstep.attempt (batch_id, token, definition_hash, owner, lease_until)
        values (%(b)s, nextval('lockstep.token_seq'), 'd1', 'me', now())""",
        "update lockstep.attempt set unit = 'batch' where batch_id = %(b)s",
    ],
    ids=["insert", "update"],
)
def test_no_attempt_takes_a_batch_as_a_whole_of_which_a_range_is_committed(half, conn, act):
    with transaction(conn, OWNER) as cur:
        cur.execute(act, {"b": half.batch})
        conn.rollback()
    half.commit(conn, 0)

    with pytest.raises(errors.CheckViolation, match="one_unit: batch 1 is committed range by range"):
        half.ledger.ask(f"{act} returning 1", b=half.batch)

    half.again()
    half.commit(conn, 1, half.again())
    assert half.positions() == [10, 10]


def test_an_older_attempt_is_refused_by_the_code_alone(half, conn):
    half.again()
    half.ledger.ask("drop trigger newest_attempt on lockstep.commit; select 1")
    with pytest.raises(Superseded, match="may not commit"):
        half.commit(conn, 0)


def test_an_older_attempt_is_refused_by_the_constraint_alone(half, conn):
    half.again()
    with pytest.raises(errors.CheckViolation, match="newest_attempt"), transaction(conn, PARTITION_ROLE) as cur:
        half.write(cur, 0)


@pytest.mark.parametrize("by", ["code", "constraint"])
def test_no_attempt_is_opened_between_a_ranges_fence_and_its_commit(half, conn, database, by):
    if by == "code":
        half.ledger.ask("drop trigger newest_attempt on lockstep.commit; select 1")
    with closing(connect(database)) as other, transaction(conn, PARTITION_ROLE) as cur:
        if by == "code":
            ranges.require_newest_of_range(cur, half.attempt)
        half.write(cur, 0)
        with pytest.raises(LockTimeout), transaction(other, STAGER, lock_seconds=0.2) as opener:
            opener.execute("select 1 from lockstep.batch for no key update")


def test_two_last_tasks_that_do_not_see_each_other_both_commit_and_leave_the_closing_to_the_driver(
    half, conn, database
):
    with (
        closing(connect(database)) as other,
        transaction(conn, PARTITION_ROLE) as one,
        transaction(other, PARTITION_ROLE) as two,
    ):
        for cur, place in ((one, 0), (two, 1)):
            ranges.require_newest_of_range(cur, half.attempt)
            half.write(cur, place)

    assert half.positions() == [10, 10]
    assert half.ledger.ask("select state from lockstep.batch") == [("planned",)]
    with transaction(conn, COMMITTER) as cur:
        ranges.require_all_ranges(cur, half.batch)


def test_a_batch_does_not_close_over_a_range_that_is_not_committed(half, conn):
    half.commit(conn, 0)
    with pytest.raises(errors.CheckViolation, match="committed_whole"), transaction(conn, OWNER) as cur:
        cur.execute("delete from lockstep.claim; update lockstep.batch set state = 'committed', closed_at = now()")


def test_abandoning_keeps_what_is_committed_and_frees_the_rest(half, conn):
    half.commit(conn, 0)
    with transaction(conn, PLANNER) as cur:
        decisions.abandon_batches(cur, [half.batch], "not wanted")
        decisions.release_claims(cur, [half.batch])

    assert half.positions() == [10, 0]
    assert half.ledger.ask("select state from lockstep.batch") == [("abandoned",)]
    with pytest.raises(Superseded):
        half.commit(conn, 1)
    assert half.ledger.planned({half.streams[1]: (0, 10), half.streams[0]: (10, 20)}) != half.batch


def test_what_was_committed_as_a_whole_is_not_abandoned(ledger, conn):
    stream = ledger.stream(0)
    batch = ledger.planned({stream: (0, 10)})
    token = ledger.opened(batch)
    half_done = """
        insert into lockstep.result values (%(b)s, %(t)s, %(s)s, 0, 0, 0, 0, 0, 0, null, null, null, null, 0, 0, 0, 0, 0, 0, 0);
        insert into lockstep.commit (batch_id, stream_id, token, definition_hash) values (%(b)s, %(s)s, %(t)s, 'd1');
        delete from lockstep.claim;
        update lockstep.batch set state = 'abandoned', closed_at = now()"""
    with pytest.raises(errors.CheckViolation, match="committed_whole"), transaction(conn, OWNER) as cur:
        cur.execute(half_done, {"b": batch, "t": token, "s": stream})


NOT_ITS_OWN = [
    "delete from lockstep.claim where stream_id = %(other)s",
    "delete from lockstep.coverage where stream_id = %(other)s",
    "update lockstep.stream set position = position + 1 where stream_id = %(other)s",
    "update lockstep.stream set position = position + 1 where stream_id = %(own)s",
]


@pytest.mark.parametrize("statement", NOT_ITS_OWN)
def test_a_tasks_role_changes_nothing_that_its_batch_does_not_claim(half, conn, statement):
    other = half.ledger.stream(2)
    half.ledger.covered(other, 0, 10, "skipped")
    half.ledger.planned({other: (10, 20)}, lane="fill")  # no attempt of it commits by stream
    known = {"other": other, "own": half.streams[0]}
    with pytest.raises(errors.CheckViolation, match="own_range"), transaction(conn, PARTITION_ROLE) as cur:
        cur.execute(statement, known)


def test_a_tasks_role_changes_nothing_once_its_attempt_is_closed(half, conn):
    half.ledger.ask("update lockstep.attempt set state = 'failed', closed_at = now() returning 1")
    with pytest.raises(errors.CheckViolation, match="own_range"), transaction(conn, PARTITION_ROLE) as cur:
        cur.execute("delete from lockstep.claim where stream_id = %s", (half.streams[0],))


def test_a_position_that_has_moved_on_refuses_the_range(half, conn):
    half.ledger.covered(half.streams[0], 0, 3, "skipped")
    half.ledger.ask("alter table lockstep.coverage drop constraint no_offset_twice; select 1")
    with pytest.raises(PositionMoved, match=r"orders.v1-0 \[0, 10\)"):
        half.commit(conn, 0)


def test_opening_an_attempt_ends_the_recorded_tasks_of_older_ones_and_nobody_else(half, conn, database):
    with closing(connect(database)) as task, closing(connect(database)) as bystander:
        with transaction(task, None) as cur:
            backend = my_backend(cur)
        with transaction(task, PARTITION_ROLE) as cur:
            ranges.record_task(cur, half.attempt, backend)
        with transaction(conn, None) as cur:
            ranges.end_older_tasks(cur, half.batch)
        with bystander, bystander.cursor() as cur:
            cur.execute("select 1")
            cur.execute("select count(*) from pg_stat_activity where pid = %s", (backend.pid,))
            assert cur.fetchone()[0] == 0


def test_a_second_try_at_a_range_waits_for_the_first_and_finds_its_commit_row(half, conn, database):
    found = []

    def second_try() -> None:
        with closing(connect(database)) as other, transaction(other, PARTITION_ROLE) as cur:
            ranges.lock_range(cur, half.attempt, half.streams[0])
            found.append(ranges.range_committed_by(cur, half.batch, half.streams[0]))

    trying = threading.Thread(target=second_try)
    with transaction(conn, PARTITION_ROLE) as cur:
        ranges.lock_range(cur, half.attempt, half.streams[0])
        trying.start()
        time.sleep(0.3)
        assert found == []
        ranges.require_newest_of_range(cur, half.attempt)
        half.write(cur, 0)
    trying.join()

    assert found == [half.attempt.token]


MAY_NOT = [
    "update lockstep.batch set state = 'committed'",
    "update lockstep.batch set token = 9",
    "update lockstep.attempt set state = 'committed'",
    "update lockstep.stream set retired_at = now()",
    "insert into lockstep.attempt (batch_id) values (1)",
    "insert into lockstep.claim (stream_id) values (1)",
    "insert into lockstep.verdict (batch_id) values (1)",
    "delete from lockstep.commit",
    "delete from lockstep.task_backend",
    "create table lockstep_staging.x (i int)",
]


@pytest.mark.parametrize("statement", MAY_NOT)
def test_a_task_may_not_do_anothers_work(conn, statement):
    with pytest.raises(errors.InsufficientPrivilege), transaction(conn, PARTITION_ROLE) as cur:
        cur.execute(statement)
