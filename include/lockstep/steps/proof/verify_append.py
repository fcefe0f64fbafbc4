"""Proves an appended target from Kafka.

Each record has its rows or its reject, once, and the rows are what it decodes to.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from heapq import merge
from typing import TYPE_CHECKING, Any

from lockstep.core.pipeline.definition import History
from lockstep.core.proof.accounting import Digest
from lockstep.core.proof.merged_rows import MergedRows
from lockstep.core.proof.verification import MOST_NAMED_ERRORS, PromiseCheck, Share, Wrong
from lockstep.formats.second_reading import ROW
from lockstep.ledger.batch.delivery import recorded_segments, undelivered
from lockstep.ledger.feed.sends import trimmed_batches
from lockstep.ledger.proof import verify as ledger
from lockstep.ledger.proof.given_up import counts_of_streams
from lockstep.ledger.proof.verify_erased import erased_offsets
from lockstep.steps.proof.verify_results import reading
from lockstep.steps.rerun.appended import RemadeContents
from lockstep.targets.proof.decoded import Decoded, may_change_rows
from lockstep.targets.proof.versioned import other_moments
from lockstep.targets.stores.warehouse import Warehouse
from lockstep.targets.table.fit import require_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockstep.core.proof.given_up import OffsetCounts
    from lockstep.core.proof.verification import Segment
    from lockstep.formats.second_reading import RereadRecord
    from lockstep.steps.proof.verify_log import Log

ROWS_MATCH_RECORDS = "every row is what its record says"
REJECT = -1  # stands in place of an ordinal


def appended(log: Log, streams: Sequence[Any]) -> list[PromiseCheck]:
    """Returns one check of coordinates for each stream, and one of contents over all of them."""
    with ExitStack() as stack:
        contents = _contents(log, stack)
        counts = counts_of_streams(log.cur, log.pipeline.name)
        checks = [_stream(log, stream, contents, counts.get(stream.stream_id)) for stream in streams]
    there = _rows_there(log)
    share = Share(contents.seen, there)
    checks = [replace(check, share=share) if check.proves == "coordinates" else check for check in checks]
    return [*checks, contents.check(log.pipeline.first.table, there)]


def _rows_there(log: Log) -> int:
    """Returns how many rows the target has, in the ledger's database, or by the ledger in another store."""
    if not log.results:
        return ledger.rows_of_target(log.cur, log.pipeline.first.table, log.since)
    among = log.since.batches if log.since else None
    recorded = recorded_segments(log.cur, log.pipeline.name)
    return sum(segment.rows for segment in recorded if among is None or segment.batch_id in among)


def _stream(log: Log, stream: Any, contents: _Contents | RemadeContents, offsets: OffsetCounts | None) -> PromiseCheck:
    """Merges Kafka's visible records with the target's rows and rejects in offset order, and compares them."""
    is_whole = offsets is None or offsets.is_whole
    name = f"{stream.topic}-{stream.partition}: {'every record exactly once' if is_whole else offsets}"
    table = log.pipeline.first.table
    segments = log.segments(stream, log.pipeline.first)
    erased = erased_offsets(log.cur, table, stream.stream_id)
    unconfirmed = {row.batch_id for row in undelivered(log.cur, log.pipeline.name)}
    readable = [s for s in segments if log.holds(stream, s) and s.batch_id not in unconfirmed]
    left = (
        f"{len(segments) - len(readable)} batches that the log no longer holds" if len(readable) < len(segments) else ""
    )
    trimmed = trimmed_batches(log.cur, table, stream.stream_id) & {segment.batch_id for segment in readable}
    if trimmed:
        left = "; ".join(filter(None, (left, f"{len(trimmed)} batches whose sent rows are trimmed")))
    if len(trimmed) == len(readable):
        return PromiseCheck(name, ok=True, detail="nothing covered is still in the log", target=table, left_out=left)
    first = readable[0].from_offset
    there, wrong, records = MergedRows(_accounted(log, stream, first), first), Wrong(), 0
    unread = {s.from_offset for s in segments if not log.holds(stream, s)}  # between what the archive holds
    looked_at = {s.from_offset for s in readable} | {offset for offset in unread if offset > first}
    for segment in [s for s in segments if s.from_offset in looked_at]:
        if log.since:  # what lies between two of these batches is not looked at
            there.pass_to(segment.from_offset)
            there.strangers()
        if segment.batch_id in trimmed or segment.from_offset in unread:
            there.pass_to(segment.until_offset)
            there.strangers()
            continue
        found = _Found(segment, erased.get(segment.batch_id, set()), has_one_row=log.folder.transform is None)
        for begin, until, chunk in log.chunks(stream, segment):
            rows = 0
            for record in chunk:
                found.offsets.append(record.offset)
                ordinals = there.at(record.offset)
                found.take(record.offset, ordinals, wrong)
                rows += len(ordinals) - ordinals.count(REJECT)
            contents.seen += rows
            contents.compare(stream, segment, begin, until, chunk, rows)
        there.pass_to(segment.until_offset)
        found.add_up(wrong)
        for stranger in there.strangers():
            wrong.add_of(segment.batch_id, f"offset {stranger} is in the target or the rejects and not in the log")
        records += len(found.offsets)
    told = f"{records} records of {len(readable) - len(trimmed)} batches, from offset {first}"
    return wrong.check(name, "coordinates", table, "log", told=told, left_out=left)


