"""Proves an accumulated target from Kafka: recomputes what each segment contributed from its records."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, InvalidOperation, localcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from lockstep.core.pipeline.targets import Count, Max, Sum
from lockstep.core.pipeline.totals import WHOLE_SPARK_TYPES
from lockstep.core.proof.verification import EXACT_KEYS, PromiseCheck, Wrong
from lockstep.formats.second_reading import ROW, UNKNOWN
from lockstep.ledger.proof import verify as ledger
from lockstep.ledger.staging.suppression import erased_columns, erased_places
from lockstep.steps.rerun.again import RowsAgain
from lockstep.targets.proof.accumulated import Contribution, contributions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lockstep.core.pipeline.targets import Accumulate, Total
    from lockstep.core.proof.verification import Proves, Segment
    from lockstep.formats.second_reading import SecondReading
    from lockstep.steps.proof.verify_log import Log

    Row = Mapping[str, Any]

MOST_SUM_DIGITS = 1_000  # more than any sum of decimals has
KEYS_COUNT_RECORDS = "each key counts its records"
TOTALS_MATCH_RECORDS = "each key's totals are those of its records"


def recomputed(log: Log, target: Accumulate, streams: Sequence[Any], ever: Sequence[Any]) -> list[PromiseCheck]:
    """Checks every segment that the log still holds from its beginning.

    Compares counts, and the totals of whole numbers and decimals. `ever` are all streams, also of logs that are gone.
    """
    types = {column.name: column.type for column in (log.pipeline.columns if log.undecodable else log.columns)}
    if why := log.undecodable or _odd_key(target, types):
        told = f"not provable from Kafka: {why}"
        none = log.none_of(log.share_of(ever, 0, ()).of, "segments")
        return [
            PromiseCheck(name, ok=True, detail=told, target=target.table, left_out=why, share=none)
            for name in (KEYS_COUNT_RECORDS, TOTALS_MATCH_RECORDS)
        ]
    totals = [total for total in target.totals if _is_provable(total, types)]
    needed = {*target.key, *(total.of for total in totals if total.of)}
    again = RowsAgain(log, log.remade) if log.remade else None
    rows_of = again.rows if again else partial(_rows, log, log.reading())
    erased = [column for column in erased_columns(log.cur, log.pipeline.name) if column.column_name in target.key]
    miscounted, changed, segments, records = Wrong(), Wrong(), 0, 0
    older = unsure = 0
    others: list[int] = []
    for stream in streams:
        for segment in log.segments(stream):
            if not log.holds(stream, segment):
                older += 1
                continue
            if again and not again.left.may_compare(segment):
                continue
            if segment.definition not in log.alike:
                others.append(segment.batch_id)
                continue
            rows = _without_erased(log, erased, stream, rows_of(stream, segment))
            if any(f",{name}," in (row["Unsure"] or "") for row in rows for name in needed):
                unsure += 1
                continue
            kept = contributions(log.cur, target, segment.batch_id, stream.stream_id)
            where = f"{stream.topic}-{stream.partition} [{segment.from_offset}, {segment.until_offset})"
            read = _added_up(rows, target, totals)
            pair = (Wrong(), Wrong()) if again else (miscounted, changed)
            _compare(where, segment.batch_id, read, kept, totals, pair)
            if again and not again.left.are_settled(segment, zip(pair, (miscounted, changed), strict=True)):
                continue
            segments, records = segments + 1, records + len(rows)
    left = [f"total {total.name}" for total in target.totals if total not in totals]
    left += [f"{older} segments that the log no longer holds"] if older else []
    left += [f"{len(others)} segments that another definition decoded"] if others else []
    left += (
        [f"{unsure} segments with a record that has no value for a column, or that decode.py fails for"]
        if unsure
        else []
    )
    found: tuple[tuple[str, Proves, Wrong], ...] = (
        (KEYS_COUNT_RECORDS, "coordinates", miscounted),
        (TOTALS_MATCH_RECORDS, "contents", changed),
    )
    told = f"{records} records of {segments} segments"
    share = log.share_of(ever, segments, others)
    if again:
        again.drop()
        left += again.left.texts
        share = replace(share, batch=again.left.oldest, next_command=again.left.next_command)
    out = "; ".join(left)
    return [
        wrong.check(name, side, target.table, "log", told=told, left_out=out, share=share)
        for name, side, wrong in found
    ]


def _odd_key(target: Accumulate, types: Mapping[str, str]) -> str | None:
    return None if {types.get(key) for key in target.key} <= EXACT_KEYS else "a key that is no text or number"


def _rows(log: Log, reading: SecondReading, stream: Any, segment: Segment) -> list[Row]:
    """Returns the segment's accepted records, decoded."""
    found: list[Row] = []
    for begin, until, chunk in log.chunks(stream, segment):
        rejected = ledger.rejected_between(log.cur, stream.stream_id, begin, until)
        decoded = reading([record for record in chunk if record.offset not in rejected]).to_pylist()
        found += [row for row in decoded if row["Became"] in {ROW, UNKNOWN}]
    return found


