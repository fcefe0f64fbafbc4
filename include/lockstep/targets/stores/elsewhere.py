"""Keeps results in an Iceberg table whose catalog is elsewhere. A snapshot and a property tell of each delivery."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from lockstep.adapters.iceberg.catalog import OpenCatalog
from lockstep.adapters.iceberg.elsewhere import TableElsewhere
from lockstep.core.changes.restored import SeenBatch
from lockstep.core.errors import LakeMoved, Refusal, Unreachable
from lockstep.core.lake.arrivals import Arrival, has_arrived, newer_than, other_writer, told_of
from lockstep.core.lake.files import Replaced
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.columns import staged_column
from lockstep.core.pipeline.definition import AtLeastOnce
from lockstep.core.states import Lane
from lockstep.faults import reach
from lockstep.targets.lake.fit import refuse_stale, require_lake_columns
from lockstep.targets.stores import parquet
from lockstep.targets.stores.delivery import NewerArrival

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.lake.catalogs import CatalogSettings
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.targets.stores.delivery import Delivery, FoundDelivery, Range

ELSEWHERE_TRIES = 20
ELSEWHERE_PAUSE_SECONDS = 0.2  # at most, before the second try. It grows by as much with every try


@dataclass(frozen=True, slots=True)
class LakeElsewhere:
    """A catalog elsewhere. Each look at a table is a new request, and each commit holds for one state of it alone."""

    settings: CatalogSettings

    def require_fit(self, pipeline: Pipeline, columns: Sequence[Column]) -> None:
        """Refuses a table that is missing, that rows with these columns do not fit, or that another pipeline fills."""
        table = self._table(pipeline)
        _require_columns(pipeline, table, columns)
        if other := other_writer(pipeline.name, table.properties):
            raise Refusal(
                f"{pipeline.name}: {other} has delivered into {table.name}, by this ledger or by another one",
                next_command=f"alter table {table.name} unset tblproperties ('lockstep.{other}'), if it is over",
            )

    def make(self, folder: PipelineFolder) -> str:
        """Makes the table with the columns of the definition, if it is not there."""
        pipeline = folder.pipeline
        OpenCatalog(self.settings).make(pipeline.name, _named(pipeline), pipeline.columns)
        self.require_fit(pipeline, pipeline.columns if not folder.transforms else ())
        return str(pipeline.first.table)

    def take(self, cur: cursor, delivery: Delivery) -> None:
        """Writes the staged rows to Parquet files in the spool, one for each stream."""
        parquet.write_parquet(cur, delivery)

    def bring(self, delivery: Delivery) -> dict[str, int]:
        """Makes the rows results by one commit, and reads back what became of it if no answer comes.

        Each try looks for the delivery, and asks the ledger whether it still may. It commits only upon the snapshot that
        it has looked at. So of several tries at most one holds, in whatever order they arrive.
        """
        arrival, streams = _arrival(delivery), [stream for stream, _, _ in delivery.ranges]
        replaced = () if _keeps_old(delivery) else tuple(Replaced(*each) for each in delivery.ranges)
        columns = [staged_column(*each) for each in delivery.columns]
        summary = told_of(delivery.pipeline.name, arrival, delivery.lane.value, delivery.code)
        files: list[str] | None = None
        in_doubt_until: float | None = None
        why = ""
        number = 0
        while number < ELSEWHERE_TRIES or in_doubt_until is not None:
            pause = ELSEWHERE_PAUSE_SECONDS * min(number, ELSEWHERE_TRIES)
            time.sleep(random.uniform(0, pause))  # noqa: S311 - it keeps writers apart
            number += 1
            is_late = in_doubt_until is not None and time.monotonic() > in_doubt_until
            try:
                table = self._table(delivery.pipeline)
                if _is_there(table, arrival, delivery):
                    return {"inserted": delivery.count, "found": 1}
                if is_late:
                    break
                _require_columns(delivery.pipeline, table, columns, files or ())
                delivery.fence()
                if files is None:
                    spooled = [delivery.spool / parquet.spooled(stream) for stream in streams]
                    files = table.write_files(arrival, spooled, str(uuid4()))
                    reach("deliver.files_written")
                reach("deliver.prepared")
                withdrawn = table.commit(arrival, files, replaced, str(uuid4()), summary)
            except LakeMoved as moved:
                why = moved.message
            except Unreachable as away:
                if files is None:
                    raise  # nothing was sent yet
                why = away.message
                if is_late:
                    break
                in_doubt_until = in_doubt_until or time.monotonic() + self.settings.patience
            else:
                reach("deliver.written")
                return {"inserted": delivery.count, "withdrawn": withdrawn, "files": len(files)}
        raise _not_written(delivery.pipeline, arrival, why, in_doubt=in_doubt_until is not None)

    def seen(self, pipeline: Pipeline) -> tuple[SeenBatch, ...]:
        """Returns the deliveries that the snapshots tell of, and the other batches that the rows name."""
        table = self._table(pipeline)
        told = [SeenBatch(*each, a.batch_id, a.token) for a in table.arrivals() for each in a.ranges]
        known = {(each.stream_id, each.batch_id) for each in told}
        bounds: dict[tuple[int, int], tuple[int, int]] = {}
        for streams, offsets, batches in _columns(table):
            for stream, batch in {*zip(streams.tolist(), batches.tolist(), strict=True)} - known:
                its = offsets[(streams == stream) & (batches == batch)]
                low, high = bounds.get((stream, batch), (2**63, -1))
                bounds[stream, batch] = (min(low, int(its.min())), max(high, int(its.max())))
        told += [SeenBatch(s, low, high + 1, b, None) for (s, b), (low, high) in sorted(bounds.items())]
        return tuple(told)

    def counts(self, pipeline: Pipeline, ranges: Sequence[Range]) -> dict[Range, FoundDelivery]:
        """Returns rows, offsets and digest of each range. Reads three columns of the table, once."""
        by_stream = self._offsets(pipeline)
        found = {}
        for stream, begin, end in ranges:
            its = by_stream.get(stream, np.zeros(0, np.int64))
            inside = its[np.searchsorted(its, begin) : np.searchsorted(its, end)]
            distances = [int(each) - begin for each in np.unique(inside)]
            found[stream, begin, end] = (len(inside), len(distances), sum(distances), sum(d * d for d in distances))
        return found

    def stranger(self, pipeline: Pipeline, owners: Sequence[tuple[int, int, int, int]]) -> str | None:
        """Returns the first row whose batch does not own its offset."""
        for streams, offsets, batches in _columns(self._table(pipeline)):
            owned = np.zeros(len(streams), bool)
            for batch, stream, begin, end in owners:
                owned |= (batches == batch) & (streams == stream) & (offsets >= begin) & (offsets < end)
            if not owned.all():
                at = int(np.argmin(owned))
                return f"stream {streams[at]} offset {offsets[at]} names batch {batches[at]}"
        return None

    def offsets(self, pipeline: Pipeline, stream_id: int) -> Iterator[int]:
        """Yields the offset of every row of a stream, in order."""
        yield from self._offsets(pipeline).get(stream_id, np.zeros(0, np.int64)).tolist()

    def rows_of_offset(self, pipeline: Pipeline, stream_id: int, offset: int) -> list[dict[str, Any]]:
        """Returns the rows of one record."""
        table = self._table(pipeline)
        found = table.read(table.arrow_schema.names, [Replaced(stream_id, offset, offset + 1)])
        return sorted((row for batch in found for row in batch.to_pylist()), key=lambda row: int(row["_ordinal"]))

    def _offsets(self, pipeline: Pipeline) -> dict[int, Any]:
        parts: dict[int, list[Any]] = {}
        for streams, offsets, _ in _columns(self._table(pipeline)):
            for stream in np.unique(streams):
                parts.setdefault(int(stream), []).append(offsets[streams == stream])
        return {stream: np.sort(np.concatenate(each)) for stream, each in parts.items()}

    def _table(self, pipeline: Pipeline) -> TableElsewhere:
        catalog = OpenCatalog(self.settings)
        return TableElsewhere(pipeline.name, catalog, catalog.load(pipeline.name, _named(pipeline)))


def _require_columns(
    pipeline: Pipeline, table: TableElsewhere, columns: Sequence[Column], files: Sequence[str] = ()
) -> None:
    """Refuses a table that rows with these columns do not fit, or that files were written for other columns of."""
    require_lake_columns(pipeline, table, columns)
    refuse_stale(pipeline, table, table.stale_column(files))


def _is_there(table: TableElsewhere, arrival: Arrival, delivery: Delivery) -> bool:
    """Returns True if this very delivery is what readers see. Raises `NewerArrival` if a later attempt has delivered.

    A property alone may tell of rows that a rollback has taken away. They are counted then.
    """
    told, last = table.arrivals(), table.last_arrival()
    if newer := newer_than(arrival, [*told, *([last] if last else [])]):
        raise NewerArrival(
            f"batch {arrival.batch_id}: {table.name} holds what attempt {newer.token} of batch {newer.batch_id} brought",
            newer.batch_id,
            newer.token,
        )
    if has_arrived(arrival, told):
        return True
    if last is None or not has_arrived(arrival, [last]):
        return False
    return table.rows_of(arrival.batch_id, [Replaced(*each) for each in delivery.ranges]) == delivery.count


def _arrival(delivery: Delivery) -> Arrival:
    return Arrival(delivery.attempt.batch_id, delivery.attempt.token, delivery.ranges)


def _keeps_old(delivery: Delivery) -> bool:
    """Returns True if rows on the offsets stay: at least once appends, and only a replay takes out."""
    return isinstance(delivery.pipeline.guarantee, AtLeastOnce) and delivery.lane != Lane.REPLAY


def _columns(table: TableElsewhere) -> Iterator[tuple[Any, Any, Any]]:
    for rows in table.read(["_stream", "_offset", "_batch"]):
        yield tuple(rows.column(name).to_numpy(zero_copy_only=False) for name in ("_stream", "_offset", "_batch"))


def _not_written(pipeline: Pipeline, arrival: Arrival, why: str, *, in_doubt: bool) -> Refusal:
    """Returns the refusal of a delivery that no try has brought, or of which no answer told."""
    name, table = pipeline.name, pipeline.first.table
    again = f"lockstep run {name}"
    if not in_doubt:
        return Refusal(
            f"{name}: batch {arrival.batch_id} was sent {ELSEWHERE_TRIES} times, and nothing of it was written: {why}",
            next_command=again,
        )
    return Unreachable(
        f"{name}: whether batch {arrival.batch_id} is in {table} is not known, and the next run looks for it: {why}",
        next_command=again,
    )


def _named(pipeline: Pipeline) -> Iceberg:
    table = pipeline.first.table
    if not isinstance(table, Iceberg):
        raise TypeError(f"{table} is in no catalog")
    return table
