"""Looks at the lake tables of a pipeline for `doctor`, and for `restored`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.changes.restored import lost_table_need
from lockstep.core.errors import Refusal
from lockstep.core.health.findings import Check, Judged, problem
from lockstep.core.lake.iceberg import lake_places
from lockstep.core.lake.lake_findings import lake_findings
from lockstep.ledger.lake import moves
from lockstep.ledger.lake.told import longest_attempt
from lockstep.steps.lake.open_tables import load_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg2.extensions import connection

    from lockstep.core.lake.iceberg import Iceberg
    from lockstep.core.lake.lake_findings import LakeFacts
    from lockstep.core.pipeline.definition import Pipeline


def look_at_lake(conn: connection, pipeline: Pipeline) -> Judged:
    """Returns what is found of each lake table. A table that was not made yet is a finding of its target."""
    judged: Judged = []
    for table, found in _facts(conn, pipeline):
        if isinstance(found, Refusal):
            why = "no batch can be committed into it, and nobody can read it"
            remedy = found.next_command or f"lockstep files {pipeline.name}"
            judged.append(problem(Check.LAKE, f"table {table}", found.message, why, remedy))
        else:
            judged += lake_findings(found, pipeline.name)
    return judged


def lake_needs(conn: connection, pipeline: Pipeline) -> list[str]:
    """Returns, of each lake table, what a restored ledger's pointer leads to and what is to be done."""
    needs = []
    for table, found in _facts(conn, pipeline):
        if isinstance(found, Refusal):
            needs.append(lost_table_need(pipeline.name, str(table), found.message))
        else:
            needs.append(
                f"{table} is as its pointer in the ledger has it: lockstep verify {pipeline.name} --deep compares it, and "
                "files of the lost timeline stay in the store"
            )
    return needs


def _facts(conn: connection, pipeline: Pipeline) -> Iterator[tuple[Iceberg, LakeFacts | Refusal]]:
    """Yields each lake table that has a pointer, with the facts of its files, or the refusal to read them."""
    for table in lake_places(pipeline.targets).values():
        with transaction(conn, READER) as cur:
            if not moves.has_pointer(cur, table):
                continue
            address, longest = moves.pointer(cur, pipeline.name, table), longest_attempt(cur, pipeline.name)
        try:
            opened = load_table(pipeline.name, table, address)
            from lockstep.adapters.iceberg.rewrite import lake_facts  # noqa: PLC0415 - few pipelines have a lake table

            yield table, lake_facts(opened, longest)
        except Refusal as refusal:
            yield table, refusal
