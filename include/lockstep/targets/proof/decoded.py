"""Holds records that were decoded again in a temporary table, for Postgres to compare with their target."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from psycopg2 import DataError, sql

from lockstep.core.errors import Refusal
from lockstep.core.proof.verification import MOST_NAMED_ERRORS
from lockstep.core.records import SOURCE_ORDER
from lockstep.engine.sinks.session import copy_rows
from lockstep.formats.second_reading import DELETED, REREAD_COLUMNS, ROW, UNKNOWN
from lockstep.ledger.changes.erasures import key_expression
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import each_name, in_database, table_name, typed_columns
from lockstep.ledger.rows import every, one
from lockstep.ledger.staging.suppression import erased_columns, facts_of
from lockstep.targets.table.fit import types_of_target

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.targets import Upsert
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
        named = [f"{where} offset {row.offset}: {_printable(row.what)}" for row in found]
        wrong.extend(named, found[0].wrong if found else 0, [segment.batch_id for _ in found])

    def drop(self) -> None:
        """Makes room for another target's records."""
        self._cur.execute(Q["drop_decoded"])


class Newest:
    """Each key's newest record, gathered from chunk after chunk, for a comparison with the target's rows."""

    def __init__(self, cur: cursor, target: Upsert, types: Mapping[str, str]) -> None:
        self._cur = cur
        self._target = target
        self._types = types
        keys, order = list(target.key), [target.order_by] if target.order_by else []
        by_source = target.order_by == SOURCE_ORDER
        others = [name for name in types if name not in keys] or keys
        self._parts: dict[str, sql.Composable] = {
            "target": table_name(target.table),
            "columns": typed_columns(types.items()),
            "names": each_name("{0}", types),
            "keys": each_name("{0}", keys),
            "casts": sql.SQL(", ").join(
                _cast("t.{0}::{1} as {0}", name, types)
                if name != SOURCE_ORDER
                else sql.SQL(Q["placed"]).format(
                    keys=sql.SQL(", ").join(_cast("t.{0}::{1}", key, types) for key in keys)
                )
                for name in types
            ),
            "order": each_name("{0} desc nulls last," if by_source else "{0} desc,", order, " "),
            "excluded_order": each_name(
                "coalesce(excluded.{0}, n.{0}, '')," if by_source else "excluded.{0},", order, " "
            ),
            "kept_order": each_name("coalesce(n.{0}, excluded.{0}, '')," if by_source else "n.{0},", order, " "),
            "assignments": each_name(
                "{0} = excluded.{0}", [name for name in others if not by_source or name not in order]
            ),
            "keep_order": sql.SQL(Q["keep_order"] if by_source else ""),
            "target_keys": each_name("t.{0}", keys),
        }
        cur.execute(self._made("make_newest"))

    def keep(self, stream_id: int, epoch: int, *, comparable: bool) -> None:
        """Keeps the records of the chunk, unless a newer one of the key was read before."""
        values = {"stream_id": stream_id, "epoch": epoch, "comparable": comparable, "live": [ROW, UNKNOWN, DELETED]}
        with castable(self._target.table):
            self._cur.execute(self._made("keep_newest"), values)

    def mark_erased(self, pipeline: str) -> None:
        """Marks the records of erased keys. Their rows must be gone."""
        for column in erased_columns(self._cur, pipeline):
            if column.column_name in self._types:
                key = key_expression(column.column_name, as_uuid=column.as_uuid)
                self._cur.execute(self._made("mark_erased", key=key), facts_of(column))

    def counts(self) -> Any:
        """Returns how many keys must have a row, and for how many the values are comparable."""
        self._cur.execute(Q["count_newest"])
        return one(self._cur)

    def misplaced(self, starts: Mapping[int, int], wrong: Wrong) -> list[tuple[int, int]]:
        """Adds the keys whose row is missing, of another record, put in by hand, or doubled. Returns their records."""
        same_key = each_name("t.{0} = n.{0}", self._target.key, " and ")
        shown_keys = each_name("coalesce(n.{0}, t.{0})", self._target.key)
        statement = self._made("misplaced_keys", same_key=same_key, shown_keys=shown_keys)
        facts = {"ordered": self._target.order_by is not None, "first": MOST_NAMED_ERRORS}
        self._cur.execute(statement, _log(starts) | facts)
        return _add(every(self._cur), wrong)

    def changed(self, wrong: Wrong) -> list[tuple[int, int]]:
        """Adds the keys whose row has other values than its record. Returns their records."""
        differences, is_different = differing(self._types, dict.fromkeys(self._types, ""))
        statement = self._made(
            "changed_keys",
            same_key=each_name("t.{0} = e.{0}", self._target.key, " and "),
            shown_keys=each_name("t.{0}", self._target.key),
            differences=differences,
            is_different=is_different,
        )
        self._cur.execute(statement, {"first": MOST_NAMED_ERRORS})
        return _add(every(self._cur), wrong)

    def left_out(self, starts: Mapping[int, int]) -> Any:
        """Counts the rows: those of streams outside this log, those of records below its start, and all."""
        self._cur.execute(self._made("left_out_rows"), _log(starts))
        return one(self._cur)

    def comparable_rows(self) -> Any:
        """Counts the rows whose values are comparable, and finds the oldest batch with others."""
        same_key = each_name("t.{0} = e.{0}", self._target.key, " and ")
        self._cur.execute(self._made("comparable_rows", same_key=same_key))
        return one(self._cur)

    def drop(self) -> None:
        """Makes room for another target's records."""
        self._cur.execute(Q["drop_newest"])

    def _made(self, query: str, **more: sql.Composable) -> sql.Composed:
        return sql.SQL(Q[query]).format(**self._parts, **more)


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
        as_text = "" if type_.startswith(COMPARED) else "::text"
        facts = {
            "name": sql.Identifier(name),
            "said": sql.Literal(name),
            "marked": sql.Literal(f",{name},"),
            "cast": sql.SQL(casts[name]),
            "as_text": sql.SQL(as_text),
            "shown": sql.Literal(SHOWN_CHARACTERS),
        }
        different = sql.SQL(Q["is_different"]).format(**facts)
        found.append(different)
        said.append(sql.SQL(Q["said_of_column"]).format(**facts, different=different))
    return sql.SQL(", ").join(said), sql.SQL("({})").format(sql.SQL(" or ").join(found))


def _cast(template: str, name: str, types: Mapping[str, str]) -> sql.Composable:
    return sql.SQL(template).format(sql.Identifier(name), sql.SQL(types[name]))


def _log(starts: Mapping[int, int]) -> dict[str, list[int]]:
    return {"streams": list(starts), "log_starts": list(starts.values())}


def _add(found: Sequence[Any], wrong: Wrong) -> list[tuple[int, int]]:
    named = [f"key {_printable(row.key)}: {_printable(row.what)}" for row in found]
    wrong.extend(named, found[0].wrong if found else 0)
    return [(row.stream, row.offset) for row in found]


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