def _accounted(log: Log, stream: Any, begin: int) -> Iterator[tuple[int, int]]:
    """Yields offset and ordinal of every row from an offset on, and the offsets of rejects, in order.

    Yields rows that may be doubled once.
    """
    pipeline = log.pipeline
    if not log.results:
        return ledger.accounted_offsets(log.conn, pipeline, stream.stream_id, begin)
    rejected = sorted(ledger.rejected_offsets(log.cur, stream.stream_id))
    rows = ((offset, 0) for offset in _distinct(log.results.offsets(pipeline, stream.stream_id)))
    return merge(rows, ((offset, REJECT) for offset in rejected))


def _distinct(offsets: Iterator[int]) -> Iterator[int]:
    last = None
    for offset in offsets:
        if offset != last:
            yield offset
        last = offset


class _Found:
    """The findings of one segment: its records' offsets, and those without a row or a reject."""

    def __init__(self, segment: Segment, erased: set[int], *, has_one_row: bool) -> None:
        self.segment = segment
        self._erased = erased
        self.offsets: list[int] = []
        self._missing: list[int] = []
        self._has_one_row = has_one_row

    def take(self, offset: int, ordinals: list[int], wrong: Wrong) -> None:
        """Judges the rows and rejects at a record's offset. Without a transform that is one row, or one reject."""
        if not ordinals:
            if offset not in self._erased:
                self._missing.append(offset)
        elif len(ordinals) > 1 and (self._has_one_row or REJECT in ordinals or len(set(ordinals)) < len(ordinals)):
            rejects = ordinals.count(REJECT)
            beside = f" and {rejects} rejects" if rejects else ""
            wrong.add_of(self.segment.batch_id, f"offset {offset} has {len(ordinals) - rejects} rows{beside}")

    def add_up(self, wrong: Wrong) -> None:
        """Compares missing offsets with the filtered ones, and the log's records with the delivered ones."""
        segment, batch = self.segment, self.segment.batch_id
        if not segment.filtered and self._missing:
            first = self._missing[:MOST_NAMED_ERRORS]
            named = [f"batch {batch}: offset {offset} has neither row nor reject" for offset in first]
            wrong.extend(named, len(self._missing), [batch])
        elif len(self._missing) != segment.filtered:
            at = f", the first at offset {self._missing[0]}" if self._missing else ""
            what = f"{len(self._missing)} records have neither row nor reject{at}; {segment.filtered} were filtered"
            wrong.add_of(batch, what, abs(len(self._missing) - segment.filtered))
        if Digest.of(self.offsets, segment.from_offset) != Digest(segment.delivered, segment.sum, segment.squares):
            where = f"[{segment.from_offset}, {segment.until_offset})"
            wrong.add(f"batch {batch}: the log has {len(self.offsets)} records in {where}, not those delivered")


