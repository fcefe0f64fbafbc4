"""Runs the statements of upkeep: steps that are prepared, moves beside a decision, and files to delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.errors import LakeMoved, Refusal
from lockstep.core.lake.iceberg import CATALOG, Iceberg
from lockstep.ledger.changes import decisions
from lockstep.ledger.lake import moves
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from psycopg2.extensions import cursor

    from lockstep.core.changes.person import Person
    from lockstep.core.lake.keeping import LakeChange

Q = queries("lockstep.ledger.lake", "upkeep")


def lock_table(cur: cursor, table: Iceberg) -> bool:
    """Takes the table for upkeep until this session ends. Returns False if another session has it."""
    cur.execute(Q["lock_table"], {"table": str(table)})
    return bool(one(cur).taken)


def unlock_table(cur: cursor, table: Iceberg) -> None:
    """Lets the table go."""
    cur.execute(Q["unlock_table"], {"table": str(table)})


def begin_step(cur: cursor, table: Iceberg, commit_uuid: str, step: str, before: str, prefix: str) -> None:
    """Records a step before its first file is written."""
    cur.execute(
        Q["begin_step"], _named(table) | {"commit_uuid": commit_uuid, "step": step, "before": before, "prefix": prefix}
    )


def end_step(cur: cursor, commit_uuid: str) -> bool:
    """Ends a step. Returns False if it has ended already."""
    cur.execute(Q["end_step"], {"commit_uuid": commit_uuid})
    return cur.rowcount == 1


def dead_steps(cur: cursor, table: Iceberg) -> list[Any]:
    """Returns the steps of a table that no pointer has shown, with their files' places."""
    cur.execute(Q["dead_steps"], _named(table))
    return every(cur)


def swept_step(cur: cursor, commit_uuid: str) -> None:
    """Records that nothing of a dead step is left."""
    cur.execute(Q["swept_step"], {"commit_uuid": commit_uuid})


def move_by_decision(
    cur: cursor,
    pipeline: str,
    table: Iceberg,
    change: LakeChange,
    person: Person,
    said: dict[str, Any],
    gone: Sequence[str],
) -> None:
    """Moves the pointer, with the decision of upkeep beside it and the files that nothing holds then.

    Raises `LakeMoved` if the pointer is not where it was, and `Refusal` if the step was taken for dead.
    """
    if not end_step(cur, change.commit_uuid):
        raise Refusal(
            f"{table}: this upkeep was taken for dead, and its files were swept",
            next_command=f"lockstep upkeep {pipeline} --lake",
        )
    detail = said | {"table": str(table), "before": change.before, "after": change.after}
    decision = decisions.record(cur, pipeline, "upkeep", person, detail)
    if gone:
        cur.execute(Q["insert_gone"], _named(table) | {"decision_id": decision, "paths": list(gone)})
    cur.execute(moves.Q["move_pointer"], _named(table) | {"before": change.before, "after": change.after})
    if cur.rowcount != 1:
        raise LakeMoved(f"{table} has moved since its upkeep was prepared: {moves.last_mover(cur, table)}")


def old_metadata(cur: cursor, table: Iceberg, until: datetime) -> list[str]:
    """Returns the metadata files that no reader was led to since this time."""
    cur.execute(Q["old_metadata"], _named(table) | {"until": until})
    return [row.path for row in every(cur)]


def files_to_delete(cur: cursor, table: Iceberg, most: int) -> list[str]:
    """Returns files that decisions have taken out, and that are perhaps there yet."""
    cur.execute(Q["files_to_delete"], _named(table) | {"most": most})
    return [row.path for row in every(cur)]


def record_deleted(cur: cursor, paths: Sequence[str]) -> None:
    """Records that these files are deleted."""
    cur.execute(Q["deleted"], {"paths": list(paths)})


def _named(table: Iceberg) -> dict[str, str]:
    return {"catalog": CATALOG, "namespace": table.namespace, "name": table.name}
