"""Decides whether a record that breaks an expectation refuses its batch or is quarantined, and words the reason."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockstep.core.records import COORDINATES, RESERVED_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping

REFUSE, QUARANTINE = "refuse", "quarantine"
ON_VIOLATION = (REFUSE, QUARANTINE)
LONGEST_VALUE = 80
# The values of columns, and the number of rows, are the same in a staging table and in the rows' own table.
ABOUT_VALUES = ("expect_column_", "expect_compound_columns_", "expect_select_column_", "expect_multicolumn_")
ABOUT_NUMBER = ("expect_table_row_count_to_be_between", "expect_table_row_count_to_equal")
# The name of an expectation. Those of queries and of other tables are left out: they would be SQL with a run's rights.
EXPECTATION = re.compile(r"expect_(?!query_)(?!.*_other_table\Z)[a-z0-9_]+\Z")
_STAGED_ONLY = re.compile(rf"\b({'|'.join(name for name, _ in RESERVED_COLUMNS if name not in COORDINATES)})\b")


@dataclass(slots=True)
class Judgement:
    """The result of a suite: its document, the reasons that refuse the batch, and the records to quarantine.

    `violators` has each record's reason by (stream, offset).
    """

    document: dict[str, Any]
    refusals: list[str] = field(default_factory=list)
    violators: dict[tuple[int, int], str] = field(default_factory=dict)


def no_expectation(expectation: Any) -> str | None:
    """Returns why an object's type names no expectation that a suite may hold, or None if it does."""
    kind = expectation.get("type") if isinstance(expectation, dict) else None
    if isinstance(kind, str) and EXPECTATION.match(kind):
        return None
    why = " that a suite may hold" if isinstance(kind, str) and ("expect" in kind or "query" in kind) else ""
    return f"{kind!r} is no expectation{why}, such as expect_column_values_to_not_be_null"


def wrong_type(suite: Any) -> str | None:
    """Returns the first type of a suite that names no expectation, or None. One that is no text is left to `check`."""
    if not isinstance(suite, dict):
        return "must be a JSON object with name and expectations"
    listed = suite.get("expectations")
    for number, each in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(each, dict) and isinstance(each.get("type"), str) and (why := no_expectation(each)):
            return f"expectations[{number}].type: {why}"
    return None


def is_critical(expectation: Mapping[str, Any]) -> bool:
    """Returns True if a violation has consequences. A mere warning is only kept in the verdict."""
    return str(expectation.get("severity") or "critical").endswith("critical")


def on_violation(default: str, expectation: Mapping[str, Any]) -> str:
    """Returns what follows a violation of this expectation: its own `meta.on_violation`, else the pipeline's."""
    meta = expectation.get("meta")
    return str(meta.get("on_violation", default)) if isinstance(meta, dict) else default


def may_quarantine(default: str, suite: Mapping[str, Any] | None) -> bool:
    """Returns True if an expectation of the suite may quarantine records.

    The records' bytes are then kept until the suite has run.
    """
    expectations = (suite or {}).get("expectations")
    if not isinstance(expectations, list):
        return False
    return any(
        isinstance(each, dict) and is_critical(each) and on_violation(default, each) == QUARANTINE
        for each in expectations
    )


def needs_staging(suite: Mapping[str, Any] | None) -> bool:
    """Returns True if an expectation looks at more than values of decoded columns and the number of rows.

    Only staged rows have the bytes of a record, and all of the columns that a list may name.
    """
    expectations = (suite or {}).get("expectations")
    return isinstance(expectations, list) and any(
        not isinstance(each, dict)
        or not (str(each.get("type")).startswith(ABOUT_VALUES) or each.get("type") in ABOUT_NUMBER)
        or each.get("type") == "expect_column_to_exist"
        or bool(_STAGED_ONLY.search(json.dumps(each, default=str)))
        for each in expectations
    )


def expected_columns(kwargs: Mapping[str, Any]) -> list[str]:
    """Returns the columns that an expectation looks at, in its own order. Returns none for the whole table."""
    if listed := kwargs.get("column_list"):
        return list(listed)
    return [kwargs[name] for name in ("column", "column_A", "column_B") if kwargs.get(name)]


def quarantine_reason(kind: str, kwargs: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Returns why a record is quarantined, in one short line: `expectation expect_…(column): the value`."""
    columns = expected_columns(kwargs)
    return f"expectation {kind}({', '.join(columns)}): {', '.join(_shown(row.get(name)) for name in columns)}"


def reasons_of(violators: Mapping[tuple[int, int], str], partitions: Mapping[int, str]) -> list[str]:
    """Returns how many records each expectation has turned away, the most frequent first, each with its first place.

    `partitions` names each stream's partition, as `topic-0`.
    """
    places: dict[str, list[tuple[int, int]]] = {}
    for place in sorted(violators):
        places.setdefault(violators[place].partition(": ")[0], []).append(place)
    found = sorted(places.items(), key=lambda each: (-len(each[1]), each[0]))
    return [reason_told(len(at), f"{partitions[at[0][0]]} offset {at[0][1]}", reason) for reason, at in found]


def reason_told(count: int, first: str, reason: str) -> str:
    """Returns one reason for rejects as a line: how many have it, and where the first one lies."""
    return f"{count} {'record' if count == 1 else 'records'}, first {first}: {reason}"


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    text = bytes(value).hex() if isinstance(value, bytes | memoryview) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}..."
