"""Compares digests of staged rows and rejects before a commit publishes them, and keeps them with the commit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from psycopg2 import sql
from psycopg2.extras import Json, execute_values

from lockstep.core.errors import Refusal
from lockstep.core.staging import STAGING_SCHEMA
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one
from lockstep.ledger.staging import digests
from lockstep.ledger.staging.staged import staged_places, staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from psycopg2.extensions import cursor

    from lockstep.core.staging import AttemptId

Q = queries("lockstep.ledger.staging", "contents")
WhereStaged = tuple[int, int, int]  # place, task, stream
_Key = TypeVar("_Key")


class Digests(NamedTuple):
    """The digest of rows and the digest of rejects."""

    rows: int = 0
    rejects: int = 0

    def plus(self, other: Digests) -> Digests:
        """Returns the digests of both sets of rows together."""
        return Digests(self.rows + other.rows, self.rejects + other.rejects)


NO_DIGESTS = Digests()


@dataclass(frozen=True, slots=True)
class Staged:
    """The rows and rejects in staging: their numbers, first and last offset, digests, and the sum of the rows' offsets."""

    rows: int
    rejected: int
    first_offset: int
    last_offset: int
    digests: Digests
    offsets: int

    def plus(self, other: Staged) -> Staged:
        """Returns both sets of rows as one."""
        return Staged(
            self.rows + other.rows,
            self.rejected + other.rejected,
            min(self.first_offset, other.first_offset),
            max(self.last_offset, other.last_offset),
            self.digests.plus(other.digests),
            self.offsets + other.offsets,
        )


@dataclass(frozen=True, slots=True)
class StagedContents:
    """The staged contents in a committing transaction: `rows` in all, digests by (place, stream), columns by place.

    Places whose rows lie in files have no columns. `published` has, by place, the digests of rows that tasks have copied
    into their table.
    """

    rows: int
    by_place: Mapping[tuple[int, int], Digests]
    columns: Mapping[int, digests.DigestColumns]
    published: Mapping[int, Published] | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """The columns of an appended target's digest, and the digest of its rows by stream.

    `counts` has the numbers of these rows, where they were counted.
    """

    target: str
    columns: digests.DigestColumns
    by_stream: Mapping[int, int]
    counts: Mapping[int, int] = field(default_factory=dict)


def staged_by_task(cur: cursor, attempt: AttemptId, places: Iterable[int]) -> dict[WhereStaged, Staged]:
    """Returns the rows that each task staged, by (place, task, stream). The database counts them."""
    found: dict[WhereStaged, Staged] = {}
    for place in places:
        for row in _each(cur, "staged_by_task", attempt, place, _columns(cur, attempt, place)):
            digests_ = Digests(int(row.rows_digest or 0), int(row.rejects_digest or 0))
            counts = (row.rows, row.rejected, row.first_offset, row.last_offset)
            found[place, row.task, row.stream_id] = Staged(*counts, digests_, int(row.offsets))
    return found


def staged_together(
    found: Mapping[WhereStaged, Staged], by: Callable[[int, int, int], _Key | None]
) -> dict[_Key, Staged]:
    """Adds up what has the same key `by` place, task and stream. Leaves out what has none, as a try that lost."""
    together: dict[_Key, Staged] = {}
    for where, its in found.items():
        if (key := by(*where)) is not None:
            together[key] = together[key].plus(its) if key in together else its
    return together


