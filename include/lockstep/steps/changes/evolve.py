"""Changes the tables of a pipeline to its definition: shows the safe changes, then runs exactly those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import BadData, BadDefinition, Refusal
from lockstep.ledger.changes import decisions, owners
from lockstep.ledger.feed.make import follow_altered
from lockstep.steps.changes.decisions import deciding
from lockstep.targets.table import evolution

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import connection

    from lockstep.core.changes.evolution import Change, Proposal
    from lockstep.core.changes.person import Person
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder

Columns = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """The statements of a digest, and the person who ran them. `changed` is False if an earlier call has run them.

    `adds` is True if a column is new, which old rows have no value in.
    """

    digest: str
    statements: tuple[str, ...]
    changed: bool
    by: str | None = None
    adds: bool = False


def propose(conn: connection, pipeline: Pipeline, columns: Sequence[Sequence[Column]], only: Columns = ()) -> Proposal:
    """Returns the difference between a definition and its tables, with the changes of these columns alone."""
    with transaction(conn, READER) as cur:
        found = evolution.find_differences(cur, pipeline, columns)
    _refuse_unknown(found, only)
    return found.only(only)


def propose_plainly(conn: connection, folder: PipelineFolder) -> Proposal:
    """Returns the difference between a definition and its tables where no Spark is at hand.

    Raises `Refusal` if a transform gives the columns, which Spark alone knows.
    """
    pipeline = folder.pipeline
    if folder.transforms:
        raise BadDefinition(
            f"{pipeline.name}: a transform gives its columns, and only Spark knows which",
            next_command=f"lockstep migrate {pipeline.name} --propose",
        )
    return propose(conn, pipeline, [pipeline.columns for _ in pipeline.targets])


def require_proposed(conn: connection, folder: PipelineFolder, digest: str) -> Proposal:
    """Returns the proposal of this digest. Raises `BadData` if another one, or none, is proposed now."""
    found = propose_plainly(conn, folder)
    try:
        _require_shown(found, digest)
    except Refusal as refusal:
        raise BadData(refusal.message, next_command=refusal.next_command) from None
    return found


def apply_plainly(conn: connection, folder: PipelineFolder, digest: str, person: Person) -> Applied:
    """Runs the changes of a digest where no Spark is at hand. Raises as `apply` and `propose_plainly` do."""
    pipeline = folder.pipeline
    propose_plainly(conn, folder)
    return apply(conn, pipeline, [pipeline.columns for _ in pipeline.targets], digest, person)


def propose_indexes(conn: connection, pipeline: Pipeline) -> list[Change]:
    """Returns the indexes that keyed tables lack. It needs no columns, and so no Spark where a transform gives them."""
    with transaction(conn, READER) as cur:
        return evolution.missing_indexes(cur, pipeline)


def apply(
    conn: connection,
    pipeline: Pipeline,
    columns: Sequence[Sequence[Column]],
    digest: str,
    person: Person,
    only: Columns = (),
) -> Applied:
    """Runs the changes that were shown under this digest in one transaction, and records the decision.

    Raises `Refusal` if table or definition have changed since. A second call of the same digest changes nothing.
    """
    name = pipeline.name
    shown = propose(conn, pipeline, columns, only)
    with transaction(conn, READER) as cur:
        earlier = evolution.applied(cur, name, digest)
    if shown.digest != digest and earlier and not shown.changes:
        return Applied(digest, (), changed=False, by=f"{earlier.who} at {earlier.at:%Y-%m-%dT%H:%M:%SZ}")
    _require_shown(shown, digest)
    with deciding(conn, name) as cur:
        conflict = next(iter(owners.conflicts(cur, pipeline).values()), None)
        if conflict:
            raise Refusal(conflict.reason, next_command=conflict.next_command)
        # A commit under way holds its batch: it has published before the change, or looks at the table after it.
        decisions.lock_batches(cur, owners.unfinished_of_pipeline(cur, name))
        evolution.lock_tables(cur, name, shown.changes)
        now = evolution.find_differences(cur, pipeline, columns).only(only)
        _require_shown(now, digest)
        evolution.alter(cur, name, now.changes)
        evolution.draw_again(cur, pipeline)
        follow_altered(cur, pipeline)
        statements = tuple(change.statement for change in now.changes)
        detail = {"digest": digest, "statements": list(statements), "columns": [_told(c) for c in now.changes]}
        decisions.record(cur, name, "alter", person, detail)
    adds = any(change.held is None and not change.is_index for change in now.changes)
    return Applied(digest, statements, changed=True, by=person.who, adds=adds)


def _require_shown(proposal: Proposal, digest: str) -> None:
    again = f"lockstep migrate {proposal.pipeline} --propose"
    if proposal.digest != digest:
        raise Refusal(
            f"{proposal.pipeline}: {digest} is not what is proposed now, which is {proposal.digest}: table, definition or "
            "--column is another than it was",
            next_command=again,
        )
    if not proposal.changes:
        raise Refusal(f"{proposal.pipeline}: {digest} holds no safe change to run", next_command=again)


def _refuse_unknown(proposal: Proposal, only: Columns) -> None:
    there = sorted({change.column for change in proposal.changes})
    for column in only:
        if proposal.changes and column not in there:
            raise Refusal(
                f"{proposal.pipeline}: no safe change of a column {column} is proposed; there is: {', '.join(there)}",
                next_command=f"lockstep migrate {proposal.pipeline} --propose",
            )


def _told(change: Change) -> dict[str, str | None]:
    return {"table": change.table, "column": change.column, "from": change.held, "to": change.wanted}
