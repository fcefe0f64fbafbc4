"""Deletes what dead attempts have left in the lake: their own prefixes, and preparations that no pointer has shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import COMMITTER, transaction
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
    for row in preparations:
        gone += sweep_preparation(row.before, row.location, row.commit_uuid)
        reach("lake.sweep_mid")
        with transaction(conn, COMMITTER) as cur:
            moves.swept_prepared(cur, row.commit_uuid)
    for row in prefixes:
        gone += sweep_prefix(row.location)
        reach("lake.sweep_mid")
        with transaction(conn, COMMITTER) as cur:
            moves.swept_prefix(cur, row)
    for row in kept:
        gone += sweep_losers(row.location, row.paths)
        with transaction(conn, COMMITTER) as cur:
            moves.swept_prefix(cur, row)
    return gone
