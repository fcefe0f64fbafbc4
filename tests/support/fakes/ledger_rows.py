"""Writes ledger rows by hand, for tests of reading functions and of decisions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import OWNER, READER, transaction
from lockstep.core.offsets import Bounds, TopicView

if TYPE_CHECKING:
    from lockstep.adapters.kafka.broker import Broker as AnyBroker
else:
    AnyBroker = object  # only mypy takes it for one

CLUSTER, TOPIC, TOPIC_ID = "cluster-1", "orders.v1", "topic-1"
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def read(conn, ask, *arguments: Any, **options: Any):
    """Returns the answer of a reading function, called as the reader."""
    with transaction(conn, READER) as cur:
        return ask(cur, *arguments, **options)


class SayingBroker(AnyBroker):
    """A broker that answers with these views, one after another, and with the last one for ever."""

    def __init__(self, *views: TopicView) -> None:
        self.views = list(views)
        self.asked = 0
        self.kept: timedelta | None = None
        self.highs: dict[int, int] = {}
        self.times: dict[int, datetime | None] = {}

    def high_ends(self, view: TopicView) -> dict[int, int]:
        return {p: bounds.stable_end for p, bounds in view.bounds.items()} | self.highs

    def first_times(self, topic: str, at: dict[int, int], *, committed: bool = True) -> dict[int, datetime | None]:  # type: ignore[override]
        assert topic == self.views[0].topic
        assert at, committed
        return {p: self.times[p] for p in at if p in self.times}

    def retention(self, topic: str) -> timedelta | None:
        assert topic == self.views[0].topic
        return self.kept

    def view(self, topic: str) -> TopicView:
        self.asked += 1
        view = self.views.pop(0) if len(self.views) > 1 else self.views[0]
        assert view.topic == topic
        return view


def view(*bounds: tuple[int, int], topic_id: str = TOPIC_ID, cluster_id: str = CLUSTER) -> TopicView:
    return TopicView(cluster_id, TOPIC, topic_id, {p: Bounds(*pair) for p, pair in enumerate(bounds)})


class LedgerRows:
    """The rows of one pipeline. Every method is one transaction that has passed all constraints."""

    def __init__(self, conn, pipeline: str = "orders") -> None:
        self.conn = conn
        self.pipeline = pipeline

    def ask(self, query: str, **values: Any) -> list[tuple]:
        with transaction(self.conn, OWNER) as cur:
            cur.execute(query, values)
            return [tuple(row) for row in cur.fetchall()]

    def stream(
        self, partition: int, start: int = 0, incarnation: int = 0, epoch: int = 0, topic_id: str = TOPIC_ID
    ) -> int:
        with transaction(self.conn, OWNER) as cur:
            cur.execute("insert into lockstep.pipeline (name) values (%s) on conflict do nothing", (self.pipeline,))
            cur.execute(
                "insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch,"
                " start_offset, position) values (%s, %s, %s, %s, %s, %s, %s, %s, %s) returning stream_id",
                (self.pipeline, CLUSTER, TOPIC, topic_id, partition, incarnation, epoch, start, start),
            )
            return cur.fetchone()[0]

    def retired(self, stream: int) -> None:
        with transaction(self.conn, OWNER) as cur:
            cur.execute("update lockstep.stream set retired_at = now() where stream_id = %s", (stream,))

    def planned(self, ranges: dict[int, tuple[int, int]], key: str | None = None, lane: str = "live") -> int:
        with transaction(self.conn, OWNER) as cur:
            request = None
            if lane != "live":
                cur.execute(
                    "insert into lockstep.request (pipeline, lane, token, who, why)"
                    " values (%s, %s, nextval('lockstep.token_seq'), 'me', 'because') returning request_id",
                    (self.pipeline, lane),
                )
                request = cur.fetchone()[0]
            cur.execute(
                "insert into lockstep.batch (pipeline, lane, request_id, owner, lease_until, planned_at)"
                " values (%s, %s, %s, 'host/1/1', now() + interval '20 s', %s) returning batch_id",
                (self.pipeline, lane, request, NOON),
            )
            batch = cur.fetchone()[0]
            for stream, (begin, end) in ranges.items():
                values = (batch, stream, begin, end)
                cur.execute("insert into lockstep.batch_range values (%s, %s, int8range(%s, %s))", values)
                cur.execute(
                    "insert into lockstep.claim (batch_id, stream_id, offsets, expects)"
                    " values (%s, %s, int8range(%s, %s), 'nothing')",
                    values,
                )
            if key:
                cur.execute("insert into lockstep.call values (%s, %s, %s)", (self.pipeline, key, batch))
            return batch

    def opened(self, batch: int, dag_run: str | None = None, *, staging: bool = False, unit: str = "batch") -> int:
        with transaction(self.conn, None) as cur:
            cur.execute("set local role lockstep_owner")
            cur.execute(
                "insert into lockstep.definition values ('d1', %s, '{}', 'v1') on conflict do nothing", (self.pipeline,)
            )
            cur.execute(
                "update lockstep.batch set token = nextval('lockstep.token_seq') where batch_id = %s returning token",
                (batch,),
            )
            token = cur.fetchone()[0]
            cur.execute(
                "update lockstep.attempt set state = 'superseded', closed_at = now() where batch_id = %s and closed_at is null",
                (batch,),
            )
            cur.execute(
                "insert into lockstep.attempt (batch_id, token, definition_hash, owner, lease_until,"
                " dag_id, dag_run_id, opened_at, unit)"
                " values (%s, %s, 'd1', 'host/1/1', now() + interval '20 s', %s, %s, %s, %s)",
                (batch, token, dag_run and "orders", dag_run, NOON + timedelta(seconds=1), unit),
            )
            if staging:
                cur.execute("set local role lockstep_stager")
                cur.execute(f"create table lockstep_staging.attempt_{batch}_{token} (_stream int)")
            return token

    def committed(
        self,
        batch: int,
        token: int,
        *,
        delivered: int | None = None,
        rejected: int = 0,
        filtered: int = 0,
        at: datetime = NOON,
    ) -> None:
        """Commits every range of the batch. `delivered` is per range, by default its whole span."""
        with transaction(self.conn, OWNER) as cur:
            commit_in(cur, batch, token, delivered=delivered, rejected=rejected, filtered=filtered, at=at)

    def done(self, ranges: dict[int, tuple[int, int]], **how: Any) -> tuple[int, int]:
        """Writes a batch that was planned, tried once and committed. Returns it and its attempt."""
        batch = self.planned(ranges)
        token = self.opened(batch)
        self.committed(batch, token, **how)
        return batch, token

    def covered(self, stream: int, begin: int, end: int, kind: str) -> None:
        """Writes a loss or a skip, with its decision and the position behind it."""
        detail = {"stream_id": stream, "from_offset": begin, "until_offset": end}
        with transaction(self.conn, OWNER) as cur:
            cur.execute(
                "insert into lockstep.decision (pipeline, kind, who, why, detail)"
                " select pipeline, %s, 'me', 'because', %s from lockstep.stream where stream_id = %s",
                ({"loss": "accept-loss", "skipped": "skip"}[kind], json.dumps(detail), stream),
            )
            cur.execute("insert into lockstep.coverage values (%s, int8range(%s, %s), %s)", (stream, begin, end, kind))
            cur.execute("update lockstep.stream set position = %s where stream_id = %s", (end, stream))


def commit_in(
    cur,
    batch: int,
    token: int,
    *,
    delivered: int | None = None,
    rejected: int = 0,
    filtered: int = 0,
    at: datetime = NOON,
) -> None:
    """Writes the rows of a commit, inside the caller's transaction."""
    commit_ranges(cur, (batch, token), delivered=delivered, rejected=rejected, filtered=filtered, at=at)
    cur.execute(
        "update lockstep.attempt set state = 'committed', staged_at = opened_at + interval '2 s',"
        " validated_at = opened_at + interval '3 s', closed_at = opened_at + interval '3.5 s', effect = %s"
        " where batch_id = %s and token = %s",
        (json.dumps({"inserted": 1}), batch, token),
    )
    cur.execute("delete from lockstep.claim where batch_id = %s", (batch,))
    closed_at = NOON + timedelta(seconds=5)
    cur.execute("update lockstep.batch set state = 'committed', closed_at = %s where batch_id = %s", (closed_at, batch))


