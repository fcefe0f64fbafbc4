"""Digests values of rows, and sums up their coordinates: alike before they are written and in whatever file they lie.

Tasks use it, and have no pyiceberg.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.records import COORDINATES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockstep.core.lake.files import OffsetSums

    Words = np.ndarray[Any, np.dtype[np.uint64]]
    Letters = np.ndarray[Any, np.dtype[np.uint8]]
    Lengths = np.ndarray[Any, np.dtype[np.int64]]
    Places = np.ndarray[Any, np.dtype[np.int64]]

WORD = 2**63
ODD = np.uint64(0x9E3779B97F4A7C15)
SPREAD = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
NULL_WORD = np.uint64(0xD6E8FEB86659FD93)
LONG_TEXT_BYTES = 2**16  # a longer text has a hash of its own
TEXTS_AT_ONCE_BYTES = 2**20
LETTERS_A_STEP = 200  # that one sum over all letters takes in the time of a step by places
SAMPLE = 256  # texts that say if a column repeats its values
LOW = np.uint64(0xFFFFFFFF)


def value_digests(rows: pa.RecordBatch, columns: Sequence[str]) -> dict[int, int]:
    """Returns, by stream, the sum of the hashes of its rows. Each covers coordinates and these columns, in this order.

    A value counts by what it is. Whole numbers of all widths are alike, and so are both widths of a float.
    """
    stream, *others = (rows.column(name) for name in (*COORDINATES, *columns))
    parts = list(masks_by_stream(stream.to_numpy(zero_copy_only=False)))
    hashes = mixed(np.full(1, ODD))
    for column in (stream.slice(0, 1) if len(parts) == 1 else stream, *others):  # one of all rows counts for each
        hashes = mixed(hashes * ODD + words_of(column))
    return {number: _sum(hashes if rows_of is None else hashes[rows_of]) for number, rows_of in parts}


def masks_by_stream(streams: np.ndarray[Any, Any]) -> Iterator[tuple[int, np.ndarray[Any, Any] | None]]:
    """Yields each stream with a mask of its rows, or None if all rows are of one."""
    if len(streams) and (streams == streams[0]).all():  # as nearly always, and a mask would be a copy of each column
        yield int(streams[0]), None
        return
    for stream in np.unique(streams):
        yield int(stream), streams == stream


def _sum(hashes: Words) -> int:
    """Returns the exact sum, which 64 bits do not hold."""
    return (int((hashes >> np.uint64(32)).sum()) << 32) + int((hashes & LOW).sum())


def words_of(column: pa.Array) -> Words:
    """Returns a number of 64 bits for each value."""
    words = _of_values(column)
    return np.where(column.is_null().to_numpy(zero_copy_only=False), NULL_WORD, words) if column.null_count else words


def _of_values(column: pa.Array) -> Words:
    type_ = column.type
    if column.null_count == len(column):
        return np.zeros(len(column), np.uint64)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        if not column.null_count and _is_seldom_repeated(column):
            return _texts(column.cast(pa.binary()))
        codes = column.dictionary_encode()
        texts = _texts(codes.dictionary.cast(pa.binary()))
        words: Words = texts[codes.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        return words
    if pa.types.is_decimal128(type_):
        halves = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + len(column))]
        return mixed(halves[0::2] * ODD) + halves[1::2]
    if pa.types.is_floating(type_):
        numbers = _filled(column.cast(pa.float64())).to_numpy() + 0.0  # one zero
        plain: Words = np.where(np.isnan(numbers), np.nan, numbers).view(np.uint64)
        return plain
    if pa.types.is_timestamp(type_):
        column = column.cast(pa.timestamp("us", type_.tz))
    elif pa.types.is_date32(type_):
        column = column.cast(pa.int32())
    whole: Words = _filled(pc.cast(column, pa.int64())).to_numpy().view(np.uint64)
    return whole


def _filled(numbers: pa.Array) -> pa.Array:
    """Returns the numbers with 0 in place of null. Without a null, they are no copy."""
    return numbers.fill_null(0) if numbers.null_count else numbers


def _is_seldom_repeated(column: pa.Array) -> bool:
    sample = column.slice(0, SAMPLE)
    return 2 * len(sample.unique()) > len(sample)


def _texts(values: pa.Array) -> Words:
    """Returns a number for each text, none of which is null."""
    lengths = pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)
    if len(values) > 1 and lengths.sum() > TEXTS_AT_ONCE_BYTES:
        half = len(values) // 2
        return np.concatenate([_texts(values.slice(0, half)), _texts(values.slice(half))])
    is_long = lengths > LONG_TEXT_BYTES
    if is_long.any():
        found = np.array([_long(value) if value is not None else 0 for value in _only(values, is_long)], np.uint64)
        short = pc.if_else(pa.array(is_long), pa.scalar(b""), values)
        return np.where(is_long, found, _texts(short))
    _, offsets, data = values.buffers()
    begin = int(np.frombuffer(offsets, np.int32)[values.offset]) if len(values) else 0
    size = int(lengths.sum())
    letters = np.frombuffer(data, np.uint8)[begin : begin + size] if size else np.zeros(0, np.uint8)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)), ODD), dtype=np.uint64)
    way = _sums_by_place if len(powers) * LETTERS_A_STEP <= size else _sums_of_all
    return mixed(way(letters, lengths, powers) + lengths.astype(np.uint64) * SPREAD[0])


def _sums_by_place(letters: Letters, lengths: Lengths, powers: Words) -> Words:
    """Returns the sum of each text's letters by their powers. A step takes one letter of each text that is so long."""
    if (lengths == len(powers)).all():  # texts of one length are the lines of a matrix
        matrix: Words = np.einsum("ij,j->i", letters.reshape(len(lengths), len(powers)), powers)
        return matrix
    order = np.argsort(-lengths, kind="stable")
    at = (np.cumsum(lengths) - lengths)[order]
    longer = len(lengths) - np.cumsum(np.bincount(lengths))
    found = np.zeros(len(lengths), np.uint64)
    for power, count in zip(powers, longer, strict=False):
        found[:count] += letters[at[:count]] * power
        at[:count] += 1
    sums = np.empty_like(found)
    sums[order] = found
    return sums


