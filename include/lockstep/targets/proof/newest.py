"""Gathers each key's newest record in a temporary table, for Postgres to compare with the target's rows.

A change record may lack a value. It then has that of its key's older record, as the row does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.proof.verification import MOST_NAMED_ERRORS
from lockstep.core.records import SOURCE_ORDER
from lockstep.formats.second_reading import DELETED, ROW, UNKNOWN
from lockstep.ledger.changes.erasures import key_expression
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import each_name, table_name, typed_columns
from lockstep.ledger.rows import every, one
from lockstep.ledger.staging.suppression import erased_columns, facts_of
from lockstep.targets.proof.decoded import castable, differing, facts_of_column, mask_unprintable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.targets import Upsert
    from lockstep.core.proof.verification import Segment, Wrong

Q = queries("lockstep.targets.proof", "newest")


class Newest:
    """Each key's newest record, gathered from chunk after chunk, for a comparison with the target's rows.

    If `is_marked`, records may lack values: these are filled in from older records of their keys.
    """

    def __init__(self, cur: cursor, target: Upsert, types: Mapping[str, str], *, is_marked: bool) -> None:
        self._cur = cur
        self._target = target
        self._types = types
        self._is_marked = is_marked
        self._parts = _parts(target, types)
        cur.execute(self._made("make_newest"))

    def keep(self, stream: Any, segment: Segment, *, comparable: bool) -> None:
        """Keeps the records of the segment's chunk, unless a newer one of the key was read before."""
        values = {
            "stream_id": stream.stream_id,
            "epoch": stream.epoch,
            "batch_id": segment.batch_id,
            "comparable": comparable,
            "live": [ROW, UNKNOWN, DELETED],
        }
        with castable(self._target.table):
            self._cur.execute(self._made("newest_of_chunk"), values)
            if self._is_marked:
                self._fill(values)
        self._cur.execute(self._made("keep_newest"), values)

    def _fill(self, values: dict[str, Any]) -> None:
        """Fills in what the chunk's newest records lack. A record that comes late makes the values of its key unsure."""
        self._cur.execute(Q["open_columns"])
        for row in every(self._cur):
            if row.name in self._types:
                facts = facts_of_column(row.name, self._types[row.name])
                for query in ("fill_from_chunk", "fill_from_older"):
                    self._cur.execute(self._made(query, **facts), values)
        self._cur.execute(self._made("doubt_late"), values)

    def mark_erased(self, pipeline: str) -> None:
        """Marks the records of erased keys. Their rows must be gone."""
        columns = erased_columns(self._cur, pipeline)
        if columns:
            self.doubt()
        for column in columns:
            if column.column_name in self._types:
                key = key_expression(column.column_name, as_uuid=column.as_uuid)
                self._cur.execute(self._made("mark_erased", key=key), facts_of(column))

    def doubt(self) -> None:
        """Makes each filled value unsure: rows that went with an erasure or a truncation gave none to later records."""
        self._cur.execute(Q["doubt"])

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
            shown_keys=each_name("t.{0}", self._target.key),
            differences=differences,
            is_different=is_different,
        )
        self._cur.execute(statement, {"first": MOST_NAMED_ERRORS})
        return _add(every(self._cur), wrong)

    def unexplained(self) -> int:
        """Counts rows with a value that their record lacks and that its older records do not explain."""
        if not self._is_marked:
            return 0
        columns = [facts_of_column(name, type_) for name, type_ in self._types.items()]
        unexplained = sql.SQL(" or ").join(sql.SQL(Q["is_unexplained"]).format(**facts) for facts in columns)
        self._cur.execute(self._made("unexplained_rows", unexplained=unexplained))
        return int(one(self._cur).rows)

    def left_out(self, starts: Mapping[int, int]) -> Any:
        """Counts the rows: those of streams outside this log, those of records below its start, and all."""
        self._cur.execute(self._made("left_out_rows"), _log(starts))
        return one(self._cur)

    def comparable_rows(self) -> Any:
        """Counts the rows whose values are comparable, and finds the oldest batch with others."""
        self._cur.execute(self._made("comparable_rows"))
        return one(self._cur)

    def drop(self) -> None:
        """Makes room for another target's records."""
        self._cur.execute(Q["drop_newest"])

    def _made(self, query: str, **more: sql.Composable) -> sql.Composed:
        return sql.SQL(Q[query]).format(**self._parts, **more)


def _parts(target: Upsert, types: Mapping[str, str]) -> dict[str, sql.Composable]:
    """Returns the pieces of SQL that are the target's own."""
    keys, order = list(target.key), [target.order_by] if target.order_by else []
    by_source = target.order_by == SOURCE_ORDER
    others = [name for name in types if name not in keys] or keys
    placed = sql.SQL(Q["placed"]).format(keys=sql.SQL(", ").join(_cast("t.{0}::{1}", key, types) for key in keys))
    casts = [_cast("t.{0}::{1} as {0}", name, types) if name != SOURCE_ORDER else placed for name in types]

    def order_of(its: str, other: str) -> sql.Composable:
        return each_name(f"coalesce({its}.{{0}}, {other}.{{0}}, '')," if by_source else f"{its}.{{0}},", order, " ")

    return {
        "target": table_name(target.table),
        "columns": typed_columns(types.items()),
        "names": each_name("{0}", types),
        "keys": each_name("{0}", keys),
        "records": sql.SQL(Q["records"]).format(casts=sql.SQL(", ").join(casts)),
        "order": each_name("{0} desc nulls last," if by_source else "{0} desc,", order, " "),
        "same_record_key": each_name("n.{0} = r.{0}", keys, " and "),
        "same_chunk_key": each_name("n.{0} = c.{0}", keys, " and "),
        "record_order": order_of("r", "n"),
        "newest_order": order_of("n", "r"),
        "excluded_order": order_of("excluded", "n"),
        "kept_order": order_of("n", "excluded"),
        "assignments": each_name("{0} = excluded.{0}", [name for name in others if not by_source or name not in order]),
        "keep_order": sql.SQL(Q["keep_order"] if by_source else ""),
        "target_keys": each_name("t.{0}", keys),
        "same_row": each_name("t.{0} = e.{0}", [*keys, "_stream", "_offset"], " and "),
    }


def _cast(template: str, name: str, types: Mapping[str, str]) -> sql.Composable:
    return sql.SQL(template).format(sql.Identifier(name), sql.SQL(types[name]))


def _log(starts: Mapping[int, int]) -> dict[str, list[int]]:
    return {"streams": list(starts), "log_starts": list(starts.values())}


def _add(found: Sequence[Any], wrong: Wrong) -> list[tuple[int, int]]:
    named = [f"key {mask_unprintable(row.key)}: {mask_unprintable(row.what)}" for row in found]
    wrong.extend(named, found[0].wrong if found else 0)
    return [(row.stream, row.offset) for row in found]
