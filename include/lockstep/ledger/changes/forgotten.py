"""Reads and writes the end of a pipeline, and its other names. Both are decisions, and its history stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from psycopg2.extras import Json

from lockstep.core.errors import Refusal
from lockstep.core.health.ownership import Table
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every, maybe, one
from lockstep.ledger.version import require_version

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

    from lockstep.core.changes.person import Person

Q = queries("lockstep.ledger.changes", "forgotten")


def names_in_ledger(cur: cursor) -> dict[str, bool]:
    """Returns every pipeline of the ledger by name, with True for one that was forgotten."""
    cur.execute(Q["names"])
    return {row.name: row.forgotten for row in every(cur)}


def locked(cur: cursor, pipeline: str) -> Any:
    """Takes the pipeline's row lock and returns (paused, ledger_version). Refuses a former name.

    An older ledger is refused before anything is asked that it does not have.
    """
    cur.execute(Q["lock_pipeline"], {"pipeline": pipeline})
    row = maybe(cur)
    if row is None:  # at its very first plan, or while it is being renamed: then it is there no more
        cur.execute(Q["ledger_version"])
        require_version(one(cur).ledger_version)
        cur.execute(Q["create_pipeline"], {"pipeline": pipeline})
        cur.execute(Q["lock_pipeline"], {"pipeline": pipeline})
        row = maybe(cur) or refuse_renamed(cur, pipeline)
    return row


def forgetting(cur: cursor, pipeline: str) -> Any | None:
    """Returns the decision that ended a pipeline, as a row (who, why, at, tables), or None while it goes on."""
    cur.execute(Q["forgetting"], {"pipeline": pipeline})
    return maybe(cur)


def refuse_forgotten(cur: cursor, pipeline: str) -> None:
    """Refuses work for a pipeline that was forgotten. The caller holds the pipeline's row lock."""
    found = forgetting(cur, pipeline)
    if found:
        raise Refusal(
            f"{pipeline} was forgotten by {found.who} at {found.at:%Y-%m-%dT%H:%M:%SZ}: {found.why}",
            next_command=f"lockstep forget {pipeline} --undo --reason ..., or lockstep new ANOTHER_NAME --topic TOPIC",
        )


def renamed(cur: cursor, former: str) -> Any | None:
    """Returns what a pipeline of this former name is called now, as a row (pipeline, who, why, at), or None."""
    cur.execute(Q["renamed"], {"pipeline": former})
    return maybe(cur)


def refuse_renamed(cur: cursor, former: str) -> NoReturn:
    """Refuses work under a former name, and names the pipeline."""
    found = renamed(cur, former)
    if found is None:
        raise Refusal(f"{former}: the pipeline is being renamed", next_command="lockstep status --all, then again")
    raise Refusal(
        f"{former} was renamed to {found.pipeline} by {found.who} at {found.at:%Y-%m-%dT%H:%M:%SZ}: {found.why}",
        next_command=f"lockstep run {found.pipeline}",
    )


def name_now(cur: cursor, name: str) -> str:
    """Returns the name of today of the pipeline that had this name at first."""
    cur.execute(Q["name_now"], {"pipeline": name})
    return str(one(cur).name)


def rename_in_ledger(cur: cursor, former: str, pipeline: str, person: Person) -> None:
    """Gives a pipeline another name, with all of its history, and records the decision.

    Waits for whoever plans or commits under the old name. The ledger refuses it while a batch is unfinished.
    """
    more = Json({"run": person.run} if person.run else {})
    names = {"former": former, "pipeline": pipeline}
    cur.execute(Q["rename_pipeline"], names | {"who": person.who, "why": person.why, "more": more})


def close_requests(cur: cursor, pipeline: str) -> list[int]:
    """Closes the pipeline's open requests and returns them."""
    cur.execute(Q["close_requests"], {"pipeline": pipeline})
    return sorted(row.request_id for row in every(cur))


def free_tables(cur: cursor, pipeline: str) -> list[Table]:
    """Removes the pipeline as an owner of tables and returns these tables."""
    cur.execute(Q["free_tables"], {"pipeline": pipeline})
    return sorted(Table(row.store, row.target) for row in every(cur))


def end(cur: cursor, pipeline: str, decision: int | None) -> None:
    """Ends the pipeline by this decision. Without one, the pipeline goes on.

    The ledger refuses a decision that is not the newest about it.
    """
    cur.execute(Q["end_pipeline"], {"pipeline": pipeline, "decision": decision})


def positions(cur: cursor, pipeline: str) -> list[Any]:
    """Returns the positions of the open streams, as rows (topic, partition, position)."""
    cur.execute(Q["positions"], {"pipeline": pipeline})
    return every(cur)