def _sums_of_all(letters: Letters, lengths: Lengths, powers: Words) -> Words:
    """Returns the same sums as differences of one sum over all letters."""
    ends = np.cumsum(lengths)
    places = np.arange(len(letters)) - np.repeat(ends - lengths, lengths)
    summed = np.concatenate([np.zeros(1, np.uint64), np.cumsum(letters * powers[places], dtype=np.uint64)])
    differences: Words = summed[ends] - summed[ends - lengths]
    return differences


def _only(values: pa.Array, wanted: np.ndarray[Any, Any]) -> list[bytes | None]:
    return pc.if_else(pa.array(wanted), values, pa.scalar(None, pa.binary())).to_pylist()  # type: ignore[no-any-return]


def _long(value: bytes) -> int:
    return int.from_bytes(blake2b(value, digest_size=8).digest())


def mixed(words: Words) -> Words:
    """Spreads each bit over all others."""
    words = words ^ (words >> np.uint64(30))
    words *= SPREAD[0]
    words ^= words >> np.uint64(27)
    words *= SPREAD[1]
    words ^= words >> np.uint64(31)
    return words


def places_in(rows: pa.RecordBatch | pa.Table) -> Places:
    """Returns stream, offset and ordinal of each row, as three lines of one array."""
    return np.stack([pc.cast(rows[name], pa.int64()).to_numpy(zero_copy_only=False) for name in COORDINATES])


def is_rising(places: Places) -> bool:
    """Returns True if each place is behind the one before it, in the order of streams. None is there twice then."""
    one, next_ = places[:, :-1], places[:, 1:]
    later = (one[1] < next_[1]) | ((one[1] == next_[1]) & (one[2] < next_[2]))
    return bool(((one[0] < next_[0]) | ((one[0] == next_[0]) & later)).all())


def doubled(places: Places) -> tuple[int, ...] | None:
    """Returns a place that two rows have, or None if each has its own."""
    if is_rising(places):
        return None
    places = places[:, np.lexsort(places[::-1])]
    same = (places[:, 1:] == places[:, :-1]).all(axis=0)
    return tuple(map(int, places[:, int(np.argmax(same))])) if same.any() else None


def stream_sums(rows: pa.RecordBatch | pa.Table) -> dict[int, OffsetSums]:
    """Returns the sums of a table's offsets, by stream. They are exact whatever the offsets are."""
    streams, offsets = (rows[name].to_numpy(zero_copy_only=False) for name in ("_stream", "_offset"))
    found: dict[int, OffsetSums] = {}
    for stream, rows_of in masks_by_stream(streams):
        its = offsets if rows_of is None else offsets[rows_of]
        first, last, n = int(its.min()), int(its.max()), len(its)
        distances = its - first
        if (last - first) ** 2 * n < WORD:
            total, squares = int(distances.sum()), int((distances * distances).sum())
        else:  # numpy would wrap around without a word
            exact = [int(d) for d in distances]
            total, squares = sum(exact), sum(d * d for d in exact)
        found[stream] = (n, total + n * first, squares + 2 * first * total + n * first * first, first, last)
    return found
