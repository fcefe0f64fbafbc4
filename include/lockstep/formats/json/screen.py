"""Finds records that Arrow's parser would complain about, and writes those anew whose texts are nested values."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from lockstep.formats.json.judge import MOST_DEPTH
from lockstep.formats.json.literal import Literal
from lockstep.formats.json.written import written_text
from lockstep.formats.values import BITS

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from lockstep.core.pipeline.columns import Column

    Screen = Callable[[pa.Array], np.ndarray[Any, np.dtype[np.bool_]]]
    Write = Callable[[bytes], bytes | None]

SCREENED_TYPES: dict[str, Any] = {"boolean": bool, "float": float, "double": float} | {
    type_: Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)] for type_, bits in BITS.items()
}


AS_IT_IS = (b'"', b"n")  # a text, and null
FAULTS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@lru_cache(maxsize=16)
def screen_of(columns: tuple[Column, ...]) -> Screen:
    """Returns a function that flags the `binary` values whose fields seem to be of these columns' types.

    Arrow may refuse a flagged value all the same. The others are left to the judge.
    """
    decode = _decoder(columns, lambda column: _type(column) | None)

    def seems_good(value: Any) -> bool:
        try:
            decode(value)
        except FAULTS:
            return False
        return True

    return lambda values: np.fromiter(map(seems_good, values.to_pylist()), np.bool_, len(values))


@lru_cache(maxsize=16)
def writer_of_texts(columns: tuple[Column, ...]) -> Write:
    """Returns a function that writes a record anew with its declared fields alone.

    A nested value or a number becomes a text where its column is one. Returns None for a value that may be no record.
    """
    decode_whole = msgspec.json.Decoder().decode
    decode = _decoder(columns, lambda _: msgspec.Raw)
    begins = [(json.dumps(column.name).encode() + b":", column.type == "string") for column in columns]

    def write(value: bytes) -> bytes | None:
        if value.count(b"{") + value.count(b"[") > MOST_DEPTH:
            return None
        try:
            decode_whole(value)  # a field that no column names may be no JSON
            literals = msgspec.structs.astuple(decode(value))
            fields = [
                name + (_quoted(literal) if is_text and literal[:1] not in AS_IT_IS else literal)
                for (name, is_text), raw in zip(begins, literals, strict=True)
                if raw is not None and (literal := bytes(raw))
            ]
        except (*FAULTS, ValueError):
            return None
        return b"{" + b",".join(fields) + b"}"

    return write


def _decoder(columns: tuple[Column, ...], type_of: Callable[[Column], Any]) -> Callable[[bytes], Any]:
    """Returns a function that decodes the columns' fields of a record. A missing one is None."""
    fields = [(f"field_{place}", type_of(column), None) for place, column in enumerate(columns)]
    names = {f"field_{place}": column.name for place, column in enumerate(columns)}
    return msgspec.json.Decoder(msgspec.defstruct("Fields", fields, rename=names)).decode


def _quoted(literal: bytes) -> bytes:
    return json.dumps(written_text(Literal(literal.decode()))).encode()


def _type(column: Column) -> Any:
    return str | float if column.type.startswith("decimal") else SCREENED_TYPES.get(column.type, str)
