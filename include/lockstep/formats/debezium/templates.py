"""Takes change records that differ in plain values alone from one that was decoded, many at once.

A connector writes the records of a table alike: the same names in the same order, and other values. A template is the text
of one record with a place for each value. A record that matches no template is left to the decoder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lockstep.core.capture.debezium import BY_SOURCE, SOURCE_ORDER_COLUMN, UNAVAILABLE_COLUMN
from lockstep.core.records import UNAVAILABLE
from lockstep.formats.debezium.change import change_of, json_document
from lockstep.formats.debezium.meaning import is_as_it_stands
from lockstep.formats.debezium.slots import (
    AFTER,
    ALWAYS_NULL,
    ANY_KIND,
    LSN,
    OPERATION,
    PLAIN_VALUES,
    SEQUENCE,
    SOURCE,
    TIME_FIELD,
    Slots,
    json_value,
    slots_of,
)
from lockstep.formats.debezium.source_order import NO_SNAPSHOT, orders_of_postgres, source_order
from lockstep.formats.values import BITS, arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lockstep.core.capture.debezium import Debezium
    from lockstep.core.pipeline.columns import Column
    from lockstep.formats.debezium.change import CapturedChange
    from lockstep.formats.debezium.decoder import ChangeDecoder

    Groups = Sequence[tuple[str | None, ...]]
    Flags = np.ndarray
    Values = Mapping[tuple[str, ...], tuple[str | None, ...]]

MOST_TEMPLATES = 8
MOST_LESSONS = 200  # records of which a template is tried to be made
MOST_LEARNED = 2**20  # characters of such a record
MOST_COMPILED = 2**22  # characters of the patterns of one task, which take some ten seconds to compile


@dataclass(frozen=True, slots=True)
class Template:
    """One way of writing a record. `takers` are of the columns that are no plain text, truth or whole number."""

    slots: Slots
    pattern: re.Pattern[str]
    kinds: Mapping[str, str]
    takers: Mapping[str, Callable[[Any], Any]]
    snapshot: Any

    def match(self, text: str) -> tuple[str | None, ...] | None:
        """Returns the values of a record that is written so, or None."""
        if not text.startswith(self.slots.head):
            return None
        found = self.pattern.fullmatch(text, len(self.slots.head))
        return found.groups() if found else None


class Templates:
    """The templates of one task's records. `decoder` judges those of which one is made, and is used for nothing else."""

    def __init__(self, decoder: ChangeDecoder, format_: Debezium, needed: frozenset[str]) -> None:
        self._decoder = decoder
        self._columns = (*format_.columns, UNAVAILABLE_COLUMN)
        self._is_ordered = format_.order == BY_SOURCE
        self._needed = needed
        self._lessons, self._compiled = MOST_LESSONS, 0
        self._templates: list[Template] = []
        self._placeholders = pa.array(sorted(decoder.placeholders), pa.string())

    def __call__(self, values: pa.Array) -> tuple[np.ndarray, pa.RecordBatch]:
        """Returns the places of the `binary` values that match a template, in order, and their columns."""
        found: dict[int, tuple[list[int], list[tuple[str | None, ...]]]] = {}
        newest, likely = 0, self._templates[0] if self._templates else None
        for place, data in enumerate(values.to_pylist()):
            if data is None:
                continue
            try:
                text = data.decode()
            except UnicodeDecodeError:
                continue
            number, groups = newest, likely.match(text) if likely else None
            if groups is None:
                number, groups = self._matched(text)
            if groups is None and self._learn(data, text):
                number, groups = self._matched(text)
            if groups is not None:
                places, rows = found.setdefault(number, ([], []))
                places.append(place)
                rows.append(groups)
                newest, likely = number, self._templates[number]
        taken = [self._taken(self._templates[number], *its) for number, its in found.items()]
        if len(taken) == 1:
            return taken[0]
        schema = pa.schema([(column.name, arrow_type(column)) for column in self._columns])
        places_ = np.concatenate([np.array([], np.int64), *(places for places, _ in taken)])
        batch = pa.concat_batches([pa.RecordBatch.from_pylist([], schema=schema), *(rows for _, rows in taken)])
        order = np.argsort(places_)
        return places_[order], batch.take(pa.array(order))

    def pass_over(self, decoder: ChangeDecoder, keys: pa.Array) -> None:
        """Has the decoder forget its newest deletion, as if it had judged the rows of these keys itself."""
        key = decoder.deleted_key
        if key is not None and len(keys) and pc.any(pc.equal(keys, pa.scalar(key, pa.binary()))).as_py():
            decoder.forget_deletion()

    def _matched(self, text: str) -> tuple[int, tuple[str | None, ...] | None]:
        for number, its in enumerate(self._templates):
            if (groups := its.match(text)) is not None:
                return number, groups
        return 0, None

    def _learn(self, data: bytes, text: str) -> bool:
        """Makes a template of a record, if the decoder takes it and the template gives the same. Returns True if it does."""
        if not self._lessons or len(self._templates) >= MOST_TEMPLATES or len(text) > MOST_LEARNED:
            return False
        self._lessons -= 1
        outcome = self._decoder(None, data, None)
        if outcome.reason or outcome.deleted or outcome.filtered or outcome.refusal or UNAVAILABLE in outcome.values:
            return False
        template = self._made(text, change_of(*json_document(data)))
        groups = template.match(text) if template else None
        if template is None or groups is None:
            return False
        _, batch = self._taken(template, [0], [groups])
        wanted = {
            column.name: pa.array([outcome.values.get(column.name)], arrow_type(column)) for column in self._columns
        }
        if not batch.num_rows or any(not batch.column(name).equals(array) for name, array in wanted.items()):
            return False
        self._templates.append(template)
        return True

    def _made(self, text: str, change: CapturedChange) -> Template | None:
        kinds: dict[str, str] = {}
        takers = {}
        for column in self._columns:
            if column in {SOURCE_ORDER_COLUMN, UNAVAILABLE_COLUMN} or column.name not in change.fields:
                continue
            if isinstance(change.fields[column.name], dict | list):
                return None
            try:
                take = self._decoder.taker(column, change.schemas)
            except ValueError:  # no value of this schema becomes one of the column
                kinds[column.name] = ALWAYS_NULL
                continue
            schema = None if change.schemas is None else change.schemas[column.name]
            is_plain = column.type in PLAIN_VALUES and (schema is None or is_as_it_stands(schema))
            kinds[column.name] = column.type if is_plain else ANY_KIND
            if not is_plain:
                takers[column.name] = take
        slots = slots_of(text, kinds, change.source, is_ordered=self._is_ordered)
        if slots is None or OPERATION not in slots.paths or len(set(slots.paths)) < len(slots.paths):
            return None
        self._compiled += len(slots.pattern)
        if self._compiled > MOST_COMPILED:
            self._lessons = 0
            return None
        return Template(slots, re.compile(slots.pattern), kinds, takers, change.source.get("snapshot"))

    def _taken(self, template: Template, places: Sequence[int], rows: Groups) -> tuple[np.ndarray, pa.RecordBatch]:
        """Returns the places and columns of the rows that are sure. The others are left, all of them after an error."""
        values = dict(zip(template.slots.paths, zip(*rows, strict=True), strict=True))
        good = np.ones(len(rows), np.bool_)
        try:
            arrays = [self._array(template, column, values, good) for column in self._columns]
        except (pa.ArrowInvalid, OverflowError):
            arrays, good = [pa.nulls(len(rows), arrow_type(column)) for column in self._columns], np.zeros_like(good)
        for column, array in zip(self._columns, arrays, strict=True):
            if column.name in self._needed and array.null_count:
                good &= array.is_valid().to_numpy(zero_copy_only=False)
        batch = pa.RecordBatch.from_arrays(arrays, names=[column.name for column in self._columns])
        at = np.array(places, np.int64)
        return (at, batch) if good.all() else (at[good], batch.filter(pa.array(good)))

    def _array(self, template: Template, column: Column, values: Values, good: Flags) -> pa.Array:
        """Returns the values of a column. Clears the flags of those that are not sure."""
        if column is SOURCE_ORDER_COLUMN:
            return _orders(template, values, good)
        its, kind = values.get((AFTER, column.name)), template.kinds.get(column.name)
        if its is None or column is UNAVAILABLE_COLUMN:
            return pa.nulls(len(good), arrow_type(column))
        if kind == ANY_KIND:
            return self._read(template.takers[column.name], column, its, good)
        texts = pa.array(its, pa.string())
        if kind in BITS:
            return texts.cast(pa.int64()).cast(arrow_type(column))
        if kind == "boolean":
            return pc.equal(texts, "true")
        good &= ~pc.is_in(texts, self._placeholders).to_numpy(zero_copy_only=False)
        return texts

    def _read(self, take: Callable[[Any], Any], column: Column, its: Sequence[str | None], good: Flags) -> pa.Array:
        """Reads values one by one, as the decoder does."""
        found = []
        for place, word in enumerate(its):
            value, made = json_value(str(word)), None
            if value is not None:
                try:
                    made = take(value)
                    good[place] &= not (isinstance(value, str) and value in self._decoder.placeholders)
                except (TypeError, ValueError):
                    good[place] = False
            found.append(made)
        return pa.array(found, arrow_type(column))


