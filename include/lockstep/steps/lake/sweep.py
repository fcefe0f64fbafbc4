"""Deletes what dead attempts have left in the lake: their own prefixes, and preparations that no pointer has shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import COMMITTER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.lake.files import prefix_of
from lockstep.core.lake.within import is_below
from lockstep.faults import reach
from lockstep.ledger.lake import moves

if TYPE_CHECKING:
    from psycopg2.extensions import connection


def sweep_lake(conn: connection) -> int:
    """Deletes the files of attempts that have ended without a commit, of tries that lost, and of refused preparations.

    Looks at these places alone, and never for orphans: files of other writers have no row here. A prefix is swept at
    once, and again after a day. Returns the number of files.
    """
    with transaction(conn, COMMITTER) as cur:
        preparations, prefixes = moves.dead_preparations(cur), moves.dead_prefixes(cur)
        kept = moves.kept_prefixes(cur)
    if not preparations and not prefixes and not kept:
        return 0
    from lockstep.adapters.iceberg.folder import (  # noqa: PLC0415 - few have a lake
        sweep_losers,
        sweep_prefix,
        sweep_preparation,
    )

    gone = 0
    strange = [row.before for row in preparations if not _is_of_its_table(row)]
    strange += [row.location for row in (*prefixes, *kept) if not _is_of_its_attempt(row)]
    preparations = [row for row in preparations if row.folder and _is_of_its_table(row)]
    prefixes, kept = ([row for row in rows if row.folder and _is_of_its_attempt(row)] for rows in (prefixes, kept))
    for row in preparations:
        gone += sweep_preparation(row.before, row.location, row.commit_uuid, row.folder)
        reach("lake.sweep_mid")
        with transaction(conn, COMMITTER) as cur:
            moves.swept_prepared(cur, row.commit_uuid)
    for row in prefixes:
        gone += sweep_prefix(row.location, row.folder)
        reach("lake.sweep_mid")
        with transaction(conn, COMMITTER) as cur:
            moves.swept_prefix(cur, row)
    for row in kept:
        gone += sweep_losers(row.location, row.paths, row.folder)
        with transaction(conn, COMMITTER) as cur:
            moves.swept_prefix(cur, row)
    if strange:
        raise Refusal(
            f"{strange[0]}: not in the folder of its table; nothing there was deleted",
            next_command="find out who wrote this address into lockstep.lake_prefix or lockstep.lake_prepared",
        )
    return gone


def _is_of_its_attempt(row: Any) -> bool:
    """Returns True if the files are where an attempt writes. Of a table that is gone, nobody knows the folder."""
    return not row.folder or row.location == prefix_of(row.folder, row.batch_id, row.token)


def _is_of_its_table(row: Any) -> bool:
    return not row.folder or (is_below(row.before, row.folder) and is_below(row.location, row.folder))
