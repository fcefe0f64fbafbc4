"""Verify: the promises proved again, from the ledger, from the target, and from Kafka itself."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from heapq import merge
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.accounting import Digest
from lockstep.core.definition import Accumulate, Append, Json, Upsert
from lockstep.core.verification import EXACT_KEYS, Check, Segment
from lockstep.ledger import verify as ledger
from lockstep.ledger.delivery import undelivered
from lockstep.ledger.one_log import shared_until
from lockstep.ledger.verify_contents import contents_check
from lockstep.steps.verify_owners import of_owners
from lockstep.steps.verify_results import of_results, reading
from lockstep.steps.verify_totals import recomputed
from lockstep.targets import accumulated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka import Broker
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.offsets import TopicView
    from lockstep.targets.delivery import Results


def verify(
    conn: connection, broker: Broker, folder: PipelineFolder, *, deep: bool, results: Results | None = None
) -> list[Check]:
    """Every check with its outcome; `deep` reads the covered offsets again with a consumer that shares nothing with Spark.

    `results` is the place of results that move apart from the offsets.
    """
    pipeline = folder.pipeline
    view = broker.view(pipeline.topic) if deep else None
    with transaction(conn, READER) as cur:
        cur.execute("set local idle_in_transaction_session_timeout = 0")  # one snapshot, and Kafka is read in between
        cur.execute(
            "set local enable_nestloop = off"
        )  # these look at whole tables, and a wrong estimate makes hours of it
        checks = [*ledger.ledger_checks(cur, pipeline), contents_check(cur, pipeline)]
        for target in pipeline.targets:
            if isinstance(target, Accumulate):
                found = accumulated.checks(cur, pipeline.name, target)
                checks += [replace(check, name=ledger.name_of(pipeline, target, check.name)) for check in found]
        for one, check in of_owners(cur, pipeline):
            checks.append(replace(check, name=ledger.name_of(pipeline, one.first, check.name)))
        cur.execute("set local enable_nestloop = on")
        if results:
            checks += of_results(cur, pipeline, results)
        if view is None:
            return checks
        until = shared_until(cur, pipeline.name)
        here = [s for s in ledger.streams(cur, pipeline.name) if s.topic_id == view.topic_id]
        streams = [s for s in here if until[s.stream_id] is None]
        checks += [_beyond(s, begin) for s in here if (begin := until[s.stream_id]) is not None]
        for one in pipeline.each():
            its = replace(folder, pipeline=one)
            match one.first:
                case Append():
                    found = [_append(conn, cur, broker, its, view, stream, results) for stream in streams]
                case Upsert() as target:
                    with reading(results) if results else nullcontext(cur) as target_cur:
                        rows = ledger.keyed_rows(target_cur, one, target)
                    deleted = target in pipeline.tombstone_targets
                    found = [_upsert(cur, broker, its, view, streams, rows, takes_tombstones=deleted)]
                case Accumulate() as target:
                    found = [recomputed(cur, broker, its, target, view, streams)]
            checks += [replace(check, name=ledger.name_of(pipeline, one.first, check.name)) for check in found]
        return checks


def _beyond(stream: Any, until: int) -> Check:
    """Says what cannot be compared: the log of an older incarnation, which other records may stand in."""
    detail = f"not compared: the log lost its end below {stream.position}, and a newer stream of it begins at {until}"
    return Check(f"{stream.topic}-{stream.partition}: stream {stream.stream_id}", ok=True, detail=detail)


def _append(
    conn: connection,
    cur: Any,
    broker: Broker,
    folder: PipelineFolder,
    view: TopicView,
    stream: Any,
    results: Results | None,
) -> Check:
    """Kafka's visible records and the target's rows and rejects, merged in offset order."""
    name = f"{stream.topic}-{stream.partition}: every record exactly once"
    segments = ledger.segments(cur, stream.stream_id, folder.pipeline.first)
    log_start = view.bounds[stream.partition].log_start
    unconfirmed = {row.batch_id for row in undelivered(cur, folder.pipeline.name)}
    readable = [s for s in segments if s.from_offset >= log_start and s.batch_id not in unconfirmed]
    if not readable:
        return Check(name, ok=True, detail="nothing covered is still in the log")
    if results:
        rejected = sorted(ledger.rejected_offsets(cur, stream.stream_id))
        accounted: Iterator[int] = merge(results.offsets(folder.pipeline, stream.stream_id), rejected)
    else:
        accounted = ledger.accounted_offsets(conn, folder.pipeline, stream.stream_id)
    there = _Merge(accounted, readable[0].from_offset)
    records = 0
    for segment in readable:
        offsets, missing = [], []
        for message in broker.records(view.topic, stream.partition, segment.from_offset, segment.until_offset):
            offsets.append(message.offset())
            if not there.has(message.offset()):
                missing.append(message.offset())
        there.pass_to(segment.until_offset)
        records += len(offsets)
        wrong = _wrong(segment, offsets, missing) or there.stranger
        if wrong:
            return Check(name, ok=False, detail=f"batch {segment.batch_id}: {wrong}")
    return Check(
        name, ok=True, detail=f"{records} records of {len(readable)} batches, from offset {readable[0].from_offset}"
    )


def _wrong(segment: Segment, offsets: list[int], missing: list[int]) -> str | None:
    if len(missing) != segment.filtered:
        first = f", the first at offset {missing[0]}" if missing else ""
        return f"{len(missing)} records have neither row nor reject{first}; {segment.filtered} were filtered"
    if Digest.of(offsets, segment.from_offset) != Digest(segment.delivered, segment.sum, segment.squares):
        return f"the log has {len(offsets)} records in [{segment.from_offset}, {segment.until_offset}), not those delivered"
    return None


class _Merge:
    """A sorted stream of offsets that is asked for one after another; each distinct one may be asked for once."""

    def __init__(self, offsets: Iterator[int], begin: int) -> None:
        self._offsets = (offset for offset in offsets if offset >= begin)
        self._at = next(self._offsets, None)
        self.stranger: str | None = None

    def has(self, offset: int) -> bool:
        self.pass_to(offset)
        found = self._at == offset
        while self._at == offset:
            self._at = next(self._offsets, None)
        return found

    def pass_to(self, offset: int) -> None:
        """What is passed over was never asked for: it is in the target and not in the log."""
        while self._at is not None and self._at < offset:
            self.stranger = self.stranger or f"offset {self._at} is in the target or the rejects and not in the log"
            self._at = next(self._offsets, None)


def _upsert(
    cur: Any,
    broker: Broker,
    folder: PipelineFolder,
    view: TopicView,
    streams: list[Any],
    rows: dict[tuple[str, ...], tuple[int, int]],
    *,
    takes_tombstones: bool,
) -> Check:
    """Each key's newest accepted record is its row, or the row is absent after a tombstone."""
    name, target = "each key's newest record is its row", folder.pipeline.first
    assert isinstance(target, Upsert)  # noqa: S101 - the caller has looked
    types = {column.name: column.type for column in folder.pipeline.format.columns}
    plain = isinstance(folder.pipeline.format, Json) and not folder.transform and not target.order_by
    if not plain or not {types.get(key) for key in target.key} <= EXACT_KEYS:
        return Check(
            name,
            ok=True,
            detail="not provable from Kafka: no JSON, a transform, an order_by or a key that is no text or number",
        )
    newest: dict[tuple[str, ...], tuple[int, int, int, bool]] = {}
    records = 0
    for stream in streams:
        rejected = ledger.rejected_offsets(cur, stream.stream_id)
        log_start = view.bounds[stream.partition].log_start
        for segment in ledger.segments(cur, stream.stream_id):
            begin = max(segment.from_offset, log_start)
            for message in broker.records(view.topic, stream.partition, begin, segment.until_offset):
                if message.offset() in rejected or (message.value() is None and not takes_tombstones):
                    continue
                records += 1
                order = (stream.epoch, message.offset(), stream.stream_id, message.value() is None)
                key = _key(message, target)
                newest[key] = max(newest.get(key, order), order)
    for key, (_, offset, stream_id, dead) in newest.items():
        row = rows.pop(key, None)
        if row != (None if dead else (stream_id, offset)):
            where = f"stream {stream_id} offset {offset}{', a tombstone' if dead else ''}"
            return Check(name, ok=False, detail=f"key {', '.join(key)}: the newest record is {where}; its row is {row}")
    starts = {stream.stream_id: view.bounds[stream.partition].log_start for stream in streams}
    for key, (stream_id, offset) in rows.items():
        if offset >= starts.get(stream_id, offset + 1):
            return Check(
                name,
                ok=False,
                detail=f"key {', '.join(key)}: no record of the log made its row ({stream_id}, {offset})",
            )
    return Check(name, ok=True, detail=f"{len(newest)} keys of {records} records")


def _key(message: Any, target: Upsert) -> tuple[str, ...]:
    if message.value() is None:
        return (message.key().decode(),)
    value = json.loads(message.value())
    return tuple(str(value[name]) for name in target.key)
