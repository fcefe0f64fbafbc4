"""Defines `migrate`, which brings the ledger to this version, and a target to its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters import folders
from lockstep.cli import evolving
from lockstep.cli.evolving import Apply, OnlyColumns, Propose
from lockstep.cli.options import MaybeReason, OneName
from lockstep.cli.output import AsJson, say, show
from lockstep.cli.surroundings import database, dsn, stores, targets_dsn

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.core.folder import PipelineFolder


def migrate(
    name: OneName = None,
    propose: Propose = False,
    apply: Apply = None,
    reason: MaybeReason = None,
    column: OnlyColumns = None,
    as_json: AsJson = False,
) -> None:
    """Bring the ledger to this version, and with NAME its target."""
    from lockstep.ledger import migrate as migrations

    evolving.refuse_odd_call(name, propose=propose, apply=apply, why=reason, only=column)
    if name is not None:
        folder = folders.load(name)
        if propose:
            evolving.propose(folder, column or (), as_json=as_json)
        elif apply:
            evolving.apply(folder, apply, reason or "", column or (), as_json=as_json)
        else:
            _migrate_target(folder, as_json=as_json)
        return
    with database() as conn:
        applied = migrations.migrate(conn)
    document = {"applied": [{"version": step.version, "name": step.name} for step in applied]}
    what = ", ".join(f"{step.version:04} {step.name}" for step in applied) or "nothing to apply"
    show(document, as_json, lambda: say(f"ledger: {what}"))


def _migrate_target(folder: PipelineFolder, *, as_json: bool) -> None:
    name = folder.pipeline.name
    with database() as conn:
        tables = _make_targets(conn, folder)
        proposal = evolving.compared(conn, folder)
    shown = f"{', '.join(tables)} {'is' if len(tables) == 1 else 'are'} there"
    differences = proposal.differences if proposal else []
    document = {
        "pipeline": name,
        "target": tables[0],
        "targets": tables,
        "differences": [str(each) for each in differences],
        "next": f"lockstep migrate {name} --propose" if differences else None,
    }

    def for_people() -> None:
        say(f"{name}: {shown}")
        if proposal:
            evolving.say_differences(proposal)
        elif folder.transforms and folder.pipeline.store is None:
            say(f"columns that a transform gives are compared by: lockstep migrate {name} --propose")

    show(document, as_json, for_people)


def _make_targets(conn: connection, folder: PipelineFolder) -> list[str]:
    """Makes the tables, or the folder, of the results in whichever store they live. Returns their names."""
    from lockstep.ledger import migrate as migrations

    if folder.pipeline.store is None:
        migrations.migrate_target(conn, folder, targets_dsn())
        return [target.table for target in folder.pipeline.targets]
    from lockstep.adapters.postgres import PLANNER, transaction
    from lockstep.ledger.owners import register
    from lockstep.targets.stores import results_of

    migrations.require_migrated(conn)
    with transaction(conn, PLANNER) as cur:
        register(cur, folder.pipeline)
    return [results_of(folder.pipeline, dsn(), stores()).make(folder)]
