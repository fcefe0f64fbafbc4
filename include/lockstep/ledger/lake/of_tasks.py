"""Compares the files that tasks have written with the counts and digests that were validated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.lake.files import digests_of_files, sums_of_files
from lockstep.core.lake.iceberg import lake_places
from lockstep.ledger.lake.moves import Q, files_of_attempt
from lockstep.ledger.rows import every, one
from lockstep.ledger.staging.contents import Digests, Staged, StagedContents, require_rest_staged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.lake.files import LakeFile
    from lockstep.core.pipeline.targets import Target
    from lockstep.core.staging import AttemptId


def is_preview(cur: cursor, batch_id: int) -> bool:
    """Returns True for a batch that is compared and never committed."""
    cur.execute(Q["is_preview"], {"batch_id": batch_id})
    return bool(one(cur).preview)


def require_in_lake(cur: cursor, attempt: AttemptId, targets: Sequence[Target]) -> StagedContents | None:
    """Compares files and staged rejects with the validated counts and digests, stream by stream.

    Returns what it found, or None if no task of this attempt has written a file. Raises `Refusal` on a difference.
    """
    if not lake_places(targets):
        return None
    files = [file for its in files_of_attempt(cur, attempt).values() for file in its if file.of_task]
    if not files:
        return None
    sums, digests = sums_of_files(files), digests_of_files(files)
    held = {stream: (its[0], digests.get(stream, 0)) for stream, its in sums.items()}
    rejects = require_rest_staged(cur, attempt, held)
    found = {(0, stream): Digests(held.get(stream, (0, 0))[1], reject) for stream, reject in rejects.items()}
    return StagedContents(sum(rows for rows, _ in held.values()), found, {}, {})


def digests_with_files(
    staged: Mapping[tuple[int, int], Staged], files: Mapping[int, Sequence[LakeFile]]
) -> dict[tuple[int, int], Staged]:
    """Returns what is staged by (task, stream), and beside it what the tasks' files hold."""
    found = dict(staged)
    for task, its in files.items():
        digests = digests_of_files(its)
        for stream, (rows, _, _, first, last) in sums_of_files(its).items():
            here = Staged(rows, 0, first, last, Digests(digests.get(stream, 0)))
            before = found.get((task, stream))
            found[task, stream] = before.plus(here) if before else here
    return found


def expected_digests(cur: cursor, pipeline: str, place: int) -> dict[tuple[int, int], tuple[tuple[str, ...], int]]:
    """Returns, by batch and stream, the columns and the digest of the values that tasks wrote into files.

    Segments that are not covered any more are left out.
    """
    cur.execute(Q["expected_digests"], {"pipeline": pipeline, "place": place})
    return {(row.batch_id, row.stream_id): (tuple(row.columns), int(row.digest)) for row in every(cur)}