def commit_ranges(
    cur,
    attempt: tuple[int, int],
    stream: int | None = None,
    *,
    delivered: int | None = None,
    rejected: int = 0,
    filtered: int = 0,
    at: datetime = NOON,
) -> None:
    """Writes the commits of a batch's ranges that have none yet, or of one stream's alone. The batch stays open."""
    batch, token = attempt
    cur.execute(
        "select stream_id, lower(offsets), upper(offsets) from lockstep.batch_range r where batch_id = %(b)s"
        " and stream_id = coalesce(%(s)s, stream_id)"
        " and not exists (select from lockstep.commit c where c.batch_id = r.batch_id and c.stream_id = r.stream_id)",
        {"b": batch, "s": stream},
    )
    for stream_id, begin, end in cur.fetchall():
        n = end - begin if delivered is None else delivered
        values = {
            "b": batch, "t": token, "s": stream_id, "n": n, "w": n - rejected - filtered, "r": rejected, "f": filtered,
            "from": begin, "until": end, "first": begin if n else None, "last": begin + n - 1 if n else None,
            "at": at if n else None,
        }  # fmt: skip
        cur.execute(
            "insert into lockstep.result (batch_id, token, stream_id, delivered, written, filtered, rejected, rows, bytes,"
            " first_offset, last_offset, min_timestamp, max_timestamp, digest_sum, digest_squares,"
            " log_start_before, log_start_after, rows_digest, rejects_digest)"
            " values (%(b)s, %(t)s, %(s)s, %(n)s, %(w)s, %(f)s, %(r)s, %(w)s, 10,"
            " %(first)s, %(last)s, %(at)s, %(at)s, 0, 0, 0, 0, 0, 0)",
            values,
        )
        cur.execute(
            "insert into lockstep.commit (batch_id, stream_id, token, definition_hash) values (%(b)s, %(s)s, %(t)s, 'd1')",
            values,
        )
        cur.execute(
            "insert into lockstep.coverage values (%(s)s, int8range(%(from)s, %(until)s), 'batch', %(b)s)", values
        )
        cur.execute("update lockstep.stream set position = %(until)s where stream_id = %(s)s", values)
