"""Defines the outcome of one record, and how its reason and headers are written."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, NamedTuple

from lockstep.core.errors import BadData

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

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


def refused(batch: pa.RecordBatch, place: int, refusal: str, *, names_topic: bool = True) -> BadData:
    """Returns the error for a record that must not be committed over. It names partition and offset."""
    topic, partition, offset = (batch.column(n)[place].as_py() for n in ("_topic", "_partition", "_offset"))
    pipeline = refusal.partition(":")[0]
    where, option = (f"topic {topic} ", f" --topic {topic}") if topic and names_topic else ("", "")
    return BadData(
        f"{refusal}: {where}partition {partition} offset {offset}",
        next_command=f"lockstep skip {pipeline}{option} --to {partition}:{offset + 1} --reason ...",
    )


def headers_json(headers: Sequence[tuple[str, bytes | None]] | None) -> str | None:
    """Returns headers as the JSON text that rejects keep: objects without nulls."""
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


def shortened_reason(reason: str | None) -> str | None:
    """Shortens a reason to one line that Postgres can store."""
    if reason is None:
        return None
    line = " ".join(reason.replace("\x00", "\\u0000").encode(errors="replace").decode().split())
    return line[:REASON_LENGTH] or "no reason given"
