"""Proves an upserted target from Kafka.

Each key's newest record is its row, and the row holds that record's values.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.capture.debezium import without_mark
from lockstep.core.pipeline.formats import is_marked
from lockstep.core.proof.verification import PromiseCheck, Share, Wrong
from lockstep.formats.second_reading import DELETED, FILTERED, REJECTED
from lockstep.ledger.proof import verify as ledger
from lockstep.steps.proof.verify_results import reading
from lockstep.steps.rerun.again import RowsAgain
from lockstep.targets.proof.decoded import Decoded, may_change_rows
from lockstep.targets.proof.newest import Newest
from lockstep.targets.proof.truncated import mark_truncated
from lockstep.targets.table.fit import require_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.pipeline.targets import Upsert
    from lockstep.core.proof.verification import Segment
    from lockstep.steps.proof.verify_log import Log

KEYS_HAVE_NEWEST = "each key's newest record is its row"
ROWS_MATCH_NEWEST = "each key's row is what its newest record says"


def upserted(log: Log, target: Upsert, streams: Sequence[Any], *, takes_tombstones: bool) -> list[PromiseCheck]:
    """Gathers each key's newest accepted record in Postgres, and compares the target's rows with them."""
    if log.undecodable:
        return _not_provable(log, target, log.undecodable)
    pipeline = log.pipeline
    with ExitStack() as stack:
        cur = stack.enter_context(reading(log.results)) if log.results else log.cur
        columns = without_mark(log.columns)
        require_columns(cur, pipeline, columns)
        decoded = Decoded(cur, target.table, columns)
        stack.callback(decoded.drop)
        newest = Newest(cur, target, decoded.types, is_marked=is_marked(pipeline.format))
        stack.callback(newest.drop)
        gathered = _Gathered(log, target, decoded, newest, takes_tombstones=takes_tombstones)
        if gathered.again:
            stack.callback(gathered.again.drop)
        for stream in streams:
            gathered.read(stream)
        if gathered.unplaced:
            return _not_provable(log, target, f"parsers may differ over the key of {gathered.unplaced} records")
        starts = {s.stream_id: max(log.log_start(s), gathered.starts.get(s.stream_id, 0)) for s in streams}
        wrong = Wrong()
        if not log.results:
            if mark_truncated(cur, pipeline.name, target, starts, wrong):
                newest.doubt()
            newest.mark_erased(pipeline.name)
        out = newest.left_out(starts)
        contents = _contents(gathered, out.rows, may_change=may_change_rows(cur, target.table))
        return [_coordinates(gathered, starts, wrong, out), contents]


class _Gathered:
    """The newest record of each key, read from stream after stream."""

    def __init__(self, log: Log, target: Upsert, decoded: Decoded, newest: Newest, *, takes_tombstones: bool) -> None:
        self.target = target
        self.newest = newest
        self.records = self.unplaced = 0
        self._log = log
        self._decoded = decoded
        self._takes_tombstones = takes_tombstones
        self.again = RowsAgain(log, log.remade) if log.remade else None
        self.starts: dict[int, int] = {}  # of streams with batches that were not run again: behind the last of them
        self._reading = None if self.again else log.reading()
        self._needed = [*target.key, *([target.order_by] if target.order_by else [])]

    def read(self, stream: Any) -> None:
        """Adds the accepted records of one stream."""
        for segment in ledger.committed_segments(self._log.cur, stream.stream_id):
            if self.again or self._reading is None:
                self._run_again(stream, segment)
                continue
            comparable = segment.definition in self._log.alike
            for begin, until, chunk in self._log.chunks(stream, segment):
                rejected = ledger.rejected_between(self._log.cur, stream.stream_id, begin, until)
                rows = self._accepted(self._reading([record for record in chunk if record.offset not in rejected]))
                self.records += rows.num_rows
                self._decoded.load(rows)
                self.newest.keep(stream, segment, comparable=comparable)

    def _run_again(self, stream: Any, segment: Segment) -> None:
        """Adds the rows and deletions that a transform makes again. Keeps how far a stream has those of no run."""
        if self.again is None:
            return
        if not self.again.left.may_compare(segment):
            self.starts[stream.stream_id] = max(segment.until_offset, self.starts.get(stream.stream_id, 0))
            return
        self.records += self.again.into_decoded(self.target, stream, segment)
        self.newest.keep(stream, segment, comparable=True)

    def settled(self, places: Sequence[tuple[int, int]], found: Wrong, wrong: Wrong, share: Share) -> Share:
        """Adds what was found wrong. Returns how much was compared: nothing if another run makes other rows, too."""
        if self.again is None:
            wrong.join(found)
            return share
        is_settled = self.again.left.is_settled(self.batches_at(places), found, wrong)
        return self.again.left.lowered(share, to=share.compared if is_settled else 0)

    def batches_at(self, places: Sequence[tuple[int, int]]) -> tuple[int, ...]:
        """Returns the batches that own these records, each a stream and an offset."""
        return ledger.batches_at(self._log.cur, places) if places else ()

    def _accepted(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows without filtered records, rejects, and tombstones of another target's keys."""
        left_out = [FILTERED, REJECTED, *([] if self._takes_tombstones else [DELETED])]
        rows = rows.filter(pc.invert(pc.is_in(rows.column("Became"), pa.array(left_out))))
        unsure = rows.column("Unsure")
        unplaced = reduce(pc.or_, self._unsure(unsure))
        unplaced = pc.fill_null(unplaced, False)  # noqa: FBT003 - a value
        self.unplaced += pc.sum(unplaced).as_py() or 0
        return rows.filter(pc.invert(unplaced))

    def _unsure(self, unsure: pa.Array) -> list[pa.Array]:
        return [pc.match_substring(unsure, f",{name},") for name in self._needed]


