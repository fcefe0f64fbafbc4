"""Reads and writes the owners of tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal
from lockstep.core.health.ownership import Conflict, Owner, conflict, tables_of, windows_of_others
from lockstep.core.lake.iceberg import is_lake_table
from lockstep.core.pipeline.targets import Windows, shares
from lockstep.ledger.batch.plan import lock_pipeline
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.health.ownership import Table
    from lockstep.core.pipeline.definition import Pipeline, Target

Q = queries("lockstep.ledger.changes", "owners")


def recorded_owners(cur: cursor, table: Table) -> list[Owner]:
    """Reads the recorded owners of a table."""
    cur.execute(Q["owners"], asdict(table))
    return [Owner(row.pipeline, tuple(row.shared_with)) for row in every(cur)]


def writers(cur: cursor, table: Table) -> list[str]:
    """Reads the pipelines that have committed into a table, by the definitions of their commits."""
    cur.execute(Q["writers"], asdict(table))
    return [row.pipeline for row in every(cur)]


def dropped_tables(cur: cursor, pipeline: Pipeline) -> list[str]:
    """Returns the tables of the ledger's database that batches have committed into, and that are not there any more."""
    dropped = []
    for table in tables_of(pipeline):
        if table.store or is_lake_table(table.name):
            continue
        cur.execute(Q["is_missing"], {"name": table.name})
        if one(cur).yes and writers(cur, table):
            dropped.append(table.name)
    return dropped


def conflicts(cur: cursor, pipeline: Pipeline) -> dict[Table, Conflict]:
    """Returns the tables of a pipeline that it may not write, each with the reason."""
    found = {table: _conflict(cur, pipeline.name, table, target) for table, target in tables_of(pipeline).items()}
    return {table: why for table, why in found.items() if why}


def owned(cur: cursor, pipeline: Pipeline) -> set[Table]:
    """Returns the tables whose recorded owner the pipeline is, alone or with others that agree."""
    ours = {t for t in tables_of(pipeline) if any(owner.pipeline == pipeline.name for owner in recorded_owners(cur, t))}
    return ours - conflicts(cur, pipeline).keys()


def own(cur: cursor, pipeline: Pipeline) -> Conflict | None:
    """Records the pipeline as the owner of its tables. Returns the first conflict, and records nothing more.

    The caller holds the pipeline's row lock.
    """
    for table, target in sorted(tables_of(pipeline).items(), key=lambda item: item[0]):
        if Owner(pipeline.name, shares(target)) in recorded_owners(cur, table):
            continue
        lock_owners(cur, table)
        found = _conflict(cur, pipeline.name, table, target)
        if found:
            return found
        record_owner(cur, table, Owner(pipeline.name, shares(target)))
    return None


def register(cur: cursor, pipeline: Pipeline) -> None:
    """Records a pipeline that is being set up as the owner of its tables. Raises `Refusal` on a conflict."""
    lock_pipeline(cur, pipeline.name)
    found = own(cur, pipeline)
    if found:
        raise Refusal(found.reason, next_command=found.next_command)


def lock_owners(cur: cursor, table: Table) -> None:
    """Lets one transaction at a time change the owners of a table."""
    cur.execute(Q["lock_table"], asdict(table))


def record_owner(cur: cursor, table: Table, owner: Owner) -> None:
    """Records an owner. The constraints refuse a second one unless each names the other."""
    cur.execute(Q["put_owner"], asdict(table) | {"pipeline": owner.pipeline, "shared_with": list(owner.shared_with)})


def remove_owner(cur: cursor, table: Table, pipeline: str) -> None:
    """Removes a pipeline's ownership of a table."""
    cur.execute(Q["remove_owner"], asdict(table) | {"pipeline": pipeline})


def handed_over_to(cur: cursor, table: Table, pipeline: str) -> str | None:
    """Returns the pipeline that a decision handed this one's table over to, or None."""
    cur.execute(Q["handed_over"], asdict(table) | {"pipeline": pipeline})
    row = maybe(cur)
    return row.receiver if row else None


def unfinished_of_pipeline(cur: cursor, pipeline: str) -> list[int]:
    """Reads the unfinished batches of a pipeline."""
    cur.execute(Q["unfinished_of"], {"pipeline": pipeline})
    return [row.batch_id for row in every(cur)]


def _conflict(cur: cursor, pipeline: str, table: Table, target: Target) -> Conflict | None:
    recorded = recorded_owners(cur, table)
    if recorded:
        return conflict(pipeline, table, target, recorded, ())
    found = conflict(pipeline, table, target, (), writers(cur, table))
    return found or windows_conflict(cur, pipeline, table, target)


def windows_conflict(cur: cursor, pipeline: str, table: Table, target: Target) -> Conflict | None:
    """Returns why the pipeline may not take a table in which windows of another one are, or None.

    With windows of its own, it takes no table with totals of another one, either.
    """
    values = asdict(table) | {"pipeline": pipeline, "is_windows": isinstance(target, Windows)}
    cur.execute(Q["windows_of"], values)
    return windows_of_others(pipeline, table, [row.pipeline for row in every(cur)])
