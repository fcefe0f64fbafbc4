"""Defines the outcome of records that are tried: rows, rejects, deletions and the verdict of a run over them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lockstep.core.pipeline.violations import expected_columns
from lockstep.core.records import TARGET_COORDINATES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lockstep.core.pipeline.definition import Target


@dataclass(frozen=True, slots=True)
class Record:
    """One record as Kafka would have it. Without a value it is a tombstone. Without a timestamp it is of now."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: datetime | None = None


class Row(dict[str, Any]):
    """One row of a target, by column. `line` is the record that wrote it, or None for totals of several records."""

    def __init__(self, values: Mapping[str, Any], table: str, line: int | None) -> None:
        super().__init__(values)
        self.table = table
        self.line = line


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that becomes no row, with its reason."""

    line: int
    reason: str
    key: bytes | None = None
    value: bytes | None = None


@dataclass(frozen=True, slots=True)
class Deletion:
    """A tombstone that deletes the row of this key."""

    line: int
    table: str
    key: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SupersededRow:
    """A record whose row or deletion a newer record of the same key replaces, at line `by`."""

    line: int
    table: str
    by: int | None


@dataclass(frozen=True, slots=True)
class Expectation:
    """The result of one expectation of the suite over the rows."""

    type: str
    columns: tuple[str, ...]
    success: bool
    unexpected: int = 0
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The end of a run over these records: it commits, or is refused for these reasons."""

    refusals: tuple[str, ...] = ()
    expectations: tuple[Expectation, ...] = ()

    @property
    def ok(self) -> bool:
        """Returns True if a run would commit."""
        return not self.refusals


@dataclass(frozen=True, slots=True)
class Tried:
    """The outcome of a pipeline over given records. A record's line is its place among them, from 1 on.

    `engine` is `driver`, or `spark` if a record or the definition needed it. `rows` are those of all targets after the
    batch. If the verdict refuses the batch, they are what it would have left there.
    """

    pipeline: str
    records: int
    engine: str
    rows: list[Row] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    superseded: list[SupersededRow] = field(default_factory=list)
    filtered: list[int] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)

    def rows_of(self, table: str) -> list[Row]:
        """Returns the rows of one of several targets."""
        return [row for row in self.rows if row.table == table]

    def document(self) -> dict[str, Any]:
        """Returns all of it as plain values."""
        parts = ("rejects", "deletions", "superseded")
        return {
            "pipeline": self.pipeline,
            "records": self.records,
            "engine": self.engine,
            "rows": [{"line": row.line, "table": row.table, "values": dict(row)} for row in self.rows],
            **{part: [asdict(each) for each in getattr(self, part)] for part in parts},
            "filtered": self.filtered,
            "verdict": {"ok": self.verdict.ok, **asdict(self.verdict)},
        }


def rows_of_table(table: str, found: Sequence[Mapping[str, Any]], *, totals: bool) -> list[Row]:
    """Returns a table's rows without Lockstep's own columns. Rows of `totals` belong to no single record."""
    return [
        Row({k: v for k, v in row.items() if k not in TARGET_COORDINATES}, table, None if totals else row["_offset"])
        for row in found
    ]


def changes_by_key(
    target: Target, staged: Sequence[Mapping[str, Any]], kept: frozenset[tuple[int, int]] | None
) -> tuple[list[Deletion], list[SupersededRow]]:
    """Returns the deletions that count, and the records that newer ones of their key replace.

    `staged` are the rows and tombstones of an upserted target, in order. `kept` are line and ordinal of the rows that
    stand in the target after the batch. It is None if they are unknown, and then nothing counts as replaced.
    """
    names: tuple[str, ...] = getattr(target, "key", ())
    by_key: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in staged:
        by_key.setdefault(tuple(row[name] for name in names), []).append(row)
    deletions, replaced = [], []
    emptied = max((row["_offset"] for row in staged if is_of_no_key(row, names)), default=None)
    for key, its in by_key.items():
        winner = next((row["_offset"] for row in its if kept and (row["_offset"], row["_ordinal"]) in kept), None)
        tombstones = [row["_offset"] for row in its if row["_deleted"]]
        if winner is None and tombstones:
            winner = max(tombstones)
        winner = emptied if winner is None and kept is not None else winner
        if winner is not None and winner in tombstones:
            deletions.append(Deletion(winner, target.table, dict(zip(names, key, strict=True))))
        if kept is not None:
            replaced += [SupersededRow(row["_offset"], target.table, winner) for row in its if row["_offset"] != winner]
    return sorted(deletions, key=lambda each: each.line), sorted(replaced, key=lambda each: each.line)


def is_of_no_key(row: Mapping[str, Any], key: Sequence[str]) -> bool:
    """Returns True for a deletion of every row: the source's table was truncated."""
    return bool(row["_deleted"]) and bool(key) and all(row[name] is None for name in key)


def verdict_of(document: Mapping[str, Any] | None, errors: Sequence[str]) -> Verdict:
    """Reads the verdict that a run has kept, and adds the errors at which it ended later or before."""
    kept = document or {}
    expectations = [_expectation(result) for result in kept.get("results", ())]
    return Verdict((*kept.get("refusals", ()), *errors), tuple(expectations))


def _expectation(result: Mapping[str, Any]) -> Expectation:
    config, outcome = result["expectation_config"], result.get("result") or {}
    return Expectation(
        config["type"],
        tuple(expected_columns(config["kwargs"])),
        bool(result["success"]),
        int(outcome.get("unexpected_count") or 0),
        int(result.get("quarantined") or 0),
    )
