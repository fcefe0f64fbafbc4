"""Defines `files`, which lists the files that a pipeline's batches have brought into the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.adapters import folders
from lockstep.cli.options import Name
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.context.systems import open_ledger
from lockstep.core.errors import Refusal
from lockstep.core.lake.iceberg import lake_places
from lockstep.core.text import size_of_bytes

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.core.pipeline.definition import Pipeline

OfBatch = Annotated[
    int | None, typer.Option("--batch", help="Only what this batch has brought.", min=1, show_default=False)
]


def files_command(name: Name, batch: OfBatch = None, as_json: AsJson = False) -> None:
    """List the files of the pipeline's lake tables, and which batch has brought each.

    A file that is not shown any more was replaced by a replay, or rewritten by another writer. The ledger keeps its row.
    Files of other writers have no batch.
    """
    pipeline = folders.load(name).pipeline
    if not lake_places(pipeline.targets):
        raise Refusal(f"{name}: none of its tables is in the lake", next_command=f"lockstep status {name}")
    with open_ledger() as conn:
        tables = _tables(conn, pipeline, batch)
    show({"pipeline": name, "batch": batch, "tables": tables}, as_json, lambda: _say(tables))


def _tables(conn: connection, pipeline: Pipeline, batch: int | None) -> list[dict[str, Any]]:
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.lake.moves import files_of_pipeline
    from lockstep.steps.lake.open_tables import open_tables

    found = []
    with transaction(conn, READER) as cur:
        brought = files_of_pipeline(cur, pipeline.name, batch)
    for place, table in open_tables(conn, pipeline).items():
        shown = {path: (rows, size) for path, rows, size in table.files()}
        its = {row.path: row for row in brought if row.place == place and row.path}
        paths = its if batch is not None else its | dict.fromkeys(shown.keys() - its.keys())
        files = [
            {
                "path": path,
                "batch": row.batch_id if row else None,
                "rows": row.rows if row else shown[path][0],
                "bytes": row.bytes if row else shown[path][1],
                "shown": path in shown,
            }
            for path, row in paths.items()
        ]
        found.append(
            {"table": table.name, "metadata": table.address, "snapshots": len(table.snapshots), "files": files}
        )
    return found


def _say(tables: list[dict[str, Any]]) -> None:
    for table in tables:
        shown = [file for file in table["files"] if file["shown"]]
        size = size_of_bytes(sum(file["bytes"] for file in shown))
        say(f"{table['table']}: {len(shown)} files, {size}, {table['snapshots']} snapshots, {table['metadata']}")
        rows = [
            [f["batch"] or "-", f["rows"], size_of_bytes(f["bytes"]), "yes" if f["shown"] else "no", f["path"]]
            for f in table["files"]
        ]
        if rows:
            say_table(["batch>", "rows>", "size>", "shown", "path"], rows)
