"""Hides a batch's rows from its target's view until the commit. Keeps what tasks have copied of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg2 import errors, sql

from lockstep.adapters.postgres_words import first_line
from lockstep.core.errors import BadData, Refusal
from lockstep.core.staging import STAGING_SCHEMA, HiddenRows
from lockstep.ledger.batch.ranges import rows_of
from lockstep.ledger.batch.results import insert_manifest
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, maybe, one
from lockstep.ledger.staging.contents import Digests, Published, StagedContents, require_rest_staged, shape_of
from lockstep.ledger.staging.digests import digest_columns
from lockstep.ledger.staging.staged import staging

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.offsets import StreamRange
    from lockstep.core.proof.accounting import ManifestLine
    from lockstep.core.staging import AttemptId
    from lockstep.ledger.batch.ranges import Contents

Q = queries("lockstep.ledger.batch", "hidden")


def hidden_in(cur: cursor, batch_id: int) -> str | None:
    """Returns the table in which the batch's rows are hidden, or None if they are not."""
    cur.execute(Q["hidden_in"], {"batch_id": batch_id})
    row = maybe(cur)
    return str(row.rows_table) if row else None


def holds_abandoned(cur: cursor, rows_table: str) -> bool:
    """Returns True if the table may hold rows of abandoned batches, which `reap` has not deleted yet."""
    cur.execute(Q["abandoned_in"], {"rows_table": rows_table})
    return bool(one(cur).does)


def hide(cur: cursor, attempt: AttemptId, rows_table: str | None, before: str | None) -> None:
    """Hides the batch's rows in this table, if there is one, before the first is copied.

    `before` is the table in which an older attempt has hidden the batch.
    """
    if rows_table is None:
        return
    if before is None:
        cur.execute(Q["hide"], {"batch_id": attempt.batch_id, "rows_table": rows_table})
    elif before != rows_table:
        raise Refusal(
            f"batch {attempt.batch_id} has hidden rows in {before}, and its target is now before {rows_table}",
            next_command=f"put the target back, or lockstep abandon {attempt.batch_id} --reason ...",
        )


def let_tasks_reject(cur: cursor, attempt: AttemptId) -> None:
    """Lets tasks keep their rejects in the attempt's staging table."""
    cur.execute(sql.SQL(Q["let_tasks_reject"]).format(table=staging(attempt)))


def unhide(cur: cursor, batch_id: int) -> None:
    """Forgets that an abandoned batch was hidden. The database refuses it while a row of it is left."""
    cur.execute(Q["unhide"], {"batch_id": batch_id})


def show_batch(cur: cursor, attempt: AttemptId) -> bool:
    """Shows the batch's rows with the COMMIT of this transaction. The database refuses it without a commit row.

    Returns True if this attempt's tasks have copied them, and False if they are staged.
    """
    cur.execute(Q["show"], asdict(attempt))
    return bool(one(cur).has_landed)


def clear(cur: cursor, batch_id: int, rows_table: str) -> int:
    """Deletes what lost attempts have copied of the batch's offsets. Returns the number of rows.

    Call it behind the fence: an older attempt can then commit no more of them.
    """
    # The key finds them, and a table's statistics may not know it. A policy would leave rows without a word.
    cur.execute("set local enable_seqscan = off; set local row_security = off")
    try:
        cur.execute(sql.SQL(Q["clear"]).format(rows_table=table_name(rows_table)), {"batch_id": batch_id})
    except (errors.InsufficientPrivilege, errors.UndefinedTable) as error:
        raise Refusal(
            f"batch {batch_id}: what an attempt has left in {rows_table} cannot be deleted: {first_line(error)}",
            next_command="take policies off the table, and let lockstep_partition delete its rows",
        ) from None
    return cur.rowcount


def give_rejects(cur: cursor, attempt: AttemptId, stream_id: int, task: int) -> None:
    """Keeps the range's rejects in the attempt's staging table."""
    cur.execute(sql.SQL(Q["give_rejects"]).format(table=staging(attempt), rows=rows_of(stream_id)), {"task": task})


def land(
    cur: cursor, attempt: AttemptId, item: StreamRange, line: ManifestLine, contents: Contents, target: str
) -> None:
    """Keeps the manifest line of copied offsets, with the digest of their rows. `target` names the view."""
    if contents.published is None:
        raise TypeError(f"stream {line.stream_id}: copied rows without their digest")
    if line.delivered:
        insert_manifest(cur, attempt, [line], {(line.task, line.stream_id): contents.digests})
    facts = _place(item) | {
        "rows": line.rows,
        "rows_digest": contents.digests.rows,
        "shape_id": shape_of(cur, target, contents.published.columns),
    }
    cur.execute(Q["land"], asdict(attempt) | facts)


def has_landed(cur: cursor, attempt: AttemptId, item: StreamRange) -> bool:
    """Returns True if the attempt has copied these offsets. Raises `BadData` if it has copied a part of them."""
    cur.execute(Q["landed_of"], asdict(attempt) | _place(item))
    copied = one(cur).copied
    if copied not in {0, item.offsets.span}:
        raise BadData(
            f"{item.offsets}: {copied} of these offsets were copied in pieces before their reader died; the next "
            "attempt reads whole ranges"
        )
    return bool(copied)


def has_cut(cur: cursor, attempt: AttemptId) -> bool:
    """Returns True if an older attempt at the batch has copied pieces of a range."""
    cur.execute(Q["landed_before"], asdict(attempt))
    return bool(one(cur).has_cut)


def _place(item: StreamRange) -> dict[str, int]:
    within = item.offsets
    return {"stream_id": item.stream_id, "from_offset": within.from_offset, "until_offset": within.until_offset}


def hidden_rows(cur: cursor, attempt: AttemptId) -> HiddenRows | None:
    """Returns where the attempt's rows are hidden, or None if they are staged."""
    cur.execute(Q["hidden_rows"], asdict(attempt))
    row = maybe(cur)
    if row is None:
        return None
    decoded = digest_columns(cur, f"{STAGING_SCHEMA}.{attempt.table}")
    return HiddenRows(str(row.rows_table), tuple(name for name, _ in decoded), tuple(map(tuple, row.columns)))


def require_landed(cur: cursor, attempt: AttemptId) -> StagedContents | None:
    """Compares copied rows and staged rejects with the validated ones, stream by stream.

    Returns what it found, or None if this attempt has staged its rows. Raises `Refusal` on a difference.
    """
    cur.execute(Q["landed"], asdict(attempt))
    found = every(cur)
    if not found:
        return None
    shapes = {(row.target, tuple(map(tuple, row.columns))) for row in found}
    if len(shapes) > 1:
        raise Refusal(
            f"batch {attempt.batch_id}: its table was altered while its rows were copied",
            next_command=f"lockstep batch {attempt.batch_id}",
        )
    by_stream: dict[int, tuple[int, int]] = {}
    for row in found:
        rows, digest = by_stream.get(row.stream_id, (0, 0))
        by_stream[row.stream_id] = (rows + int(row.rows), digest + int(row.rows_digest))
    rejects = require_rest_staged(cur, attempt, by_stream)
    ((target, columns),) = shapes
    published = Published(target, columns, {stream: digest for stream, (_, digest) in by_stream.items()})
    return StagedContents(
        sum(rows for rows, _ in by_stream.values()),
        {(0, stream): Digests(digest, rejects[stream]) for stream, (_, digest) in by_stream.items()},
        {},
        {0: published},
    )


def left(cur: cursor) -> list[Any]:
    """Returns (batch, table, whether it is there) of hidden batches that were abandoned."""
    cur.execute(Q["left"])
    return every(cur)
