"""Defines `lineage`, from an offset to its batch and rows, and `blame`, from a row back to its offset."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.cli.history import pipeline_as_run
from lockstep.cli.options import LAST_OFFSET, Name, OneTopic, Partition
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.context.systems import open_ledger, results_elsewhere
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.targets import Send, WithTotals
from lockstep.core.states import CoverageKind
from lockstep.core.text import cell

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.ledger.views.reading import Document

ROWS_SHOWN = 10
OffsetOption = Annotated[int, typer.Option(help="The record's offset.", min=0, max=LAST_OFFSET, show_default=False)]
RowKeyOption = Annotated[
    list[str], typer.Option(help="The key's value; once per column where the key has several.", show_default=False)
]

TableOption = Annotated[
    str | None, typer.Option("--target", help="The table, where the pipeline has several.", show_default=False)
]


def lineage_command(
    name: Name, partition: Partition, offset: OffsetOption, topic: OneTopic = None, as_json: AsJson = False
) -> None:
    """Show the outcome of one record: its batch, attempt and rows.

    An offset without a batch is an answer, too: `uncovered`, `skipped`, `loss` or `gap in the log`. The exit code is 0.
    """
    from lockstep.adapters.postgres import READER, snapshot
    from lockstep.ledger.views import tracing
    from lockstep.steps.lake.copy_offsets import copy_offset
    from lockstep.steps.lake.open_tables import open_tables

    pipeline = pipeline_as_run(name)
    results = results_elsewhere(pipeline)
    look = partial(results.rows_of_offset, pipeline) if results else None
    with open_ledger() as conn:
        opened = open_tables(conn, pipeline)
        with snapshot(conn, READER) as cur:
            shown = copy_offset(cur, pipeline, opened, offset)
            document = tracing.outcome_of_record(cur, shown, partition, offset, look, topic)

    def for_people() -> None:
        say(f"{_place(document)}: {document['coverage']}{_by(document)}")
        for row in document["rows"]:
            _say_row(row)
        if document["erased"]:
            say(f"  erased by decision {document['erased']}")
        elif document["reject"]:
            say(f"  rejected: {document['reject']['reason']}")
        elif document["coverage"] == CoverageKind.BATCH and not document["rows"]:
            say(f"  no row of it stands: {_taken(pipeline)}")

    show(document, as_json, for_people)


def blame_command(name: Name, key: RowKeyOption, target: TableOption = None, as_json: AsJson = False) -> None:
    """Show the record that a row comes from, by the target's key."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.views import tracing
    from lockstep.targets.stores.warehouse import Warehouse

    pipeline = pipeline_as_run(name)
    results = results_elsewhere(pipeline) if pipeline.store else None
    with open_ledger() as conn, transaction(conn, READER) as cur:
        keyed = _keyed(pipeline, target)
        if isinstance(results, Warehouse):
            with results.reading() as target_cur:
                document = tracing.record_of_row(cur, keyed, key, target_cur)
        else:
            document = tracing.record_of_row(cur, keyed, key)

    def for_people() -> None:
        say(f"{_place(document)}{', a tombstone' if document['deleted'] else ''}{_by(document)}")
        _say_row(document["row"] or {})
        _say_contributions(document["contributions"])

    show(document, as_json, for_people)


def _keyed(pipeline: Pipeline, table: str | None) -> Pipeline:
    """Returns the pipeline with only the target of this name.

    Without a name, takes the first target with a key, else the first target.
    """
    from lockstep.ledger.views import tracing

    each = pipeline.each()
    if table is None:
        return tracing.keyed(pipeline) or each[0]
    for one in each:
        if one.first.table == table:
            return one
    tables = ", ".join(one.first.table for one in each)
    raise Refusal(
        f"{pipeline.name}: {table} is no target of it; there are: {tables}",
        next_command=f"lockstep blame {pipeline.name} --help",
    )


def _taken(pipeline: Pipeline) -> str:
    if any(isinstance(target, WithTotals) for target in pipeline.targets):
        return "a key's row shows the newest record that counts for it; the transform may also have let it go"
    if all(isinstance(target, Send) for target in pipeline.targets):
        return "it was sent and is trimmed, or the transform let it go"
    return "a newer record, a tombstone or the transform took it"


def _say_contributions(contributions: list[Document]) -> None:
    if contributions:
        say(f"  adds up from {len(contributions)} segments, the newest first:")
        shown = contributions[:ROWS_SHOWN]
        say_table(
            ["  batch", "partition", "offsets", "records", *shown[0]["totals"]],
            [
                [
                    f"  {c['batch']}",
                    c["partition"],
                    f"[{c['from_offset']}, {c['until_offset']})",
                    f"{c['records']} ({c['folded']} folded)" if c["folded"] else c["records"],
                    *(cell(value) for value in c["totals"].values()),
                ]
                for c in shown
            ],
        )


def _place(document: Document) -> str:
    return f"{document['topic']}-{document['partition']} offset {document['offset']}"


def _by(document: Document) -> str:
    if document["batch"] is None:
        return ""
    run = f"\n  run {document['dag_run_id']} of {document['dag_id']}" if document["dag_id"] else ""
    return f", batch {document['batch']}, attempt {cell(document['attempt'])}{run}"


def _say_row(row: Document) -> None:
    if row:
        say_table(["  column", "value"], [[f"  {name}", value] for name, value in row.items()])
