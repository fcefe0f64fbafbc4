"""Compares the values of a target and of the rejects with the log, record by record.

Imports nothing of the product.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Read = Mapping[int, Mapping[int, tuple]]  # stream -> offset -> (key, value)
# A record's key and value, and its row (None where a reject is asked about) -> the columns it must have.
# NO_ROW: it must not become a row. None: this record cannot be compared.
Becomes = Callable[[bytes | None, bytes | None, dict | None], "dict | object | None"]

NO_ROW = object()
COMPARABLE = ("text", "smallint", "integer", "bigint", "boolean", "numeric")
NAMED_AT_MOST = 5


@dataclass
class Look:
    """The result of one look: a line for each violation, and counts of rows.

    The counts are of compared, missing, doubled and wrong rows.
    """

    violations: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)

    def add(self, figure: str, found: list[str]) -> None:
        """Counts all violations and names the first few."""
        self.figures[figure] += len(found)
        self.violations += found[:NAMED_AT_MOST]

    def require(self, least: int) -> None:
        """Refuses a look at fewer rows and rejects than a proof needs."""
        if self.figures["compared"] < least:
            self.violations.append(
                f"{self.figures['compared']} rows and rejects were compared, this look needs at least {least}"
            )


def as_it_is(_key: bytes | None, value: bytes | None, _row: dict | None) -> dict | None:
    """Returns the expected row of a pipeline without a transform: the JSON object's fields, by column name."""
    try:
        found = json.loads(value) if value is not None else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def same_id(key: bytes | None, value: bytes | None, row: dict | None) -> dict | None:
    """Returns the expected row if a test's code may change values: the record's `id` alone, in its column."""
    content = as_it_is(key, value, row)
    return {"id": content["id"]} if content and "id" in content else None


def compare(cur, table: str, read: Read, becomes: Becomes, look: Look, *, unique: str | None = None) -> None:
    """Compares each row and each reject with the record at its offset.

    `unique` names the column that holds a record's id. With it, no id may stand in two rows, and none may be missing.
    """
    types = _types(cur, table)
    wrong, there = [], Counter()
    cur.execute(f"select _stream, _offset, to_jsonb(t)::text from {table} t order by 1, 2")
    for stream, offset, text in cur.fetchall():
        row = json.loads(text)
        there[row.get(unique)] += 1
        record = read.get(stream, {}).get(offset)
        if record is None:
            continue  # a coordinate without a record, which the look at coordinates names
        expected = becomes(*record, row)  # type: ignore[call-arg]
        if expected is None:
            continue
        look.figures["compared"] += 1
        if difference := _difference(expected, row, types):
            wrong.append(f"stream {stream} offset {offset}: {difference}")
    look.add("wrong", wrong)
    rejected = _compare_rejects(cur, read, becomes, look)
    if unique is not None:
        _once(there, unique, read, rejected, becomes, look)


def _types(cur, table: str) -> dict[str, str]:
    cur.execute(
        """select attname, format_type(atttypid, null) from pg_attribute
        where attrelid = %s::regclass and attnum > 0 and not attisdropped""",
        (table,),
    )
    return dict(cur.fetchall())


def _difference(expected: dict | object, row: dict, types: Mapping[str, str]) -> str:
    if expected is NO_ROW:
        return f"it has a row, and its record must not become one: {row}"
    for column, value in expected.items():
        if types.get(column) not in COMPARABLE or not _fits(value, types[column]):
            continue
        if row[column] != value:
            return f"{column} is {row[column]!r}, its record makes it {value!r}"
    return ""


def _fits(value: Any, type_: str) -> bool:
    """Returns True if a JSON value and a column of this type have only one notation."""
    if value is None:
        return True
    if isinstance(value, bool) or type_ == "boolean":
        return isinstance(value, bool) and type_ == "boolean"
    return isinstance(value, str) == (type_ == "text") and isinstance(value, str | int)


def _compare_rejects(cur, read: Read, becomes: Becomes, look: Look) -> set[tuple[int, int]]:
    wrong, rejected = [], set()
    cur.execute('select stream_id, "offset", key, value from lockstep.reject order by 1, 2')
    for stream, offset, key, value in cur.fetchall():
        record = read.get(stream, {}).get(offset)
        if record is None:
            continue
        rejected.add((stream, offset))
        look.figures["compared"] += 1
        raw = tuple(None if part is None else bytes(part) for part in (key, value))
        if raw != record:
            wrong.append(f"reject of stream {stream} offset {offset}: holds {raw}, the log holds {record}")
        elif becomes not in (as_it_is, same_id) and becomes(*record, None) is not NO_ROW:  # type: ignore[call-arg]
            wrong.append(f"reject of stream {stream} offset {offset}: its record must become a row")
    look.add("wrong", wrong)
    return rejected


def _once(there: Counter, unique: str, read: Read, rejected: set, becomes: Becomes, look: Look) -> None:
    """Looks for the records by their ids, wherever they stand."""
    look.add("doubled", [f"doubled: {n} rows have {unique} {name}" for name, n in there.items() if n > 1 and name])
    lost = []
    for stream, records in read.items():
        for offset, record in records.items():
            expected = becomes(*record, None)  # type: ignore[call-arg]
            if expected is None or expected is NO_ROW or (stream, offset) in rejected:
                continue
            if expected.get(unique) not in there:  # type: ignore[attr-defined]
                lost.append(f"stream {stream} offset {offset}: lost {unique} {expected.get(unique)}, it is in no row")  # type: ignore[attr-defined]
    look.add("lost", lost)
