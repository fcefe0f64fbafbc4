"""Compares results that move apart from the offsets with the ledger's records.

The comparison covers as much as each guarantee promises.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import Refusal
from lockstep.core.pipeline.definition import Append, AtLeastOnce, AtMostOnce
from lockstep.core.proof.verification import ROWS_COUNTED, PromiseCheck, Wrong
from lockstep.ledger.batch import delivery as ledger
from lockstep.ledger.proof.verify import ROWS_OWNED
from lockstep.targets.stores.warehouse import Warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.proof.verification import BatchesSince, Proves
    from lockstep.targets.stores.delivery import FoundDelivery, Results

VALUES = "values of delivered rows: --deep compares those of a Postgres with the log, those of files not at all"


def of_results(
    cur: cursor, pipeline: Pipeline, results: Results, *, deep: bool, since: BatchesSince | None = None
) -> list[PromiseCheck]:
    """Compares counts and digests of every segment with the store. Only Kafka can tell a key's newest record.

    Without `deep` the values are reported as left out, because the ledger has no digest of delivered rows. The store is
    read later than the ledger, in no common snapshot. A delivery in between does not yet belong to its batch.
    """
    segments = ledger.recorded_segments(cur, pipeline.name)
    if since:
        segments = since.among(segments)
        why = "rows that no batch owns: the store is searched for them as a whole alone"
        unowned = PromiseCheck(ROWS_OWNED, ok=True, detail="not looked at", target=pipeline.first.table, left_out=why)
    before = [] if since else ledger.former_owners(cur, pipeline.name)
    of_others = [each for name in before for each in ledger.recorded_segments(cur, name)]
    checks = [unowned if since else _owned(pipeline, [*segments, *of_others], results)]
    if not deep:
        left = "; ".join(filter(None, [checks[0].left_out, VALUES]))
        checks[0] = replace(checks[0], left_out=left)
    if isinstance(pipeline.first, Append):
        ranges = [(s.stream_id, s.from_offset, s.until_offset) for s in segments]
        counts = results.counts(pipeline, ranges)
        checks.append(_counted(pipeline, segments, [counts[each] for each in ranges]))
    if isinstance(pipeline.guarantee, AtMostOnce):
        checks.append(_confirmed(ledger.undelivered(cur, pipeline.name)))
    return checks


@contextmanager
def reading(results: Results) -> Iterator[Any]:
    """Opens a transaction in a store that is asked in SQL. Refuses results in files."""
    if not isinstance(results, Warehouse):
        raise Refusal("results in files cannot be asked by key")
    with results.reading() as cur:
        cur.execute("set local idle_in_transaction_session_timeout = 0")  # Kafka is read in between
        yield cur


def _owned(pipeline: Pipeline, segments: Sequence[Any], results: Results) -> PromiseCheck:
    owners = [(s.batch_id, s.stream_id, s.from_offset, s.until_offset) for s in segments]
    stranger = results.stranger(pipeline, owners)
    detail = f"{stranger}, which does not own it (or has not committed it yet)" if stranger else ""
    proves: Proves = "coordinates" if stranger or isinstance(pipeline.first, Append) else "nothing"
    left = "" if isinstance(pipeline.first, Append) else "missing rows: keys of another store are not counted"
    return PromiseCheck(ROWS_OWNED, stranger is None, detail, proves, pipeline.first.table, left_out=left)


def _counted(pipeline: Pipeline, segments: Sequence[Any], found: Sequence[FoundDelivery]) -> PromiseCheck:
    """Counts the rows.

    If no record was filtered, the offsets of rows and rejects must be the delivered ones.
    """
    name, table, more, wrong = ROWS_COUNTED, pipeline.first.table, 0, Wrong()
    for segment, (rows, records, sum_, squares) in zip(segments, found, strict=True):
        where = f"batch {segment.batch_id}, {segment.topic}-{segment.partition} [{segment.from_offset}, {segment.until_offset})"
        if isinstance(pipeline.guarantee, AtMostOnce) and not segment.is_delivered and rows <= segment.rows:
            continue
        if rows != segment.rows and not (isinstance(pipeline.guarantee, AtLeastOnce) and rows > segment.rows):
            wrong.add(f"{where}: {segment.rows} rows recorded, {rows} are in the store", batch=segment.batch_id)
            continue
        more += rows - segment.rows
        whole = (
            records + segment.rejected,
            sum_ + segment.rejected_sum,
            squares + segment.rejected_squares,
        )
        if not segment.filtered and whole != (segment.delivered, segment.digest_sum, segment.digest_squares):
            wrong.add(f"{where}: {segment.delivered} records were read, the store has others", batch=segment.batch_id)
    doubled = f", {more} rows more than records: at least once" if more else ""
    return wrong.check(name, "coordinates", table, told=f"{len(segments)} segments by count and digest{doubled}")


def _confirmed(undelivered: Sequence[Any]) -> PromiseCheck:
    """Names rows that may be lost. At most once allows that, but no row twice."""
    named = [f"batch {r.batch_id} {r.topic}-{r.partition} [{r.from_offset}, {r.until_offset})" for r in undelivered]
    detail = f"never confirmed, so perhaps lost: {', '.join(named)}" if named else "every delivery was confirmed"
    return PromiseCheck("what may be lost is named", ok=True, detail=detail)
