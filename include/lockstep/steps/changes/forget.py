"""Ends a pipeline: a recorded decision. Its tables are free again, and all of its history stays."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal, quoted
from lockstep.ledger.changes import decisions, forgotten, owners
from lockstep.steps.batch.seal import seal_all
from lockstep.steps.changes.decisions import deciding

if TYPE_CHECKING:
    from psycopg2.extensions import connection, cursor

    from lockstep.core.changes.person import Person
    from lockstep.core.health.ownership import Table


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The tables that a pipeline gave free, the requests closed with it, and its positions.

    `changed` is False if it was forgotten already. `by` says who did that.
    """

    tables: tuple[Table, ...]
    requests: tuple[int, ...]
    positions: tuple[Any, ...]
    changed: bool
    by: str


def forget(conn: connection, pipeline: str, person: Person) -> Forgotten:
    """Ends a pipeline and gives its tables free. Refuses while a batch of it is unfinished."""
    with transaction(conn, READER) as cur:
        require_known(cur, pipeline)
        found = forgotten.forgetting(cur, pipeline)
        if found:
            by = f"{found.who} at {found.at:%Y-%m-%dT%H:%M:%SZ}: {found.why}"
            return Forgotten((), (), tuple(forgotten.positions(cur, pipeline)), changed=False, by=by)
    with deciding(conn, pipeline) as cur:
        unfinished = owners.unfinished_of_pipeline(cur, pipeline)
        if unfinished:
            raise Refusal(
                f"{pipeline}: batch {unfinished[0]} is unfinished, and a pipeline is forgotten with nothing under way",
                next_command=f"lockstep run {pipeline}, or lockstep abandon {unfinished[0]} --reason ...",
            )
        requests, tables = forgotten.close_requests(cur, pipeline), forgotten.free_tables(cur, pipeline)
        free = [{"store": table.store, "target": table.name} for table in tables]
        decision = decisions.record(cur, pipeline, "forget", person, {"tables": free, "requests": requests})
        forgotten.end(cur, pipeline, decision)
        positions = tuple(forgotten.positions(cur, pipeline))
    seal_all(conn, pipeline)  # no later run of it does
    return Forgotten(tuple(tables), tuple(requests), positions, changed=True, by=person.who)


def remember(conn: connection, pipeline: str, person: Person) -> bool:
    """Lets a forgotten pipeline go on where it stopped. Returns False if it was not forgotten.

    Its next plan owns its tables again, unless another pipeline owns one by then.
    """
    with transaction(conn, READER) as cur:
        require_known(cur, pipeline)
    with deciding(conn, pipeline, even_forgotten=True) as cur:
        if forgotten.forgetting(cur, pipeline) is None:
            return False
        decisions.record(cur, pipeline, "remember", person)
        forgotten.end(cur, pipeline, None)
    return True


def require_known(cur: cursor, pipeline: str) -> None:
    """Refuses a name that no pipeline of the ledger has."""
    known = forgotten.names_in_ledger(cur)
    if pipeline not in known:
        names = ", ".join(known) or "none"
        raise Refusal(
            f"the ledger has no pipeline {quoted(pipeline)}; it has: {names}", next_command="lockstep status --all"
        )


def forget_document(done: Forgotten, pipeline: str) -> dict[str, Any]:
    """Describes what was done, for `--json`."""
    return {
        "pipeline": pipeline,
        "forgotten": True,
        "changed": done.changed,
        "by": done.by,
        "tables": [asdict(table) for table in done.tables],
        "closed_requests": list(done.requests),
        "positions": [row._asdict() for row in done.positions],
    }
