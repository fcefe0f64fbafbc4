"""Records the rows staged for each of several targets. Compares them with the database's count before a commit."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg2 import sql
from psycopg2.extras import execute_values

from lockstep.core.errors import Refusal
from lockstep.core.pipeline.targets import History
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every
from lockstep.ledger.staging.staged import staged_records, staging

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.definition import Target
    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.core.staging import AttemptId
    from lockstep.ledger.staging.contents import Staged

Q = queries("lockstep.ledger.staging", "target_rows")


def insert_target_rows(
    cur: cursor,
    attempt: AttemptId,
    targets: Sequence[Target],
    streams: Iterable[int],
    lines: Sequence[ManifestLine],
    found: Mapping[tuple[int, int], Staged] | None = None,
) -> None:
    """Records the winning tasks' counts for each target, stream by stream. Records nothing for a single target.

    `found` is what database and store have counted by (place, stream), where each record gives one row to each target.
    """
    if len(targets) == 1:
        return
    tasks = [line.task for line in lines]
    rows: dict[tuple[int, int], int] = {(place, s): 0 for s in streams for place in range(len(targets))}
    for line in lines:
        for place, count in enumerate(line.rows_of):
            rows[place, line.stream_id] += count
    counted: dict[tuple[int, int], tuple[int, int | None]]
    if found is None:
        each = [_records(cur, attempt, tasks, place, target) for place, target in enumerate(targets)]
        counted = {(place, stream): (each[place].get(stream, 0), None) for place, stream in rows}
    else:
        counted = {where: (found[where].rows, found[where].offsets) if where in found else (0, 0) for where in rows}
    kept = [
        (attempt.batch_id, attempt.token, place, targets[place].table, stream, count, *counted[place, stream])
        for (place, stream), count in rows.items()
    ]
    execute_values(cur, Q["insert_target_rows"], kept)


def require_target_rows(
    cur: cursor,
    attempt: AttemptId,
    targets: Sequence[Target],
    rows: int,
    in_files: Mapping[int, Mapping[int, int]],
    fault: type[Refusal] = Refusal,
) -> tuple[int, ...]:
    """Returns the number of rows for each target, after comparing its staging table with the recorded counts.

    `in_files` are the rows that lie in files instead, by place and stream.

    `rows` are those of all targets together, already proved. Raises `fault` if a table holds other rows than recorded.
    Raises `Refusal` if the attempt was staged for other targets.
    """
    expected: dict[int, dict[int, Any]] = {}
    tables: dict[int, str] = {}
    for row in _told(cur, attempt):
        tables[row.place] = row.target
        expected.setdefault(row.place, {})[row.stream_id] = row
    if [tables[place] for place in sorted(tables)] != [t.table for t in targets] and (tables or len(targets) > 1):
        raise Refusal(
            f"attempt {attempt.token} of batch {attempt.batch_id} was staged for "
            f"{', '.join(tables.values()) or 'one target'}, and the definition has "
            f"{', '.join(target.table for target in targets)}",
            next_command="put the definition back, or run the batch again",
        )
    if not tables:
        return (rows,)
    for place, streams in expected.items():
        there = Counter(_staged(cur, attempt, place)) + Counter(in_files.get(place, {}))
        _require_staged(attempt, streams, there, fault)
    return tuple(sum(row.rows for row in expected[place].values()) for place in sorted(expected))


def _require_staged(
    attempt: AttemptId, told: Mapping[int, Any], staged: Mapping[int, int], fault: type[Refusal]
) -> None:
    for stream_id in sorted(told.keys() | staged.keys()):
        row, found = told.get(stream_id), staged.get(stream_id, 0)
        if row is None or row.rows != found:
            target = next(iter(told.values())).target
            where = f"{row.topic}-{row.partition}" if row else f"stream {stream_id}"
            raise fault(
                f"{where} of batch {attempt.batch_id}: {found} rows are staged for {target}, "
                f"{row.rows if row else 0} were told: the staging table has changed, or a task told what it did not do"
            )


def _records(cur: cursor, attempt: AttemptId, tasks: Sequence[int], place: int, target: Target) -> dict[int, int]:
    """Counts the records with rows for the target, per stream. A tombstone counts where it becomes a version."""
    if not isinstance(target, History):
        return staged_records(cur, attempt, tasks, (place,))
    cur.execute(sql.SQL(Q["staged_versions"]).format(table=staging(attempt, place)), {"tasks": list(tasks)})
    return {row.stream_id: row.records for row in every(cur)}


def _told(cur: cursor, attempt: AttemptId) -> list[Any]:
    cur.execute(Q["target_rows"], asdict(attempt))
    return every(cur)


def _staged(cur: cursor, attempt: AttemptId, place: int) -> dict[int, int]:
    named = asdict(attempt)
    cur.execute(sql.SQL(Q["staged_rows"]).format(table=staging(attempt, place)), named)
    return {row.stream_id: row.rows for row in every(cur)}
