"""Judges a table of the lake: whether replays find its files, and whether it grows beyond what readers like."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from lockstep.core.health.findings import Check, Judged, problem, warning

if TYPE_CHECKING:
    from collections.abc import Mapping

BOUNDED_COLUMNS = ("_stream", "_offset", "_batch")
WITHOUT_BOUNDS = frozenset({"none", "counts"})
SMALL_FILE_BYTES = 8 * 2**20
MANY_SMALL_FILES = 1_000
LARGE_METADATA_BYTES = 8 * 2**20
MANY_SNAPSHOTS = 11_000  # seven days of one a minute are 10,080
LONG_ATTEMPT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class LakeFacts:
    """A lake table as its newest metadata has it. `modes` are those of its metrics, by column of `BOUNDED_COLUMNS`.

    `longest` is how long files of an attempt have waited for their commit at most.
    """

    table: str
    modes: Mapping[str, str] = field(default_factory=dict)
    files: int = 0
    small_files: int = 0
    metadata_bytes: int = 0
    equality_deletes: int = 0
    longest: timedelta | None = None
    snapshots: int = 0


def lake_findings(facts: LakeFacts, pipeline: str) -> Judged:
    """Returns a judgement for each check of the pipeline's table, None where nothing is found."""
    subject, name = f"table {facts.table}", facts.table.partition(".")[2]
    upkeep = f"lockstep upkeep {pipeline} --lake"
    blind = [column for column in BOUNDED_COLUMNS if facts.modes.get(column) in WITHOUT_BOUNDS]
    named = ", ".join(f"'write.metadata.metrics.column.{column}'='full'" for column in blind)
    return [
        warning(
            Check.LAKE_METRICS,
            subject,
            f"its files have no bounds of {', '.join(blind)}",
            "a replay finds the files of its offsets by their bounds, and would read them all",
            f"in Spark: alter table {facts.table} set tblproperties ({named})",
        )
        if blind
        else None,
        warning(
            Check.LAKE_FILES,
            subject,
            f"{facts.small_files:,} of its {facts.files:,} files are smaller than 8 MiB",
            "a reader opens each of them",
            upkeep,
        )
        if facts.small_files > MANY_SMALL_FILES
        else None,
        warning(
            Check.LAKE_METADATA,
            subject,
            f"its metadata file has {facts.metadata_bytes / 2**20:.1f} MiB",
            "each commit writes it anew, with all of its snapshots",
            upkeep,
        )
        if facts.metadata_bytes > LARGE_METADATA_BYTES
        else None,
        warning(
            Check.LAKE_SNAPSHOTS,
            subject,
            f"it keeps {facts.snapshots:,} snapshots",
            "each commit writes all of them anew, and their files are never deleted",
            upkeep,
        )
        if facts.snapshots > MANY_SNAPSHOTS
        else None,
        problem(
            Check.LAKE_DELETES,
            subject,
            f"{facts.equality_deletes} of its files have equality deletes",
            "a replay of their offsets is refused, because it cannot apply them",
            f"in Spark: call lockstep.system.rewrite_data_files('{name}', options => map('delete-file-threshold', '1'))",
        )
        if facts.equality_deletes
        else None,
        warning(
            Check.LAKE_ORPHANS,
            subject,
            f"files of an attempt have waited for {facts.longest.total_seconds() / 86_400:.1f} days for their commit",
            "remove_orphan_files of other tools takes them for orphans: by default those older than three days",
            f"in Spark: call lockstep.system.remove_orphan_files('{name}', older_than => ...) with twice that time",
        )
        if facts.longest is not None and facts.longest > LONG_ATTEMPT
        else None,
    ]
