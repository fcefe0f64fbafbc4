"""Makes parts of a table by batch: a task's table of one range, which the commit attaches and upkeep merges."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from psycopg2 import errors, sql

from lockstep.core.errors import Superseded
from lockstep.core.staging import COPY_SIZE
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from psycopg2.extensions import cursor

    from lockstep.core.offsets import StreamRange
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.ledger.batch", "parts")
NEWEST = "newest_attempt"


def make_part(cur: cursor, target: str, attempt: AttemptId, stream_id: int) -> sql.SQL:
    """Makes the table for the rows of one range. Returns its name, quoted. Only this transaction fills it.

    Raises `Superseded` if the attempt is not the batch's newest. The fence of the COMMIT is `landed`'s.
    """
    try:
        cur.execute(Q["make_part"], asdict(attempt) | {"target": target, "stream_id": stream_id})
    except errors.CheckViolation as error:
        if error.diag.constraint_name != NEWEST:
            raise
        raise Superseded(
            f"attempt {attempt.token} of batch {attempt.batch_id} may not commit: a newer one has it"
        ) from None
    return sql.SQL(one(cur).part)


def copy_into(cur: cursor, part: sql.SQL, names: Sequence[str], item: StreamRange, rows: BinaryIO) -> int:
    """Copies rows of the range, in COPY's binary format, into its part. Returns their number."""
    statement = sql.SQL(Q["copy_into"]).format(
        part=part,
        columns=sql.SQL(", ").join(map(sql.Identifier, names)),
        stream_id=sql.Literal(item.stream_id),
        from_offset=sql.Literal(item.offsets.from_offset),
        until_offset=sql.Literal(item.offsets.until_offset),
    )
    cur.copy_expert(statement, rows, COPY_SIZE)
    return int(cur.rowcount)


def close_part(cur: cursor, attempt: AttemptId, stream_id: int) -> None:
    """Builds the keys of the range's part. No row is added to it any more."""
    cur.execute(Q["close_part"], asdict(attempt) | {"stream_id": stream_id})


def attach_parts(cur: cursor, target: str, attempt: AttemptId) -> None:
    """Makes the attempt's parts the batch's partition, if its tasks have made any. Copies nothing."""
    cur.execute(Q["attach_parts"], asdict(attempt) | {"target": target})


def tables_of_parts(cur: cursor) -> list[Any]:
    """Returns each table that has batches in parts: its parts, and partition, number and parts of each batch, oldest first."""
    cur.execute(Q["of_parts"])
    return every(cur)


def begin_merge(cur: cursor, target: str, whole: str) -> str | None:
    """Makes the table for the rows of all parts of a partition. Returns None if it has none to merge."""
    cur.execute(Q["begin_merge"], {"target": target, "whole": whole})
    merged = one(cur).merged
    return None if merged is None else str(merged)


def copied_columns(cur: cursor, merged: str) -> sql.Composable:
    """Returns the columns of the table, for a COPY."""
    cur.execute(Q["copied_columns"], {"merged": merged})
    return sql.SQL(", ").join(map(sql.Identifier, one(cur).columns))


def read_rows(cur: cursor, target: str, batch_id: int, columns: sql.Composable, into: BinaryIO) -> None:
    """Copies the batch's rows out, in COPY's binary format."""
    parts = {"target": table_name(target), "batch_id": sql.Literal(batch_id), "columns": columns}
    cur.copy_expert(sql.SQL(Q["rows_of_batch"]).format(**parts), into, COPY_SIZE)


def fill_merged(cur: cursor, merged: str, columns: sql.Composable, rows: BinaryIO) -> None:
    """Copies these rows into the table, frozen."""
    cur.copy_expert(sql.SQL(Q["fill_merged"]).format(merged=sql.SQL(merged), columns=columns), rows, COPY_SIZE)


def end_merge(cur: cursor, target: str, whole: str, merged: str) -> bool:
    """Puts the table in place of the parts. Returns False if the batch has fewer rows than were committed."""
    cur.execute(Q["end_merge"], {"target": target, "whole": whole, "merged": merged})
    return bool(one(cur).does)
