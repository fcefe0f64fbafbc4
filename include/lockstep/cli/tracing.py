"""`lineage` and `blame`: from an offset to its batch and rows, and from a row back to its offset."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.options import OFFSETS, Name, Partition
from lockstep.cli.output import AsJson, cell, say, say_table, show
from lockstep.cli.surroundings import ledger, results_elsewhere

if TYPE_CHECKING:
    from lockstep.ledger.reading import Document

Offset = Annotated[int, typer.Option(help="The record's offset.", min=0, max=OFFSETS, show_default=False)]
Key = Annotated[
    list[str], typer.Option(help="The key's value; once per column where the key has several.", show_default=False)
]


def lineage(name: Name, partition: Partition, offset: Offset, as_json: AsJson = False) -> None:
    """Tell what became of one record: its batch, attempt and rows."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger import tracing

    pipeline = folders.load(name).pipeline
    results = results_elsewhere(pipeline)
    look = partial(results.rows_of_offset, pipeline) if results else None
    with ledger() as conn, transaction(conn, READER) as cur:
        document = tracing.lineage(cur, pipeline, partition, offset, look)

    def for_people() -> None:
        say(f"{_place(document)}: {document['coverage']}{_by(document)}")
        for row in document["rows"]:
            _say_row(row)
        if document["reject"]:
            say(f"  rejected: {document['reject']['reason']}")
        elif document["coverage"] == "batch" and not document["rows"]:
            say("  no row of it stands: a newer record, a tombstone or the transform took it")

    show(document, as_json, for_people)


def blame(name: Name, key: Key, as_json: AsJson = False) -> None:
    """Tell which record a row comes from, by the target's key."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger import tracing
    from lockstep.targets.warehouse import Warehouse

    pipeline = folders.load(name).pipeline
    results = results_elsewhere(pipeline) if pipeline.store else None
    with ledger() as conn, transaction(conn, READER) as cur:
        if isinstance(results, Warehouse):
            with results.reading() as target_cur:
                document = tracing.blame(cur, pipeline, key, target_cur)
        else:
            document = tracing.blame(cur, pipeline, key)

    def for_people() -> None:
        say(f"{_place(document)}{', a tombstone' if document['deleted'] else ''}{_by(document)}")
        _say_row(document["row"] or {})

    show(document, as_json, for_people)


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
