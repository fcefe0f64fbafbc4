"""Decodes in Python: a function judges one record after another, and its outcomes become Arrow columns."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lockstep.core.errors import BadData
from lockstep.core.records import MARK_COLUMNS
from lockstep.deadline import Deadline
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.limits import RecordLimits

    Headers = list[tuple[str, bytes | None]]

REASON_LENGTH = 500


class RecordOutcome(NamedTuple):
    """The outcome of one record: its values by column name, or the reason why it is a reject.

    A `refusal` says why its whole batch must not be committed.
    """

    values: dict[str, Any] = {}  # noqa: RUF012 - nobody writes to it
    reason: str | None = None
    deleted: bool = False
    filtered: bool = False
    refusal: str | None = None


TOO_LARGE = RecordOutcome(reason="is past a limit (record_limits)")


def decoded_in_python(
    records: DataFrame,
    columns: Sequence[Column],
    decoder: Callable[[], Callable[[bytes | None, bytes | None, str | None], RecordOutcome]],
    limits: RecordLimits,
) -> DataFrame:
    """Adds `_deleted`, `_reason`, `_filtered` and the columns. `decoder` makes the judge of records once per task.

    The judge takes key, value and headers, the latter as the JSON text that rejects keep. It sees only records within the
    limit of bytes, and each record is progress.
    """
    declared = [*MARK_COLUMNS, *((f"`{column.name}`", column.type) for column in columns)]
    names = ", ".join(f"{name} {type_}" for name, type_ in declared)
    added = records.sparkSession.createDataFrame([], names).schema
    schema = type(added)([*records.schema.fields, *added.fields])

    def decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        judge, deadline = decoder(), Deadline(limits.seconds)
        for batch in batches:
            raw = [batch.column(name).to_pylist() for name in ("_key", "_value", "_headers", "_bytes")]
            # A record that is too large, or hidden, comes without its bytes: no decoder is shown a record that is none.
            with deadline:
                outcomes = [
                    judge(*record) if size is None or 0 <= size <= limits.bytes else TOO_LARGE
                    for *record, size in deadline.each(zip(*raw, strict=True))
                ]
            require_accepted(batch, outcomes)
            yield _with_outcomes(batch, columns, outcomes)

    return records.mapInArrow(decoded, schema)


def require_accepted(batch: pa.RecordBatch, outcomes: Sequence[RecordOutcome], *, names_topic: bool = True) -> None:
    """Raises `BadData`, with partition and offset, for the first record that must not be committed over."""
    for place, outcome in enumerate(outcomes):
        if outcome.refusal is not None:
            topic, partition, offset = (batch.column(n)[place].as_py() for n in ("_topic", "_partition", "_offset"))
            pipeline = outcome.refusal.partition(":")[0]
            where, option = (f"topic {topic} ", f" --topic {topic}") if topic and names_topic else ("", "")
            raise BadData(
                f"{outcome.refusal}: {where}partition {partition} offset {offset}",
                next_command=f"lockstep skip {pipeline}{option} --to {partition}:{offset + 1} --reason ...",
            )


def headers_json(headers: Sequence[tuple[str, bytes | None]] | None) -> str | None:
    """Returns headers as the JSON text that Spark's source makes and rejects keep: objects without nulls."""
    if not headers:
        return None
    said = [
        {"key": key} if value is None else {"key": key, "value": b64encode(value).decode()} for key, value in headers
    ]
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def headers_of(text: str | None) -> Headers:
    """Returns the headers from the JSON text that rejects keep."""
    return [
        (header["key"], b64decode(header["value"]) if "value" in header else None)
        for header in json.loads(text or "[]")
    ]


def _with_outcomes(
    batch: pa.RecordBatch, columns: Sequence[Column], outcomes: Sequence[RecordOutcome]
) -> pa.RecordBatch:
    arrays = {name: batch.column(name) for name in batch.schema.names}
    arrays["_deleted"] = pa.array([outcome.deleted for outcome in outcomes], pa.bool_())
    arrays["_reason"] = pa.array([shortened_reason(outcome.reason) for outcome in outcomes], pa.string())
    arrays["_filtered"] = pa.array([outcome.filtered for outcome in outcomes], pa.bool_())
    for column in columns:
        arrays[column.name] = pa.array([o.values.get(column.name) for o in outcomes], arrow_type(column))
    return pa.RecordBatch.from_pydict(arrays)


def shortened_reason(reason: str | None) -> str | None:
    """Shortens a reason to one line that Postgres can store."""
    if reason is None:
        return None
    line = " ".join(reason.replace("\x00", "\\u0000").encode(errors="replace").decode().split())
    return line[:REASON_LENGTH] or "no reason given"