def _without_erased(log: Log, erased: Sequence[Any], stream: Any, rows: list[Row]) -> list[Row]:
    """Returns the records that no erasure keeps out."""
    if not erased:
        return rows
    keys = {column.column_name: [row[column.column_name] for row in rows] for column in erased}
    gone = erased_places(log.cur, erased, stream.stream_id, [row["_offset"] for row in rows], keys)
    return [row for place, row in enumerate(rows) if place not in gone]


def _is_provable(total: Total, types: Mapping[str, str]) -> bool:
    """Returns True if Python computes the total as Postgres does, to the digit."""
    return (
        total.of is None
        or isinstance(total, Count)
        or types[total.of] in WHOLE_SPARK_TYPES
        or types[total.of].startswith("decimal")
    )


def _added_up(rows: Iterable[Row], target: Accumulate, totals: Sequence[Total]) -> dict[tuple[str, ...], Contribution]:
    by_key: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        by_key.setdefault(tuple(str(row[name]) for name in target.key), []).append(row)
    return {
        key: Contribution(
            len(found), max(row["_offset"] for row in found), {total.name: _total(total, found) for total in totals}
        )
        for key, found in by_key.items()
    }


def _total(total: Total, rows: Sequence[Row]) -> Any:
    if total.of is None:
        return len(rows)
    given = [row[total.of] for row in rows if row[total.of] is not None]
    if isinstance(total, Count):
        return len(given)
    try:
        numbers = [Decimal(str(number)) for number in given]
    except InvalidOperation:
        return f"{total.of} is no number in every record"
    if not numbers:
        return None
    if isinstance(total, Sum):
        with localcontext(prec=MOST_SUM_DIGITS):
            return sum(numbers, Decimal(0))
    return max(numbers) if isinstance(total, Max) else min(numbers)


def _compare(
    where: str,
    batch: int,
    read: Mapping[tuple[str, ...], Contribution],
    kept: Mapping[tuple[str, ...], Contribution],
    totals: Sequence[Total],
    wrong: tuple[Wrong, Wrong],
) -> None:
    """Adds the wrong counts and the wrong totals of a segment, key by key."""
    _, changed = wrong
    for key in sorted(read.keys() | kept.keys()):
        one, other = read.get(key), kept.get(key)
        called = f"{where}, batch {batch}: key {', '.join(key)}"
        if miscount := _miscount(one, other):
            for each in wrong:  # a wrong count makes wrong totals, too
                each.add(f"{called}{miscount}", batch=batch)
        if one is None or other is None:
            continue
        for total in totals:
            if one.totals[total.name] != other.totals[total.name]:
                was = f"{total.name} is {one.totals[total.name]}, counted was {other.totals[total.name]}"
                changed.add(f"{called}: {was}", batch=batch)


def _miscount(one: Contribution | None, other: Contribution | None) -> str | None:
    if one is None or other is None:
        here, there = ("the log", "the contributions") if other is None else ("the contributions", "the log")
        return f" is in {here} and not in {there}"
    if (one.records, one.offset) == (other.records, other.offset):
        return None
    return f": {one.records} records up to offset {one.offset} in the log, {other.records} up to {other.offset} counted"
