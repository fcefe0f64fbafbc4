"""Holds records that were decoded again in a temporary table, for Postgres to compare with their target."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from psycopg2 import DataError, sql

from lockstep.core.errors import Refusal
from lockstep.core.proof.verification import MOST_NAMED_ERRORS
from lockstep.engine.sinks.session import copy_rows
from lockstep.formats.second_reading import DELETED, REREAD_COLUMNS, ROW, UNKNOWN
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import in_database, table_name, typed_columns
from lockstep.ledger.rows import every, one
from lockstep.targets.table.fit import types_of_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.proof.verification import Segment, Wrong

Q = queries("lockstep.targets.proof", "decoded")
# Types whose values Postgres compares. Values of any other type are compared as the text that it writes.
COMPARED = (
    "bigint",
    "boolean",
    "bytea",
    "character",
    "date",
    "double",
    "integer",
    "jsonb",
    "numeric",
    "real",
    "smallint",
    "text",
    "time",
    "uuid",
)
SHOWN_CHARACTERS = 40


def may_change_rows(cur: cursor, table: str) -> bool:
    """Returns True if a trigger or a rule of the table may change the rows that are inserted."""
    cur.execute(Q["may_change_rows"], {"table": in_database(table)})
    return bool(one(cur).may)


class Decoded:
    """One chunk of decoded records at a time, to be compared with one target."""

    def __init__(self, cur: cursor, table: str, columns: Sequence[Column], *, has_deletions: bool = False) -> None:
        self._cur = cur
        self._table = table
        self._has_deletions = has_deletions
        types = types_of_target(cur, table)
        self.types = {column.name: types[column.name] for column in columns}
        staged = [*REREAD_COLUMNS, *((column.name, column.postgres_type) for column in columns)]
        cur.execute(sql.SQL(Q["make_decoded"]).format(columns=typed_columns(staged)))

    def load(self, rows: pa.RecordBatch) -> None:
        """Replaces the last chunk's records with these."""
        self._cur.execute(Q["empty_decoded"])
        copy_rows(self._cur, "pg_temp", "lockstep_decoded", rows)

    def changed(self, stream: Any, segment: Segment, from_offset: int, until_offset: int, wrong: Wrong) -> None:
        """Adds the batch's rows of these offsets that differ from the chunk's records. A history has rows of deletions."""
        where = f"{stream.topic}-{stream.partition}"
        differences, is_different = differing(self.types, {name: f"::{type_}" for name, type_ in self.types.items()})
        statement = sql.SQL(Q["changed_rows"]).format(
            target=table_name(self._table),
            differences=differences,
            is_different=is_different,
            is_other_kind=sql.SQL(Q["is_other_kind"] if self._has_deletions else "false"),
        )
        values = {
            "stream_id": stream.stream_id,
            "batch_id": segment.batch_id,
            "rows": [ROW, UNKNOWN, *([DELETED] if self._has_deletions else [])],
            "first": MOST_NAMED_ERRORS,
        }
        with castable(self._table):
            self._cur.execute(statement, values | {"from_offset": from_offset, "until_offset": until_offset})
        found = every(self._cur)
        named = [f"{where} offset {row.offset}: {mask_unprintable(row.what)}" for row in found]
        wrong.extend(named, found[0].wrong if found else 0, [segment.batch_id for _ in found])

    def drop(self) -> None:
        """Makes room for another target's records."""
        self._cur.execute(Q["drop_decoded"])


@contextmanager
def castable(table: str) -> Iterator[None]:
    """Refuses a value that the table's types do not accept.

    It was never published into this table, so the types have changed since.
    """
    try:
        yield
    except DataError as error:
        raise Refusal(
            f"{table}: a record of the log does not fit the table's types: {error.diag.message_primary}",
            next_command="put the column's type back, then verify again",
        ) from None


def differing(types: Mapping[str, str], casts: Mapping[str, str]) -> tuple[sql.Composable, sql.Composable]:
    """Returns two pieces of SQL: one describes each differing column, and one is true if any differs.

    Unsure columns never differ.
    """
    said, found = [], []
    for name, type_ in types.items():
        facts = {
            **facts_of_column(name, type_),
            "said": sql.Literal(name),
            "cast": sql.SQL(casts[name]),
            "shown": sql.Literal(SHOWN_CHARACTERS),
        }
        different = sql.SQL(Q["is_different"]).format(**facts)
        found.append(different)
        said.append(sql.SQL(Q["said_of_column"]).format(**facts, different=different))
    return sql.SQL(", ").join(said), sql.SQL("({})").format(sql.SQL(" or ").join(found))


def facts_of_column(name: str, type_: str) -> dict[str, sql.Composable]:
    """Returns a column's name, its mark among the unsure ones, and the cast by which its values are compared."""
    return {
        "name": sql.Identifier(name),
        "marked": sql.Literal(f",{name},"),
        "as_text": sql.SQL("" if type_.startswith(COMPARED) else "::text"),
    }


def mask_unprintable(text: str) -> str:
    """Returns the text with a question mark for each character that cannot be printed."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
