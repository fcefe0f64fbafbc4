"""Compares the files that tasks have written with the counts and digests that were validated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.lake.files import digests_of_files, sums_of_files
from lockstep.core.lake.iceberg import lake_places
from lockstep.ledger.lake.moves import Q, files_of_attempt
from lockstep.ledger.rows import every, one
from lockstep.ledger.staging.contents import Digests, Staged, StagedContents, require_staged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.lake.files import LakeFile
    from lockstep.core.pipeline.targets import Target
    from lockstep.core.staging import AttemptId
    from lockstep.ledger.staging.contents import WhereStaged


def is_preview(cur: cursor, batch_id: int) -> bool:
    """Returns True for a batch that is compared and never committed."""
    cur.execute(Q["is_preview"], {"batch_id": batch_id})
    return bool(one(cur).preview)


def files_of_tasks(cur: cursor, attempt: AttemptId, targets: Sequence[Target]) -> dict[int, list[LakeFile]]:
    """Returns the files that the attempt's tasks have written, by place. Places without one are left out."""
    if not lake_places(targets):
        return {}
    its = {place: [f for f in files if f.of_task] for place, files in files_of_attempt(cur, attempt).items()}
    return {place: files for place, files in its.items() if files}


def rows_in_files(cur: cursor, attempt: AttemptId, targets: Sequence[Target]) -> dict[int, dict[int, int]]:
    """Returns the rows of these files by place and stream."""
    found = files_of_tasks(cur, attempt, targets)
    return {place: {stream: its[0] for stream, its in sums_of_files(files).items()} for place, files in found.items()}


def require_in_lake(cur: cursor, attempt: AttemptId, targets: Sequence[Target]) -> StagedContents | None:
    """Compares files, and what is staged beside them, with the validated counts and digests, stream by stream.

    Returns what it found, or None if no task of this attempt has written a file. Raises `Refusal` on a difference.
    """
    held: dict[tuple[int, int], tuple[int, int]] = {}
    for place, files in files_of_tasks(cur, attempt, targets).items():
        digests = digests_of_files(files)
        held |= {(place, stream): (its[0], digests.get(stream, 0)) for stream, its in sums_of_files(files).items()}
    return require_staged(cur, attempt, held) if held else None


def beside_files(
    staged: Mapping[WhereStaged, Staged], files: Mapping[tuple[int, int], Sequence[LakeFile]]
) -> dict[WhereStaged, Staged]:
    """Returns what is staged by (place, task, stream), and beside it what the files of (place, task) hold."""
    found = dict(staged)
    for (place, task), its in files.items():
        digests = digests_of_files(its)
        for stream, (rows, offsets, _, first, last) in sums_of_files(its).items():
            here = Staged(rows, 0, first, last, Digests(digests.get(stream, 0)), offsets)
            before = found.get((place, task, stream))
            found[place, task, stream] = before.plus(here) if before else here
    return found


def expected_digests(cur: cursor, pipeline: str, place: int) -> dict[tuple[int, int], tuple[tuple[str, ...], int]]:
    """Returns, by batch and stream, the columns and the digest of the values that tasks wrote into files.

    Segments that are not covered any more are left out.
    """
    cur.execute(Q["expected_digests"], {"pipeline": pipeline, "place": place})
    return {(row.batch_id, row.stream_id): (tuple(row.columns), int(row.digest)) for row in every(cur)}
