"""Defines a canary: what two transforms make of the same committed batches, side by side."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lockstep.core.changes.row_changes import RowChange
from lockstep.core.pipeline.targets import asked_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from lockstep.core.changes.tried import Verdict
    from lockstep.core.offsets import StreamRange, TopicPartition
    from lockstep.core.pipeline.targets import Target

MOST_BATCHES, MOST_OFFSETS = 20, 1_000_000
SAMPLES_PER_KIND = 10  # rows of each target and kind, in each batch
SIDES = {
    RowChange.UNCHANGED: "same",
    RowChange.CHANGED: "changed",
    RowChange.REMOVED: "only_live",
    RowChange.ADDED: "only_canary",
}
CANARY_WORDS = {"same": "same", "changed": "changed", "only_live": "only live", "only_canary": "only canary"}
STREAM, PARTITION = "_stream", "_partition"


@dataclass(frozen=True, slots=True)
class Past:
    """A committed batch to be read again. `logs` has the (cluster id, topic id) of each topic that it read.

    `erasures` are the ledger's rows about erased keys of these logs, by digest. `code_version` is the version of Lockstep
    that recorded its definition, where that was asked for.
    """

    batch_id: int
    planned_at: datetime
    logs: Mapping[str, tuple[str, str]]
    ranges: tuple[StreamRange, ...]
    erasures: tuple[dict[str, Any], ...] = ()
    code_version: str | None = None

    @property
    def offsets(self) -> int:
        """Returns the number of offsets in its ranges."""
        return sum(item.offsets.span for item in self.ranges)


@dataclass(slots=True)
class Compared:
    """One batch under both transforms: rows by target, rejects, verdicts, and the first few rows that differ.

    `targets` is empty if one side came to no rows. Its verdict says why.
    """

    past: Past
    verdicts: dict[str, Verdict]
    rejects: dict[str, int] = field(default_factory=dict)
    targets: dict[str, dict[str, int]] = field(default_factory=dict)
    samples: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self, target: Target, found: Mapping[str, Any], columns: Sequence[str], partitions: Mapping[int, TopicPartition]
    ) -> None:
        """Adds the rows of one target, as `targets.difference` counts them. `columns` are in the order to show."""
        table, keys = target.table, asked_key(target)
        self.targets[table] = {ours: int(found[theirs]) for theirs, ours in SIDES.items()}
        for each in found["samples"]:
            live, canary = (_row(each[side], columns, partitions) for side in ("before", "after"))
            at = partitions.get((each["after"] or each["before"] or {}).get(STREAM, -1))
            differs = [name for name in live if live[name] != canary[name]] if live and canary else []
            where = canary or live or {}
            self.samples.append(
                {
                    "batch": self.past.batch_id,
                    "target": table,
                    "kind": SIDES[each["kind"]],
                    "topic": at and at.topic,
                    "partition": where.get(PARTITION),
                    "offset": where.get("_offset"),
                    "key": {name: where.get(name) for name in keys},
                    "differs": differs,
                    "live": live,
                    "canary": canary,
                }
            )

    def document(self) -> dict[str, Any]:
        """Returns all of it as plain values."""
        return {
            "batch": self.past.batch_id,
            "ranges": [
                {
                    "topic": item.offsets.topic_partition.topic,
                    "partition": item.offsets.topic_partition.partition,
                    "from_offset": item.offsets.from_offset,
                    "until_offset": item.offsets.until_offset,
                }
                for item in self.past.ranges
            ],
            "targets": self.targets,
            "rejects": self.rejects,
            "verdict": {side: {"ok": verdict.ok, **asdict(verdict)} for side, verdict in self.verdicts.items()},
            "samples": self.samples,
        }


def summed(found: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Returns the sum of each count."""
    total: dict[str, int] = {}
    for counts in found:
        for name, number in counts.items():
            total[name] = total.get(name, 0) + number
    return total


def figures(document: Any, pipeline: str, definition: str) -> dict[str, Any]:
    """Returns the counts of a canary's JSON document, without its rows. `definition` is the hash that it must be about.

    Raises `ValueError` for a document that is no canary's, or about something else, or of rows that would be refused.
    """
    try:
        known = {
            "live": str(document["definitions"]["live"]),
            "batches": [int(each["batch"]) for each in document["batches"]],
            "targets": {
                str(table): {kind: int(counts[kind]) for kind in SIDES.values()}
                for table, counts in document["targets"].items()
            },
            "rejects": {side: int(document["rejects"][side]) for side in ("live", "canary")},
        }
        of, tried, ok = document["pipeline"], document["definitions"]["canary"], document["ok"]
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError("it is not what lockstep canary --json prints, or its rows were not compared") from None
    if of != pipeline:
        raise ValueError(f"it is of the pipeline {of}")
    if tried != definition:
        raise ValueError(f"it has tried definition {tried}, and this file makes {definition}")
    if ok is not True:
        raise ValueError("a run would refuse the canary's rows")
    return known


def _row(
    row: Mapping[str, Any] | None, columns: Sequence[str], partitions: Mapping[int, TopicPartition]
) -> dict[str, Any] | None:
    """Returns a row with its columns in order, and its partition in place of a stream's number."""
    if row is None:
        return None
    ordered = {name: row.get(name) for name in columns if name != STREAM}
    at = partitions.get(row.get(STREAM, -1))
    return ordered | {PARTITION: at and at.partition}