def _coordinates(gathered: _Gathered, starts: dict[int, int], wrong: Wrong, out: Any) -> PromiseCheck:
    left = [f"{out.of_others} rows of streams that this log does not hold"] if out.of_others else []
    left += [f"{out.older} rows of records that the log no longer holds"] if out.older else []
    share = Share(out.rows - out.of_others - out.older, out.rows)
    places: Sequence[tuple[int, int]] = ()
    if gathered.again and not gathered.again.left.is_of_log:
        share = gathered.again.left.lowered(share, to=0)
        left += gathered.again.left.texts
    else:
        if gathered.again:
            gathered.again.forget_older(starts)
        found = Wrong()
        places = gathered.newest.misplaced(starts, found)
        share = gathered.settled(places, found, wrong, share)
        left += gathered.again.left.texts if gathered.again else []
    told = f"{gathered.newest.counts().keys} keys of {gathered.records} records"
    check = wrong.check(
        KEYS_HAVE_NEWEST, "coordinates", gathered.target.table, "log", told=told, left_out="; ".join(left), share=share
    )
    return replace(check, batches=gathered.batches_at(places))


def _contents(gathered: _Gathered, rows: int, *, may_change: bool) -> PromiseCheck:
    table, counts, wrong, found = gathered.target.table, gathered.newest.counts(), Wrong(), Wrong()
    if may_change:
        why = f"a trigger or a rule of {table} may change rows"
        return PromiseCheck(ROWS_MATCH_NEWEST, ok=True, detail=f"not compared: {why}", target=table, left_out=why)
    places = gathered.newest.changed(found)
    others, rest = counts.keys - counts.comparable, gathered.newest.comparable_rows()
    unexplained = gathered.newest.unexplained()
    compared = rest.compared - unexplained
    left = [f"{others} keys whose newest record another definition decoded"] if others else []
    without = rows - others - rest.compared
    left += [f"{without} rows without a record here"] if without > 0 else []
    left += [f"{unexplained} rows with a value that their records do not have"] if unexplained else []
    share = gathered.settled(places, found, wrong, Share(compared, rows, batch=rest.batch))
    left += gathered.again.left.texts if gathered.again else []
    told = f"{share.compared} of {rows} rows compared with their records"
    check = wrong.check(ROWS_MATCH_NEWEST, "contents", table, "log", told=told, left_out="; ".join(left), share=share)
    return replace(check, batches=gathered.batches_at(places) if wrong.count else ())


def _not_provable(log: Log, target: Upsert, why: str) -> list[PromiseCheck]:
    told = f"not provable from Kafka: {why}"
    none = log.none_of(ledger.rows_of_target(log.cur, target.table, None)) if log.remade and not log.results else None
    return [
        PromiseCheck(name, ok=True, detail=told, target=target.table, left_out=why, share=none)
        for name in (KEYS_HAVE_NEWEST, ROWS_MATCH_NEWEST)
    ]
