"""Defines `migrate`, which brings the ledger to this version, and a target to its definition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.options import MaybeReason
from lockstep.cli.output import AsJson, say, show
from lockstep.cli.pipelines import evolving
from lockstep.cli.pipelines.checking import columns_reaching_targets, trial_engine
from lockstep.cli.pipelines.evolving import Apply, OnlyColumns, Propose
from lockstep.cli.pipelines.sharing import definitions_on_disk
from lockstep.context.systems import broker, configured_registry, database, dsn, stores, targets_dsn, warehouse
from lockstep.core.feed.feeds import refuse_other_feeds
from lockstep.core.lake.iceberg import lake_places
from lockstep.core.pipeline.targets import Send, shares, topics_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import connection

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder

MigratedName = Annotated[
    str | None,
    typer.Argument(
        help="The pipeline with the target; the ledger alone without it.", metavar="NAME", show_default=False
    ),
]


def migrate_command(
    name: MigratedName = None,
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
            evolving.show_proposal(folder, column or (), as_json=as_json)
        elif apply:
            evolving.apply_evolution(folder, apply, reason or "", column or (), as_json=as_json)
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
        dropped = _dropped_targets(conn, folder.pipeline)
        tables, begun = _make_targets(conn, folder)
        proposal = evolving.compare_with_ledger(conn, folder)
    topics = _make_topics(folder.pipeline)
    shown = f"{', '.join(tables)} {'is' if len(tables) == 1 else 'are'} there"
    differences = proposal.differences if proposal else []
    then = f"lockstep verify {name}" if dropped else None
    document = {
        "pipeline": name,
        "target": tables[0],
        "targets": tables,
        "differences": [str(each) for each in differences],
        "made_anew": dropped,
        "next": f"lockstep migrate {name} --propose" if differences else then,
    }

    def for_people() -> None:
        say(f"{name}: {shown}")
        for table in dropped:
            say(
                f"{name}: {table} was gone and is made anew: the rows that batches have committed are not in it  Next: {then}"
            )
        for topic in topics:
            say(f"{name}: the topic {topic} is made")
        for table in begun:
            say(
                f"{name}: the feed of {table} begins behind the rows that are there: lockstep changes {name} --snapshot"
            )
        if proposal:
            evolving.say_differences(proposal)
        elif folder.transforms and folder.pipeline.store is None:
            say(f"columns that a transform gives are compared by: lockstep migrate {name} --propose")

    show(document, as_json, for_people)


def _dropped_targets(conn: connection, pipeline: Pipeline) -> list[str]:
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger import migrate as migrations
    from lockstep.ledger.changes.owners import dropped_tables

    migrations.require_migrated(conn)
    with transaction(conn, READER) as cur:
        return dropped_tables(cur, pipeline)


def _make_targets(conn: connection, folder: PipelineFolder) -> tuple[list[str], list[str]]:
    """Makes the tables, or the folder, of the results in whichever store they live.

    Returns their names, and those with rows whose feed begins now.
    """
    from lockstep.ledger import migrate as migrations
    from lockstep.steps.feed.values import register_schemas
    from lockstep.steps.lake.open_tables import make_tables

    if folder.pipeline.store is None:
        _refuse_other_feeds(folder.pipeline)
        begun = migrations.migrate_target(conn, folder, targets_dsn(), _columns_of_sends(folder))
        register_schemas(conn, folder.pipeline, configured_registry)
        if lake_places(folder.pipeline.targets):
            make_tables(conn, folder.pipeline, warehouse(), columns_reaching_targets(folder, trial_engine(folder)))
        return [target.table for target in folder.pipeline.targets], begun
    from lockstep.adapters.postgres import PLANNER, transaction
    from lockstep.ledger.changes.owners import register
    from lockstep.targets.stores.stores import results_of

    migrations.require_migrated(conn)
    with transaction(conn, PLANNER) as cur:
        register(cur, folder.pipeline)
    return [results_of(folder.pipeline, dsn(), stores()).make(folder)], []


def _columns_of_sends(folder: PipelineFolder) -> Sequence[Sequence[Column]] | None:
    """Returns the columns that reach each target, if a transform decides which ones are sent. Spark is then asked."""
    if not folder.transforms or not any(isinstance(target, Send) for target in folder.pipeline.targets):
        return None
    return columns_reaching_targets(folder, trial_engine(folder))


def _make_topics(pipeline: Pipeline) -> list[str]:
    """Makes the topics that feeds are sent to, where the definition says with how many partitions."""
    wanted = [topic for _, topic in topics_of(pipeline.targets) if topic.partitions]
    if not wanted:
        return []
    from lockstep.adapters.kafka.sink_topic import ensure_sink

    at = broker()
    return [topic.name for topic in wanted if ensure_sink(at, topic.name, topic.partitions or 1)]


def _refuse_other_feeds(pipeline: Pipeline) -> None:
    """Refuses another feed than that of a pipeline that shares the table, if its definition is here."""
    shared = {name for target in pipeline.targets if target.feed for name in shares(target)}
    for other in definitions_on_disk(sorted(shared)):
        refuse_other_feeds(pipeline, other)
