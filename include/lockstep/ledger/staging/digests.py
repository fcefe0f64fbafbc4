"""Builds the SQL that hashes a row to one number.

The sum of the hashes changes when a value changes, moves, is added or removed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.core.changes.evolution import is_longer_text
from lockstep.core.pipeline.columns import FLOAT, TEXT, WHOLE_TYPES
from lockstep.core.records import RESERVED_COLUMNS
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import in_database
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

Q = queries("lockstep.ledger.staging", "digests")
DigestColumns = tuple[tuple[str, str], ...]  # name and Postgres type, in the order of hashing
HASHED = frozenset(
    (*WHOLE_TYPES, *FLOAT, "numeric", "boolean", "date", "timestamp with time zone", "timestamp without time zone")
) | {"time without time zone", "interval", "bytea", "uuid", "jsonb"}
# Their text depends on no setting. A hash of their own they do not have, or one that takes different values for alike.
READ_AS_TEXT = frozenset({"json", "xml", "name", '"char"', "citext", "character", *TEXT})
_SIZE = re.compile(r"\(.*\)")
_NUMERIC = re.compile(r"^numeric\((\d+),(\d+)\)$")


def row_digest(columns: DigestColumns, place: int, *, marks_deletions: bool) -> Composable:
    """Returns the SQL that hashes a target's row `t`, or a staged one. Both agree if the columns' types hash alike.

    `marks_deletions` says that `_deleted` tells deletions apart, as in staging and in a history.
    """
    return sql.SQL(Q["row_digest"]).format(
        deleted=sql.SQL("coalesce(t._deleted, false)" if marks_deletions else "false"),
        values=sql.SQL("").join(_value(name, type_) for name, type_ in columns),
        place=sql.Literal(place),
    )


def staged_reject() -> Composable:
    """Returns the SQL that hashes a reject `t` in a staging table."""
    return sql.SQL(Q["staged_reject"])


def kept_reject() -> Composable:
    """Returns the SQL that hashes a reject `t` in the ledger, to the same number as in staging."""
    return sql.SQL(Q["kept_reject"])


def digest_columns(cur: cursor, table: str) -> DigestColumns:
    """Returns the table's columns with their types, without those that Lockstep fills."""
    cur.execute(
        Q["columns_of"], {"table": in_database(table), "reserved": [*(name for name, _ in RESERVED_COLUMNS), "_batch"]}
    )
    return tuple((row.name, row.type) for row in every(cur))


def is_hashable(type_: str) -> bool:
    """Returns True if a digest covers a column of this type: its values have the same text in every session."""
    return _SIZE.sub("", type_) in HASHED | READ_AS_TEXT


def hash_alike(one: str, other: str) -> bool:
    """Returns True if a value keeps its hash when it is assigned from one type to the other."""
    if one == other or {one, other} <= {*WHOLE_TYPES} or {one, other} <= {*TEXT} or (one, other) == FLOAT:
        return True
    if is_longer_text(one, other):
        return True
    digits, room = _NUMERIC.match(one), _NUMERIC.match(other)
    return bool(digits and (other == "numeric" or (room and int(room[2]) >= int(digits[2]))))


def are_alike(staged: DigestColumns, held: Sequence[tuple[str, str]]) -> bool:
    """Returns True if a row keeps its hash from the staging table to the target."""
    types = dict(held)
    return all(name in types and hash_alike(type_, types[name]) for name, type_ in staged)


def _value(name: str, type_: str) -> Composable:
    kind = _SIZE.sub("", type_)
    template = ", t.{0}"
    if kind in READ_AS_TEXT:
        template = ', t.{0}::text collate "C"'
    elif kind in (*FLOAT, "numeric"):
        template = ", t.{0}, t.{0} is null"  # a zero, or a NaN, has the hash of a null
    return sql.SQL(template).format(sql.Identifier(name))