def _contents(log: Log, stack: ExitStack) -> _Contents | RemadeContents:
    pipeline = log.pipeline
    if log.undecodable:
        return _Contents(log, None, log.undecodable)
    if log.results and not isinstance(log.results, Warehouse):
        return _Contents(log, None, "results are files")
    cur = stack.enter_context(reading(log.results)) if log.results else log.cur
    require_columns(cur, pipeline, log.columns)
    if may_change_rows(cur, pipeline.first.table):
        return _Contents(log, None, f"a trigger or a rule of {pipeline.first.table} may change rows")
    if log.remade:
        made_again = RemadeContents(log, log.remade)
        stack.callback(made_again.drop)
        return made_again
    has_deletions = isinstance(pipeline.first, History)
    decoded = Decoded(cur, pipeline.first.table, pipeline.columns, has_deletions=has_deletions)
    stack.callback(decoded.drop)
    return _Contents(log, decoded)


class _Contents:
    """A comparison of values: the decoded record, and its row."""

    def __init__(self, log: Log, decoded: Decoded | None, why_not: str = "") -> None:
        self._log = log
        self._decoded = decoded
        self._reading = log.reading() if decoded else None
        self._why_not = why_not
        self._wrong = Wrong()
        self.seen = 0  # rows of records that were read, and those of them whose values were compared
        self._compared = self._rows = self._unsure = 0
        self._others: set[int] = set()

    def compare(
        self, stream: Any, segment: Segment, begin: int, until: int, chunk: list[RereadRecord], count: int
    ) -> None:
        """Decodes a chunk of a segment and compares it with the `count` rows of its offsets."""
        if self._decoded is None or self._reading is None:
            return
        if segment.definition not in self._log.alike:
            self._others.add(segment.batch_id)
            return
        rejected = ledger.rejected_between(self._log.cur, stream.stream_id, begin, until)
        if rejected and (fatal := ledger.fatal_between(self._log.cur, stream.stream_id, begin, until)):
            chunk = [record.without_bytes() if record.offset in fatal else record for record in chunk]
        rows = self._reading(chunk)
        became, unsure = rows.column("Became").to_pylist(), rows.column("Unsure").null_count
        where = f"{stream.topic}-{stream.partition}"
        if rejected and not segment.quarantined:
            offsets = rows.column("_offset").to_pylist()
            for offset in sorted(o for o, what in zip(offsets, became, strict=True) if what == ROW and o in rejected):
                self._wrong.add(f"{where} offset {offset}: it is a reject, and its record decodes to a row")
        self._decoded.load(rows)
        self._decoded.changed(stream, segment, begin, until, self._wrong)
        other_moments(self._log.cur, self._log.pipeline.first, stream, segment.batch_id, chunk, self._wrong)
        self._compared += rows.num_rows
        self._rows += count
        self._unsure += rows.num_rows - unsure

    def check(self, table: str, there: int) -> PromiseCheck:
        """Returns the check, with the numbers of compared and of other rows, of the target's rows that are `there`."""
        if self._why_not:
            return PromiseCheck(
                ROWS_MATCH_RECORDS,
                ok=True,
                detail=f"not compared: {self._why_not}",
                target=table,
                left_out=self._why_not,
                share=self._log.none_of(there),
            )
        left = []
        if self._others:
            left.append(f"{len(self._others)} batches that another definition decoded")
        if self._unsure:
            left.append(f"columns that {self._unsure} records have no value for, or that decode.py fails for")
        told = f"{self._compared} records decoded again and compared"
        if there > self.seen:
            left.append(f"{there - self.seen} rows of records that the log no longer holds")
        share = Share(self._rows, there, batch=min(self._others, default=None))
        return self._wrong.check(
            ROWS_MATCH_RECORDS, "contents", table, "log", told=told, left_out="; ".join(left), share=share
        )
