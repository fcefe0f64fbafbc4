"""Adds the envelope's columns to decoded records, and rejects those whose key or headers do not fit them."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.pipeline.columns import NUL, NUL_REASON
from lockstep.core.text import is_utf8_bytes
from lockstep.formats.rows import headers_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.pipeline.formats import Envelope

ESCAPE = re.compile(r"\\(?:u00(..)|.)")


@dataclass(frozen=True, slots=True)
class EnvelopeColumns:
    """The columns of an envelope. A target needs those in `needed`."""

    envelope: Envelope
    needed: frozenset[str]

    def added(self, raw: pa.RecordBatch, decoded: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """Returns decoded columns and marks with the envelope's. A record that does not fit becomes a reject."""
        is_row = pc.and_(pc.is_null(decoded["_reason"]), pc.invert(pc.or_(decoded["_deleted"], decoded["_filtered"])))
        columns = self._columns(raw)
        faults = self._faults(raw, columns)
        reasons = decoded["_reason"]
        if faults.null_count < len(faults):
            reasons = pc.coalesce(reasons, pc.if_else(is_row, faults, None))
        taken = pc.and_(is_row, pc.is_null(reasons))
        marks = ("_deleted", "_filtered")
        kept = {name: its if name in marks else _where(pc.is_null(reasons), its) for name, its in decoded.items()}
        return kept | {"_reason": reasons} | {name: _where(taken, its) for name, its in columns.items()}

    def _columns(self, raw: pa.RecordBatch) -> dict[str, pa.Array]:
        envelope = self.envelope
        columns: dict[str | None, Any] = {
            envelope.timestamp: raw.column("_timestamp"),
            envelope.partition: raw.column("_partition"),
            envelope.offset: raw.column("_offset"),
            envelope.topic: raw.column("_topic"),
        }
        if envelope.headers is not None:
            texts = [headers_text(headers_of(text)) for text in raw.column("_headers").to_pylist()]
            columns[envelope.headers] = pa.array(texts, pa.string())
        if (key := envelope.key_column) is not None:
            keys = raw.column("_key")
            columns[key.name] = (
                keys if key.type == "binary" else pa.array(map(storable_text, keys.to_pylist()), pa.string())
            )
        return {column.name: columns[column.name] for column in envelope.columns}

    def _faults(self, raw: pa.RecordBatch, columns: dict[str, pa.Array]) -> pa.Array:
        """Returns why each record does not fit the envelope, or null."""
        envelope = self.envelope
        faults: list[str | None] = [None] * raw.num_rows
        for name in sorted(self.needed & columns.keys()):
            _fill(faults, columns[name], f"column {name}: null, and the target's key or order needs it")
        if envelope.headers is not None:
            for place, text in enumerate(raw.column("_headers").to_pylist()):
                if any(NUL in name for name, _ in headers_of(text)):
                    faults[place] = f"column {envelope.headers}: a name {NUL_REASON}"
        key = envelope.key_column
        if key is not None and key.type == "string":
            for place, value in enumerate(raw.column("_key").to_pylist()):
                if value is not None and storable_text(value) is None:
                    why = NUL_REASON if is_utf8_bytes(value) else "the key is not valid UTF-8"
                    faults[place] = f"column {key.name}: {why}"
        return pa.array(faults, pa.string())


def headers_text(headers: Sequence[tuple[str, bytes | None]] | None) -> str | None:
    """Returns headers as in the envelope's column. A value that is no text is written in base64."""
    if not headers:
        return None
    said = []
    for name, value in headers:
        text = storable_text(value)
        part = (
            {} if value is None else {"base64": base64.b64encode(value).decode()} if text is None else {"value": text}
        )
        said.append({"key": name} | part)
    text = json.dumps(said, ensure_ascii=False, separators=(",", ":"))
    return ESCAPE.sub(lambda found: f"\\u00{found[1].upper()}" if found[1] else found[0], text)


def storable_text(value: bytes | None) -> str | None:
    """Returns the bytes as text that Postgres can hold, or None if they are no such text."""
    try:
        text = None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
    return None if text is None or NUL in text else text


def _fill(faults: list[Any], column: pa.Array, why: str) -> None:
    for place in pc.indices_nonzero(pc.is_null(column)).to_pylist():
        faults[place] = why


def _where(taken: pa.Array, column: pa.Array) -> pa.Array:
    return pc.if_else(taken, column, pa.scalar(None, column.type))
