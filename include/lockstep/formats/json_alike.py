"""What Arrow and Spark read alike: which bytes of JSON, and which values of which types; tried, and held by a property test."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.columns import MAX_PRECISION
from lockstep.formats.values import PLAIN, arrow_type, digits

if TYPE_CHECKING:
    from lockstep.core.columns import Column

    Places = np.ndarray[Any, np.dtype[np.int64]]
    Flags = np.ndarray[Any, np.dtype[np.bool_]]

BRACE, CLOSING, FIRST_PLAIN = ord("{"), ord("}"), 0x20

# Jackson has limits that Arrow's parser has not: to nesting, to the digits of a number, to the length of a name.
LONG, TOO_LONG = 300, 50_000
DEEP = 300
MANY_DIGITS = r"[0-9]{300}"
# To Arrow's parser NaN and Infinity are numbers. NUL and half a surrogate pair are escapes that not everybody takes.
ODD = r"NaN|Inf|\\u(?:[dD]|0000)"
IN_ODD = (b"NaN", b"Inf", b"\\u")

# Both read more than these as a moment, and not always as the same: times of day, zones that are names, no zone at all.
MOMENTS = {
    "date": (r"^\d{4}-\d\d-\d\d$", date(1, 1, 1), date(9999, 12, 31)),
    "timestamp": (
        r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-](?:0\d|1[0-7]):[0-5]\d)$",
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    ),
}


def read_alike(column: Column) -> bool:
    """Whether values of this column's type are read alike, or can be seen not to be."""
    if column.type.startswith("decimal"):
        return sum(digits(column.type)) <= MAX_PRECISION  # beyond it, Arrow may shift digits out without a word
    return column.type in PLAIN and column.type != "binary"


def parsed_type(column: Column) -> pa.DataType:
    """The type by which Arrow's parser is to read the column."""
    return pa.string() if column.type in MOMENTS else arrow_type(column)


def plain(values: pa.Array) -> Places:
    """The places of the `binary` values that hold nothing over which the two could differ: a line of UTF-8 within braces."""
    _, offsets_at, data_at = values.buffers()
    if not len(values) or data_at is None:
        return np.array([], np.int64)
    ends = np.frombuffer(offsets_at, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    data = np.frombuffer(data_at, np.uint8)
    whole = data[ends[0] : ends[-1]]
    sizes = np.diff(ends)
    good = values.is_valid().to_numpy(zero_copy_only=False) & (sizes > 1) & (sizes <= TOO_LONG)
    good[good] = (data[ends[:-1][good]] == BRACE) & (data[ends[1:][good] - 1] == CLOSING)
    if len(controls := np.flatnonzero(whole < FIRST_PLAIN)):
        good[np.searchsorted(ends, controls + ends[0], "right") - 1] = False
    places = _texts(values, np.flatnonzero(good))
    text = whole.tobytes()
    if any(part in text for part in IN_ODD):
        places = places[~_matches(values, places, ODD)]
    long = places[sizes[places] > LONG]
    return np.setdiff1d(places, long[_extreme(values, long)], assume_unique=True) if len(long) else places


def exact(array: pa.Array, column: Column) -> tuple[pa.Array, Flags | None]:
    """What Arrow parsed, as the column's type; and which values Spark would, or might, make something else of.

    Raises `pa.ArrowInvalid` where a value looks right and is not: there is no 30th of February.
    """
    if column.type in MOMENTS:
        pattern, first, last = MOMENTS[column.type]
        is_moment = pc.match_substring_regex(array, pattern)
        moments = pc.if_else(is_moment, array, None).cast(arrow_type(column))
        within = pc.and_(pc.greater_equal(moments, first), pc.less_equal(moments, last))
        return moments, _no(pc.if_else(is_moment, within, is_moment))
    if column.type.startswith("decimal"):
        precision, scale = digits(column.type)
        most = Decimal(10**precision - 1).scaleb(-scale)
        within = pc.and_(pc.less_equal(array, most), pc.greater_equal(array, -most))
        return array, _no(within)
    if column.type in {"float", "double"}:
        numbers = array.fill_null(1).to_numpy(zero_copy_only=False)
        odd = ~np.isfinite(numbers) | ((numbers == 0) & np.signbit(numbers))  # to Spark, -0 is 0, and -0.0 is not
        return array, odd if odd.any() else None
    return array, None


def _no(answers: pa.Array) -> Flags | None:
    """Where the answer is no; None where it is nowhere."""
    no = pc.invert(answers).fill_null(False)  # noqa: FBT003 - a value
    return no.to_numpy(zero_copy_only=False) if pc.any(no).as_py() else None


def _texts(values: pa.Array, places: Places) -> Places:
    """Those that are UTF-8."""
    chosen = values.take(pa.array(places)) if len(places) < len(values) else values
    try:
        chosen.cast(pa.string())
    except pa.ArrowInvalid:
        return places[[_is_text(value) for value in chosen.to_pylist()]]
    return places


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _matches(values: pa.Array, places: Places, pattern: str) -> Flags:
    chosen = values.take(pa.array(places))
    found: Flags = pc.match_substring_regex(chosen.cast(pa.string()), pattern).to_numpy(zero_copy_only=False)
    return found


def _extreme(values: pa.Array, places: Places) -> Flags:
    """Whether it is nested so deep, or has so many digits on end, that one of the two may not take it."""
    chosen = values.take(pa.array(places))
    opened = pc.add(pc.count_substring(chosen, "["), pc.count_substring(chosen, "{"))
    deep: Flags = opened.to_numpy(zero_copy_only=False) > DEEP
    return deep | _matches(values, places, MANY_DIGITS)