def require_staged(
    cur: cursor, attempt: AttemptId, in_files: Mapping[tuple[int, int], tuple[int, int]] | None = None
) -> StagedContents:
    """Compares staged rows and rejects with the validated ones, by count and by digest, stream by stream.

    `in_files` has (rows, digest) of rows that lie in files and not in staging, by (place, stream). Returns what it found.
    Raises `Refusal` on a difference.
    """
    in_files = in_files or {}
    cur.execute(Q["expected"], asdict(attempt))
    expected = every(cur)
    places = staged_places(cur, attempt)
    columns = {place: _columns(cur, attempt, place) for place in places}
    by_place: dict[tuple[int, int], Digests] = {}
    counts: dict[int, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for place in places:
        for row in _each(cur, "staged_by_stream", attempt, place, columns[place]):
            by_place[place, row.stream_id] = Digests(int(row.rows_digest), int(row.rejects_digest))
            rows, rejected = counts[row.stream_id]
            counts[row.stream_id] = (rows + row.rows, rejected + row.rejected)
    for (place, stream), (held, digest) in in_files.items():
        by_place[place, stream] = by_place.get((place, stream), NO_DIGESTS).plus(Digests(digest))
        rows, rejected = counts[stream]
        counts[stream] = (rows + held, rejected)
    if strangers := counts.keys() - {row.stream_id for row in expected}:
        raise Refusal(
            f"batch {attempt.batch_id}: rows of streams {sorted(strangers)} are staged, and it has no range of them: "
            "the staging table has changed"
        )
    for row in expected:
        of_stream = [by_place.setdefault((place, row.stream_id), Digests()) for place in places]
        require_staged_counts(attempt, row, counts[row.stream_id])
        require_digests(attempt, row, Digests(sum(d.rows for d in of_stream), sum(d.rejects for d in of_stream)))
    of_files = {place for place, _ in in_files}
    staged = {place: its for place, its in columns.items() if place not in of_files}
    return StagedContents(sum(row.rows for row in expected), by_place, staged)


def require_rest_staged(cur: cursor, attempt: AttemptId, copied: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Compares (rows, digest) that tasks have copied of each stream, and staged rejects, with the validated ones.

    Returns the digest of each stream's rejects. Raises `Refusal` on a difference, and if rows are staged as well.
    """
    cur.execute(Q["expected"], asdict(attempt))
    expected = every(cur)
    staged = {row.stream_id: row for row in _each(cur, "staged_by_stream", attempt, 0, ())}
    if strangers := (copied.keys() | staged.keys()) - {row.stream_id for row in expected}:
        raise Refusal(f"batch {attempt.batch_id}: it has no range of the streams {sorted(strangers)}")
    found = {}
    for row in expected:
        rows, digest = copied.get(row.stream_id, (0, 0))
        its = staged.get(row.stream_id)
        beside, rejected, found[row.stream_id] = (its.rows, its.rejected, int(its.rejects_digest)) if its else (0, 0, 0)
        require_staged_counts(attempt, row, (rows + beside, rejected))
        require_digests(attempt, row, Digests(digest, found[row.stream_id]))
    return found


def keep_digests(
    cur: cursor, attempt: AttemptId, found: Mapping[tuple[int, int], Digests], published: Mapping[int, Published]
) -> None:
    """Records the digests found in staging and, by place, those of the rows published into appended targets."""
    shapes = {place: shape_of(cur, one.target, one.columns) for place, one in published.items()}
    rows = [
        (
            *(attempt.batch_id, stream, place, its.rows, its.rejects, shapes.get(place)),
            published[place].by_stream.get(stream, 0) if place in published else None,
        )
        for (place, stream), its in sorted(found.items())
    ]
    execute_values(cur, Q["insert_contents"], rows)


def _columns(cur: cursor, attempt: AttemptId, place: int) -> digests.DigestColumns:
    return digests.digest_columns(cur, f"{STAGING_SCHEMA}.{attempt.beside(place)}")


def _each(cur: cursor, query: str, attempt: AttemptId, place: int, columns: digests.DigestColumns) -> list[Any]:
    statement = sql.SQL(Q[query]).format(
        table=staging(attempt, place),
        row=digests.row_digest(columns, place, marks_deletions=True),
        reject=digests.staged_reject(),
    )
    cur.execute(statement, asdict(attempt))
    return every(cur)


def require_staged_counts(attempt: AttemptId, row: Any, found: tuple[int, int]) -> None:
    """Raises `Refusal` unless a stream has as many staged rows and rejects as were validated."""
    if found != (row.rows, row.rejected):
        raise Refusal(
            f"{_where(attempt, row)}: staged are (rows, rejects) {found}, "
            f"validated were {(row.rows, row.rejected)}: the staging table has changed",
            next_command=f"lockstep batch {attempt.batch_id}",
        )


def require_digests(attempt: AttemptId, row: Any, found: Digests) -> None:
    """Raises `Refusal` unless a stream's staged rows and rejects still have the digests of their staging."""
    where = _where(attempt, row)
    if row.rows_digest is None or row.rejects_digest is None:
        raise Refusal(
            f"{where}: attempt {attempt.token} was staged by a version that keeps no digest of contents",
            next_command=f"lockstep batch {attempt.batch_id}",
        )
    for what, count, was, now in (
        ("rows", row.rows, row.rows_digest, found.rows),
        ("rejects", row.rejected, row.rejects_digest, found.rejects),
    ):
        if was != now:
            raise Refusal(
                f"{where}: the contents of its {count} {what} have changed in staging since they were staged",
                next_command=f"lockstep batch {attempt.batch_id}",
            )


def _where(attempt: AttemptId, row: Any) -> str:
    return f"{row.topic}-{row.partition}: batch {attempt.batch_id}, stream {row.stream_id}"


def shape_of(cur: cursor, target: str, columns: digests.DigestColumns) -> int:
    """Returns the number of this target's column list. Adds the list if it is new."""
    facts = {
        "hash": sha256(repr((target, columns)).encode()).hexdigest(),
        "target": target,
        "columns": Json([list(column) for column in columns]),
    }
    cur.execute(Q["shape"], facts)
    if (row := maybe(cur)) is None:
        cur.execute(Q["insert_shape"], facts)
        cur.execute(Q["shape"], facts)
        row = one(cur)
    return int(row.shape_id)
