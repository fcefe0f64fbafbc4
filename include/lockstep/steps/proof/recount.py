"""Lets the count of an upserted table go on at the rows that are there, after everything else was proved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.definition import Upsert
from lockstep.core.pipeline.guarantees import Delivered
from lockstep.core.proof.verification import ROWS_COUNTED, next_step
from lockstep.ledger.changes import decisions
from lockstep.ledger.proof.verify import check_name, keys_counted
from lockstep.steps.changes.decisions import deciding
from lockstep.steps.proof.verify import verify

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.person import Person
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.registry import Registry

RECOUNT = "recount"


@dataclass(frozen=True, slots=True)
class Recounted:
    """A table's rows: `expected` by the effects of its commits, and `found`."""

    target: str
    expected: int
    found: int


def recount(
    conn: connection, broker: Broker, folder: PipelineFolder, person: Person, registry: Registry | None = None
) -> tuple[Recounted, ...]:
    """Records by how many rows each count was off. Returns those that were, so nothing for a table that is as counted.

    Reads Kafka again first. Raises `Refusal` if any other check fails, and for a pipeline that counts no keys.
    """
    pipeline = folder.pipeline
    keyed = [
        target for target in pipeline.targets if isinstance(target, Upsert) and not isinstance(target.table, Iceberg)
    ]
    if not keyed or isinstance(pipeline.guarantee, Delivered):
        raise Refusal(
            f"{pipeline.name}: only rows of upserted tables of the ledger's database are counted by the effects of commits",
            next_command=f"lockstep verify {pipeline.name}",
        )
    counts = {check_name(pipeline, target, ROWS_COUNTED) for target in keyed}
    checks = verify(conn, broker, folder, deep=True, registry=registry)
    wrong = [check for check in checks if not check.ok and check.name not in counts]
    if wrong:
        raise Refusal(
            f"{pipeline.name}: {wrong[0].name}: {wrong[0].detail}; the count goes on when everything else holds",
            next_command=next_step(pipeline.name, wrong, deep=True) or f"lockstep verify {pipeline.name} --deep",
        )
    recounted = []
    with deciding(conn, pipeline.name) as cur:
        for target in keyed:
            row = keys_counted(cur, target.table)
            if row.unknown or row.expected == row.found:
                continue
            detail = {"target": target.table, "rows": row.found - row.expected}
            decisions.record(cur, pipeline.name, RECOUNT, person, detail)
            recounted.append(Recounted(target.table, row.expected, row.found))
    return tuple(recounted)
