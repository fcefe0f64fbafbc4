"""An accumulated target proved from Kafka: what each segment contributed is recomputed from its records."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation, localcontext
from typing import TYPE_CHECKING, Any

from lockstep.core.formats import Json
from lockstep.core.targets import Count, Max, Sum
from lockstep.core.totals import WHOLE
from lockstep.core.verification import EXACT_KEYS, Check
from lockstep.ledger import verify as ledger
from lockstep.targets.accumulated import Contribution, contributions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lockstep.adapters.kafka import Broker
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.offsets import TopicView
    from lockstep.core.targets import Accumulate, Total

DIGITS = 1_000  # more than any sum of decimals has
NAME = "each key's totals are those of its records"


def recomputed(
    cur: Any, broker: Broker, folder: PipelineFolder, target: Accumulate, view: TopicView, streams: Sequence[Any]
) -> Check:
    """Counts, and the totals of whole numbers and decimals, of every segment that the log still holds from its beginning."""
    types = {column.name: column.type for column in folder.pipeline.format.columns}
    plain = isinstance(folder.pipeline.format, Json) and not folder.transform
    if not plain or not {types.get(key) for key in target.key} <= EXACT_KEYS:
        return Check(
            NAME, ok=True, detail="not provable from Kafka: no JSON, a transform, or a key that is no text or number"
        )
    totals = [total for total in target.totals if _is_provable(total, types)]
    segments, records = 0, 0
    for stream in streams:
        rejected = ledger.rejected_offsets(cur, stream.stream_id)
        log_start = view.bounds[stream.partition].log_start
        for segment in ledger.segments(cur, stream.stream_id):
            if segment.from_offset < log_start:
                continue
            read = broker.records(view.topic, stream.partition, segment.from_offset, segment.until_offset)
            accepted = [message for message in read if message.offset() not in rejected]
            kept = contributions(cur, target, segment.batch_id, stream.stream_id)
            wrong = _difference(_added_up(accepted, target, totals), kept, totals)
            if wrong:
                where = f"{stream.topic}-{stream.partition} [{segment.from_offset}, {segment.until_offset})"
                return Check(NAME, ok=False, detail=f"{where}, batch {segment.batch_id}: {wrong}")
            segments, records = segments + 1, records + len(accepted)
    left = [total.name for total in target.totals if total not in totals]
    apart = f"; not recomputed: {', '.join(left)}" if left else ""
    return Check(NAME, ok=True, detail=f"{records} records of {segments} segments{apart}")


def _is_provable(total: Total, types: Mapping[str, str]) -> bool:
    """Whether Python computes it as Postgres does, to the digit."""
    return isinstance(total, Count) or types[total.of] in WHOLE or types[total.of].startswith("decimal")


def _added_up(
    messages: Iterable[Any], target: Accumulate, totals: Sequence[Total]
) -> dict[tuple[str, ...], Contribution]:
    by_key: dict[tuple[str, ...], list[tuple[int, Mapping[str, Any]]]] = {}
    for message in messages:
        value = json.loads(message.value(), parse_float=Decimal)
        by_key.setdefault(tuple(str(value[name]) for name in target.key), []).append((message.offset(), value))
    return {
        key: Contribution(
            len(found),
            max(offset for offset, _ in found),
            {total.name: _total(total, [value for _, value in found]) for total in totals},
        )
        for key, found in by_key.items()
    }


def _total(total: Total, values: Sequence[Mapping[str, Any]]) -> Any:
    if total.of is None:
        return len(values)
    given = [value[total.of] for value in values if value.get(total.of) is not None]
    if isinstance(total, Count):
        return len(given)
    try:
        numbers = [Decimal(str(number)) for number in given]
    except InvalidOperation:
        return f"{total.of} is no number in every record"
    if not numbers:
        return None
    if isinstance(total, Sum):
        with localcontext(prec=DIGITS):
            return sum(numbers, Decimal(0))
    return max(numbers) if isinstance(total, Max) else min(numbers)


def _difference(
    read: Mapping[tuple[str, ...], Contribution],
    kept: Mapping[tuple[str, ...], Contribution],
    totals: Sequence[Total],
) -> str | None:
    for key in sorted(read.keys() | kept.keys()):
        one, other = read.get(key), kept.get(key)
        if one is None or other is None:
            here, there = ("the log", "the contributions") if other is None else ("the contributions", "the log")
            return f"key {', '.join(key)} is in {here} and not in {there}"
        if (one.records, one.offset) != (other.records, other.offset):
            return (
                f"key {', '.join(key)}: {one.records} records up to offset {one.offset} in the log, "
                f"{other.records} up to {other.offset} counted"
            )
        for total in totals:
            if one.totals[total.name] != other.totals[total.name]:
                return f"key {', '.join(key)}: {total.name} is {one.totals[total.name]}, counted was {other.totals[total.name]}"
    return None