def _orders(template: Template, values: Values, good: Flags) -> pa.Array:
    """Returns the places in the source's log."""
    operations = values[OPERATION]
    if not template.slots.by_lsn:
        names = [path[1] for path in values if path[0] == SOURCE]
        sources = zip(*(map(json_value, map(str, values[SOURCE, name])) for name in names), strict=True)
        return _read_orders(names, list(sources), operations, template.snapshot, good)
    lsn, before, time = (_numbers(values.get((SOURCE, name)), len(good)) for name in (LSN, SEQUENCE, TIME_FIELD))
    snapshots = np.full(len(good), template.snapshot not in NO_SNAPSHOT) | (np.array(operations) == "r")
    return orders_of_postgres(lsn, before, time, snapshots)


def _read_orders(
    names: Sequence[str], sources: Sequence[tuple[Any, ...]], operations: Sequence[Any], snapshot: Any, good: Flags
) -> pa.Array:
    found: list[bytes | None] = []
    for place, (source, operation) in enumerate(zip(sources, operations, strict=True)):
        try:
            found.append(source_order(dict(zip(names, source, strict=True)) | {"snapshot": snapshot}, operation))
        except ValueError:
            good[place] = False
            found.append(None)
    return pa.array(found, pa.binary())


def _numbers(its: Sequence[str | None] | None, rows: int) -> np.ndarray:
    """Returns captured digits as numbers, or zeros where a record has none."""
    return np.zeros(rows, np.uint64) if its is None else np.array(list(map(int, its)), np.uint64)  # type: ignore[arg-type]
