"""Makes the guards of a history's table: one current version of each key, and no end before its beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg2 import sql

from lockstep.ledger.admin.origin_index import index_name
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

    from lockstep.core.pipeline.targets import History

Q = queries("lockstep.ledger.admin", "version_indexes")
NO_END_BEFORE = "versions_end_after_they_begin"


def guard_new_histories(cur: cursor, targets: Iterable[History]) -> None:
    """Makes the guards of tables without a row that this session owns. A person decides for all others."""
    for target in targets:
        cur.execute(Q["table"], {"table": target.table})
        row = maybe(cur)
        if row is None or not row.is_ours:
            continue
        cur.execute(sql.SQL(Q["is_empty"]).format(**_parts(target)))
        if one(cur).yes:
            cur.execute(sql.SQL(Q["create_by_key"]).format(**_parts(target)))
            cur.execute(current_index(cur, target))
            cur.execute(Q["has_guard"], {"table": target.table, "name": NO_END_BEFORE})
            if maybe(cur) is None:
                cur.execute(sql.SQL(Q["add_guard"]).format(**_parts(target)))


def lacks_current_index(cur: cursor, target: History) -> bool:
    """Returns True if no index keeps the current version of a key the only one."""
    cur.execute(Q["current_keys"], {"table": target.table})
    return not any({*row.columns} == {*target.key} for row in every(cur))


def current_index(cur: cursor, target: History) -> str:
    """Returns the statement that makes the index of current versions. It may be run again."""
    return sql.SQL(Q["create_current"]).format(**_parts(target)).as_string(cur)


def _parts(target: History) -> dict[str, Composable]:
    return {
        "table": table_name(target.table),
        "keys": sql.SQL(", ").join(map(sql.Identifier, target.key)),
        "by_key": sql.Identifier(index_name(target.table, "_by_key")),
        "current": sql.Identifier(index_name(target.table, "_current")),
        "guard": sql.Identifier(NO_END_BEFORE),
    }
