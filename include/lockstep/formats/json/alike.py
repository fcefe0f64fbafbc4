"""Selects the JSON bytes, and the values by type, that Arrow and the judge read alike. A property test proves it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.pipeline.columns import digits
from lockstep.core.text import is_utf8_bytes
from lockstep.formats.json.apart import screen_of
from lockstep.formats.values import arrow_type

if TYPE_CHECKING:
    from lockstep.core.pipeline.columns import Column

    Places = np.ndarray[Any, np.dtype[np.int64]]
    Flags = np.ndarray[Any, np.dtype[np.bool_]]
    Bytes = np.ndarray[Any, np.dtype[np.uint8]]

BRACE, CLOSING, FIRST_PLAIN = ord("{"), ord("}"), 0x20
BACKSLASH, LOWER, ESCAPE_BYTES = ord("\\"), 0x20, 6
HIGH = np.frombuffer(bytes(each | LOWER for each in b"89AB"), np.uint8)  # digits that begin the high half of a pair

# Deep records are left to the judge, which has a limit that Arrow's parser has not. No other ones are searched for them.
LONG, DEEP = 1_000, 300

YEAR = r"(?:[1-9]\d{3}|0[1-9]\d\d|00[1-9]\d|000[1-9])"
# Both read more than these as a moment, and not always as the same: times of day, zones that are names, no zone at all.
MOMENTS = {
    "date": (r"^\d{4}-\d\d-\d\d$", date(1, 1, 1), date(9999, 12, 31)),
    "timestamp": (
        rf"^{YEAR}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{{1,6}})?(?:Z|[+-](?:0\d|1[0-7]):[0-5]\d)$",
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    ),
}


is_json = screen_of(())


def parsed_type(column: Column) -> pa.DataType:
    """Returns the type by which Arrow's parser reads the column."""
    return pa.string() if column.type in MOMENTS else arrow_type(column)


def plain_places(values: pa.Array) -> Places:
    """Returns the places of `binary` values that both read alike: one line of UTF-8 within braces."""
    _, offsets_at, data_at = values.buffers()
    if not len(values) or data_at is None:
        return np.array([], np.int64)
    offsets = np.frombuffer(offsets_at, np.int32)[values.offset : values.offset + len(values) + 1]
    data = np.frombuffer(data_at, np.uint8)[offsets[0] : offsets[-1]]
    begins, ends = (offsets[:-1] - offsets[0]).astype(np.int64), (offsets[1:] - offsets[0]).astype(np.int64)
    sizes = ends - begins
    good = values.is_valid().to_numpy(zero_copy_only=False) & (sizes > 1)
    good[good] = (data[begins[good]] == BRACE) & (data[ends[good] - 1] == CLOSING)
    good[np.searchsorted(ends, _odd(data), "right")] = False
    if sizes.max() > LONG:
        opening = np.flatnonzero((data == ord("[")) | (data == BRACE))
        good &= np.bincount(np.searchsorted(ends, opening, "right"), minlength=len(ends)) <= DEEP
    for place in np.unique(np.searchsorted(ends, _not_numbers(data), "right")):
        good[place] = good[place] and is_json(values[place].as_py())
    return _texts(values, np.flatnonzero(good))


def exact(array: pa.Array, column: Column) -> tuple[pa.Array, Flags | None]:
    """Converts Arrow's values to the column's type. Flags those that the judge would, or might, read differently."""
    if column.type in MOMENTS:
        pattern, first, last = MOMENTS[column.type]
        is_moment = pc.match_substring_regex(array, pattern)
        try:
            moments = pc.if_else(is_moment, array, None).cast(arrow_type(column))
        except pa.ArrowInvalid:  # the judge finds out which text only looks right, such as the 30th of February
            return pa.nulls(len(array), arrow_type(column)), np.ones(len(array), np.bool_)
        within = pc.and_(pc.greater_equal(moments, first), pc.less_equal(moments, last))
        return moments, _no(pc.if_else(is_moment, within, is_moment))
    if column.type.startswith("decimal"):
        precision, scale = digits(column.type)
        least, most = (Decimal((sign, (9,) * precision, -scale)) for sign in (1, 0))  # arithmetic would round them
        within = pc.and_(pc.less_equal(array, most), pc.greater_equal(array, least))
        return array, _no(within)
    if column.type in {"float", "double"}:
        numbers = array.fill_null(1).to_numpy(zero_copy_only=False)
        odd = ~np.isfinite(numbers) | ((numbers == 0) & np.signbit(numbers))  # a zero below zero is the judge's
        return array, odd if odd.any() else None
    return array, None


def _no(answers: pa.Array) -> Flags | None:
    """Returns flags of the negative answers, or None if there are none."""
    no = pc.invert(answers).fill_null(False)  # noqa: FBT003 - a value
    return no.to_numpy(zero_copy_only=False) if pc.any(no).as_py() else None


def _texts(values: pa.Array, places: Places) -> Places:
    """Returns the places whose values are UTF-8."""
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return places[[is_utf8_bytes(value) for value in values.take(pa.array(places)).to_pylist()]]
    return places


def _odd(data: Bytes) -> Places:
    """Returns the places of control characters, and of escapes of NUL or of half a pair."""
    controls = np.flatnonzero(data < FIRST_PLAIN)
    escapes = _found(data, b"\\u")
    digits_of = data[np.minimum(escapes[:, None] + np.arange(2, 6), len(data) - 1)]
    is_nul = (digits_of == ord("0")).all(axis=1)
    odd = escapes[is_nul | _halves(data, escapes, digits_of)]
    return np.concatenate([controls, odd])


def _not_numbers(data: Bytes) -> Places:
    """Returns the places of NaN and Infinity, which Arrow takes for numbers where they are not within a text."""
    return np.concatenate([_found(data, b"NaN"), _found(data, b"Inf")])


def _halves(data: Bytes, escapes: Places, digits_of: Bytes) -> Flags:
    """Flags escapes of half a surrogate pair. A high half with a low one right behind it is a character."""
    is_half: Flags = (digits_of[:, 0] | LOWER) == ord("d")
    if not is_half.any():
        return is_half
    is_high = is_half & np.isin(digits_of[:, 1] | LOWER, HIGH)
    follows = np.zeros(len(escapes), np.bool_)
    follows[1:] = np.diff(escapes) == ESCAPE_BYTES
    is_paired = np.zeros(len(escapes), np.bool_)
    second = np.flatnonzero(follows & is_half & ~is_high & np.roll(is_high, 1))
    is_paired[second] = is_paired[second - 1] = True
    is_escaped = data[np.maximum(escapes - 1, 0)] == BACKSLASH  # then it may be text, and no escape
    halves: Flags = is_half & (~is_paired | is_escaped)
    return halves


def _found(data: Bytes, text: bytes) -> Places:
    """Returns the places where the text begins. Its first letter should be a rare one."""
    places = np.flatnonzero(data[: max(len(data) - len(text) + 1, 0)] == text[0])
    for further, letter in enumerate(text[1:], 1):
        places = places[data[places + further] == letter]
    return places
