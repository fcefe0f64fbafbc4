"""Carries the rows that a transform makes again to the ledger's database, and compares them with their target."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

from psycopg2 import sql

from lockstep.core.capture.debezium import without_mark
from lockstep.core.pipeline.definition import History
from lockstep.core.proof.verification import MOST_NAMED_ERRORS, Wrong
from lockstep.core.records import UNAVAILABLE
from lockstep.formats.second_reading import DELETED, REJECTED, ROW
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import each_name, table_name, typed_columns
from lockstep.ledger.rows import every
from lockstep.ledger.staging.staged import staging
from lockstep.targets.proof.decoded import castable, differing
from lockstep.targets.table.fit import types_of_target

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Target
    from lockstep.core.pipeline.targets import Upsert
    from lockstep.core.proof.verification import Segment
    from lockstep.core.staging import AttemptId

Q = queries("lockstep.targets.proof", "remade")
REMADE_COLUMNS = (("_offset", "bigint"), ("_ordinal", "integer"), ("Became", "text"), ("Unsure", "text"))


def carry_staged(
    cur: cursor, attempt: AttemptId, place: int, stream_id: int, columns: Sequence[Column], rows: IO[bytes]
) -> None:
    """Copies what the attempt has staged of one stream for one target into a file, in the log's order."""
    is_marked = any(column.name == UNAVAILABLE for column in columns)
    statement = sql.SQL(Q["rows_out"]).format(
        unsure=sql.SQL(Q["unavailable" if is_marked else "no_unsure"]),
        columns=each_name("s.{}", [column.name for column in without_mark(columns)]),
        table=staging(attempt, place),
        batch_id=sql.Literal(attempt.batch_id),
        token=sql.Literal(attempt.token),
        stream_id=sql.Literal(stream_id),
    )
    cur.copy_expert(statement, rows)


class RemadeRows:
    """The rows, deletions and rejects that the records of one segment became, to be compared with one target."""

    def __init__(self, cur: cursor, target: Target, columns: Sequence[Column]) -> None:
        self._cur = cur
        self._target = target
        self._columns = without_mark(columns)
        types = types_of_target(cur, target.table)
        self._types = {column.name: types[column.name] for column in self._columns if column.name in types}
        typed = [*REMADE_COLUMNS, *((column.name, column.postgres_type) for column in self._columns)]
        cur.execute(sql.SQL(Q["make_remade"]).format(columns=typed_columns(typed)))

    def load(self, rows: IO[bytes]) -> None:
        """Replaces the last segment's rows with those of a file."""
        self._cur.execute(Q["empty_remade"])
        self._cur.copy_expert(Q["rows_in"], rows)

    def changed(self, stream: Any, between: tuple[int, int], gone: Collection[int], wrong: Wrong) -> None:
        """Adds the rows of these offsets that are not those of the transform. Does not look at those that are `gone`."""
        has_deletions = isinstance(self._target, History)
        differences, is_different = differing(self._types, {name: f"::{type_}" for name, type_ in self._types.items()})
        statement = sql.SQL(Q["changed_rows"]).format(
            target=table_name(self._target.table),
            differences=differences,
            is_different=is_different,
            is_other_kind=sql.SQL("""t._deleted <> (e."Became" = 'deleted')""" if has_deletions else "false"),
        )
        values = self._between(*between) | {
            "stream_id": stream.stream_id,
            "rows": [ROW, *([DELETED] if has_deletions else [])],
            "gone": list(gone),
            "first": MOST_NAMED_ERRORS,
        }
        with castable(self._target.table):
            self._cur.execute(statement, values)
        found = every(self._cur)
        named = [f"{stream.topic}-{stream.partition} offset {row.offset}: {row.what}" for row in found]
        wrong.extend(named, found[0].wrong if found else 0)

    def into_decoded(self, target: Upsert, segment: Segment) -> int:
        """Puts the segment's rows and deletions where decoded records are compared. Returns how many there are."""
        statement = sql.SQL(Q["into_decoded"]).format(
            columns=each_name("{}", [column.name for column in self._columns]),
            keys=each_name("r.{}", target.key),
            order=each_name("r.{} desc nulls last,", [target.order_by] if target.order_by else [], " "),
        )
        self._cur.execute(
            statement, self._between(segment.from_offset, segment.until_offset) | {"live": [ROW, DELETED]}
        )
        return int(self._cur.rowcount)

    def forget_older(self, starts: Mapping[int, int]) -> None:
        """Forgets the newest records of keys that lie below these starts of their streams."""
        self._cur.execute(Q["forget_older"], {"streams": list(starts), "starts": list(starts.values())})

    def rejected(self, from_offset: int, until_offset: int) -> set[int]:
        """Returns the offsets of records that became rejects."""
        self._cur.execute(Q["became"], self._between(from_offset, until_offset) | {"became": REJECTED})
        return {row.offset for row in every(self._cur)}

    def rows(self, segment: Segment) -> list[Mapping[str, Any]]:
        """Returns the segment's rows by column, without deletions and rejects."""
        self._cur.execute(Q["rows_of_segment"], self._between(segment.from_offset, segment.until_offset))
        names = [column.name for column in self._cur.description or ()]
        return [dict(zip(names, row, strict=True)) for row in every(self._cur)]

    def drop(self) -> None:
        """Makes room for another target's rows."""
        self._cur.execute(Q["drop_remade"])

    @staticmethod
    def _between(from_offset: int, until_offset: int) -> dict[str, Any]:
        return {"from_offset": from_offset, "until_offset": until_offset}
