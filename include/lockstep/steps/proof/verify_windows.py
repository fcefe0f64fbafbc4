"""Proves windows from Kafka.

Decodes the records again, and places them in windows. The watermarks of their batches' plans judge them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.proof.verification import PromiseCheck, Wrong
from lockstep.core.windows.event_time import parse_duration
from lockstep.core.windows.judgements import has_windows, place_record, watermark_at
from lockstep.formats.second_reading import ROW, UNKNOWN
from lockstep.ledger.proof import verify as ledger
from lockstep.ledger.staging.suppression import erased_columns, erased_places
from lockstep.targets.proof.recount import Recount

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from lockstep.core.pipeline.targets import Windows
    from lockstep.core.proof.verification import Proves, Segment, Share
    from lockstep.core.windows.event_time import EventTime
    from lockstep.steps.proof.verify_log import Log

WINDOWS_COUNT_RECORDS = "each window counts its records"
LATE_BY_THE_PLAN = "late is what the watermark of its batch's plan makes late"
TOTALS_OF_RECORDS = "each window's totals are those of its records"
ROWS_OF_RECORDS = "each window's row is what its records add up to"
NAMES = (WINDOWS_COUNT_RECORDS, LATE_BY_THE_PLAN, TOTALS_OF_RECORDS, ROWS_OF_RECORDS)
OLDER_SEGMENTS = "segments that the log no longer holds"
FOREIGN_SEGMENTS = "segments that another definition decoded"
UNSURE_SEGMENTS = "segments with a record that has no value for a column, or that decode.py fails for"


def recounted(log: Log, target: Windows, streams: Sequence[Any], ever: Sequence[Any]) -> list[PromiseCheck]:
    """Checks every segment that the log still holds, and the row of each window whose segments were all read.

    `ever` are all streams, also of logs that are gone.
    """
    event_time = log.pipeline.event_time
    if event_time is None or log.undecodable or log.remade:
        why = log.undecodable or ("a transform makes their rows" if log.remade else "the pipeline has no event time")
        told = f"not provable from Kafka: {why}"
        none = log.none_of(log.share_of(ever, 0, ()).of, "segments")
        return [PromiseCheck(n, ok=True, detail=told, target=target.table, left_out=why, share=none) for n in NAMES]
    recount = Recount(log.cur, target, event_time, log.pipeline.columns)
    reread = _Reread(log, target, event_time, recount)
    for stream in streams:
        reread.read(stream)
    share = log.share_of(ever, reread.segments, reread.foreign)
    checks = _checks(target, recount, reread, share)
    recount.drop()
    return checks


class _Reread:
    """The segments that were read again, the numbers of those that were not, and rejects that should not be there."""

    def __init__(self, log: Log, target: Windows, event_time: EventTime, recount: Recount) -> None:
        self.segments = 0
        self.left_out: Counter[str] = Counter()
        self.foreign: list[int] = []  # batches
        self.wrong = Wrong()
        self._log = log
        self._kind = target.window
        self._column = event_time.column
        self._recount = recount
        self._reading = log.reading()
        self._needed = {event_time.column, *target.key, *(total.of for total in target.totals if total.of)}
        documents = ledger.committed_definitions(log.cur, log.pipeline.name)
        self._erased = erased_columns(log.cur, log.pipeline.name)
        self._lateness = {name: _lateness(document, target, event_time) for name, document in documents.items()}

    def read(self, stream: Any) -> None:
        """Reads the segments of one stream, from the first that the log still holds from its beginning."""
        for segment in ledger.committed_segments(self._log.cur, stream.stream_id):
            lateness = self._lateness.get(segment.definition)
            if not self._log.holds(stream, segment):
                self.left_out[OLDER_SEGMENTS] += 1
            elif segment.definition not in self._log.alike or lateness is None:
                self.left_out[FOREIGN_SEGMENTS] += 1
                self.foreign.append(segment.batch_id)
            elif self._is_read(stream, segment, lateness):
                self._recount.keep(stream.stream_id, segment)
                self.segments += 1
            else:
                self._recount.forget(stream.stream_id, segment)
                self.left_out[UNSURE_SEGMENTS] += 1

    def _is_read(self, stream: Any, segment: Segment, lateness: timedelta) -> bool:
        """Adds the records of a segment. Returns False at a record that lacks a needed value."""
        judgements = self._recount.judgements(stream.stream_id, segment)
        for begin, until, chunk in self._log.chunks(stream, segment):
            rejected = ledger.rejected_between(self._log.cur, stream.stream_id, begin, until)
            fatal = ledger.fatal_between(self._log.cur, stream.stream_id, begin, until) if rejected else set()
            rows = self._reading([record for record in chunk if record.offset not in fatal])
            rows = rows.filter(pc.is_in(rows.column("Became"), pa.array([ROW, UNKNOWN])))
            counts = pc.invert(pc.is_in(rows.column("_offset"), pa.array(sorted(rejected), pa.int64())))
            where = f"{stream.topic}-{stream.partition}"
            if not segment.quarantined:
                self._refuse_rejects(where, rows.filter(pc.invert(counts)))
            rows = self._without_erased(stream, rows.filter(counts))
            if any(
                f",{name}," in (unsure or "") for unsure in rows.column("Unsure").to_pylist() for name in self._needed
            ):
                return False
            placed = []
            for offset, moment in self._events(rows):
                if has_windows(moment):
                    placed += place_record(self._kind, offset, moment, watermark_at(judgements, offset), lateness)
                else:
                    self.wrong.add(f"{where} offset {offset}: its event is at no time of a window, and it is no reject")
            self._recount.add(stream.stream_id, segment, rows, placed)
        return True

    def _refuse_rejects(self, where: str, rows: pa.RecordBatch) -> None:
        """Names the rejects whose record has a row, at a time that windows hold."""
        became = dict(zip(rows.column("_offset").to_pylist(), rows.column("Became").to_pylist(), strict=True))
        for offset, moment in self._events(rows):
            if became[offset] == ROW and has_windows(moment):
                self.wrong.add(f"{where} offset {offset}: it is a reject, and its record decodes to a row")

    def _without_erased(self, stream: Any, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the records that no erasure keeps out."""
        offsets = rows.column("_offset").to_pylist()
        known = {each.column_name for each in self._erased} & set(rows.schema.names)
        keys = {name: rows.column(name).to_pylist() for name in known}
        gone = erased_places(self._log.cur, self._erased, stream.stream_id, offsets, keys)
        return rows.filter(pa.array([place not in gone for place in range(rows.num_rows)])) if gone else rows

    def _events(self, rows: pa.RecordBatch) -> Any:
        return zip(rows.column("_offset").to_pylist(), rows.column(self._column).to_pylist(), strict=True)


def _lateness(document: Mapping[str, Any], target: Windows, event_time: EventTime) -> timedelta | None:
    """Returns the lateness that a definition has judged by, or None if it took the event time from another column."""
    if (document.get("event_time") or {}).get("column") != event_time.column:
        return None
    told = document["target"]
    targets = told if isinstance(told, list) else [told]
    its = next((each["lateness"] for each in targets if each.get("table") == target.table), None)
    return parse_duration(its, "target.lateness") if its else None


def _checks(target: Windows, recount: Recount, reread: _Reread, share: Share) -> list[PromiseCheck]:
    counts = recount.counts()
    miscounted, changed, late, rows = recount.miscounted(), recount.changed(), recount.late(), recount.rows()
    miscounted.join(reread.wrong)
    left = [f"{number} {why}" for why, number in sorted(reread.left_out.items())]
    of_rows = [*left, f"{counts.others} windows in which their records count"] if counts.others else left
    told = f"{counts.records} records in {counts.windows} windows and keys, of {reread.segments} segments"
    found: list[tuple[str, Proves, Wrong, str, list[str]]] = [
        (WINDOWS_COUNT_RECORDS, "coordinates", miscounted, told, left),
        (LATE_BY_THE_PLAN, "coordinates", late, f"{counts.late} late, of {reread.segments} segments", left),
        (TOTALS_OF_RECORDS, "contents", changed, told, left),
        (ROWS_OF_RECORDS, "contents", rows, f"{counts.whole} windows and keys", of_rows),
    ]
    return [
        wrong.check(name, side, target.table, "log", told=said, left_out="; ".join(out), share=share)
        for name, side, wrong, said, out in found
    ]
