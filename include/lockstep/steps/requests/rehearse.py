"""Rehearses a batch: the steps of a run, on a ledger of its own, and what they leave behind."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from lockstep.adapters.kafka.window import window_id
from lockstep.adapters.postgres import COMMITTER, OWNER, transaction
from lockstep.adapters.processes import this_owner
from lockstep.core.changes.tried import Reject, Tried, changes_by_key, rows_of_table, verdict_of
from lockstep.core.errors import BadData, BadDefinition, Refusal
from lockstep.core.lake.catalogs import Catalog
from lockstep.core.lake.iceberg import LONGEST_RELATION, Iceberg
from lockstep.core.pipeline.definition import Limits, PerBatch, Upsert
from lockstep.core.pipeline.guarantees import NO_SUITE, Delivered, commit_unit
from lockstep.core.pipeline.targets import WithTotals
from lockstep.core.planning.decisions import Caller, Start
from lockstep.core.records import RESERVED_COLUMNS, TARGET_COORDINATES, UNAVAILABLE
from lockstep.core.states import CommitUnit, Lane
from lockstep.ledger.migrate import migrate_target
from lockstep.ledger.proof import canary
from lockstep.ledger.staging.contents import require_staged
from lockstep.steps.batch.commit import commit, publish_rows
from lockstep.steps.batch.plan import plan
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.targets.proof import rehearsed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.changes.canary import Past
    from lockstep.core.changes.tried import Verdict
    from lockstep.core.engine import Engine
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Target
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.staging import AttemptId
    from lockstep.steps.context import Context

    Staged = list[list[dict[str, Any]]]


ALL_RECORDS = Limits(records=2**40)  # one batch takes all that the log shows


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A batch that was staged and judged, and not published yet.

    `attempt` is None if staging refused the records. `kept` is the verdict as the ledger has it, or None without one.
    """

    folder: PipelineFolder
    records: int
    attempt: AttemptId | None
    kept: dict[str, Any] | None = None
    errors: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """Returns the end of the batch, as far as it came."""
        return verdict_of(self.kept, () if self.is_judged else self.errors)

    @property
    def is_judged(self) -> bool:
        """Returns True if the suite came to a verdict. The rows can then be published, whatever it says."""
        return self.kept is not None


def rehearse(at: Context, engine: Engine, folder: PipelineFolder, say: Callable[[str], None] = lambda _: None) -> Tried:
    """Plans, stages, validates and commits the log's records by the steps of a run. Returns what became of each.

    Raises `Refusal` if the definition cannot run at all. Records or code at fault are the verdict's.
    """
    done = stage_and_judge(at, engine, folder, say)
    empty = Tried(folder.pipeline.name, done.records, "", verdict=done.verdict)
    if done.attempt is None:
        return empty
    targets = done.folder.pipeline.targets
    with transaction(at.conn, OWNER) as cur:
        staged = [rehearsed.staged_for_target(cur, done.attempt, place) for place, _ in enumerate(targets)]
    found = None
    if done.is_judged:
        say("publishing")
        found, errors = _published(at, done.folder, done.attempt, is_accepted=done.verdict.ok)
        empty = replace(empty, verdict=verdict_of(done.kept, errors))
    return _told(empty, folder.pipeline.targets, staged, found)


def stage_and_judge(
    at: Context, engine: Engine, folder: PipelineFolder, say: Callable[[str], None] = lambda _: None
) -> Rehearsed:
    """Plans, stages and validates the log's records as one batch, by the steps of a run.

    Raises `Refusal` if the definition cannot run at all.
    """
    folder = _in_one_batch(at, folder, [engine.columns(place) for place, _ in enumerate(folder.pipeline.targets)])
    caller = Caller(this_owner())
    planned = plan(at.conn, at.broker, folder, caller, datetime.now(UTC))
    if not isinstance(planned.decision, Start) or planned.batch_id is None:
        raise Refusal(f"{folder.pipeline.name}: {getattr(planned.decision, 'reason', 'there is nothing to do')}")
    count = sum(item.offsets.span for item in planned.decision.ranges)
    say("reading")
    try:
        attempt = stage(at, engine, folder, planned.batch_id, caller, whole=True)
    except BadData as error:
        return Rehearsed(folder, count, None, None, (error.message,))
    say("validating")
    errors: tuple[str, ...] = ()
    try:
        validate(at, folder, attempt)
    except BadData as error:
        errors = (error.message,)
    with transaction(at.conn, OWNER) as cur:
        kept = rehearsed.verdict(cur, attempt)
    return Rehearsed(folder, count, attempt, kept, errors)


def rehearse_past(
    at: Context, engine: Engine, folder: PipelineFolder, past: Past, say: Callable[[str], None] = lambda _: None
) -> Rehearsed:
    """Stages and judges a committed batch again, under its own number, on a ledger that is thrown away.

    Raises `Refusal` if the definition cannot run at all.
    """
    with transaction(at.conn, OWNER) as cur:
        canary.number_next(cur, past)
        canary.keep_out(cur, folder.pipeline.name, past, {topic: window_id(topic) for topic in past.logs})
    return stage_and_judge(at, engine, folder, say)


def without_lake(folder: PipelineFolder) -> PipelineFolder:
    """Returns the folder with tables of the database in place of those of a lake. An engine of a rehearsal is made of it."""
    pipeline, targets = folder.pipeline, list(folder.pipeline.targets)
    taken = {target.table for target in targets if not isinstance(target.table, Iceberg)}
    for place, table in enumerate(target.table for target in pipeline.targets):
        if isinstance(table, Iceberg):
            targets[place] = replace(targets[place], table=_free_table(table, taken))
            taken.add(targets[place].table)
    target = tuple(targets) if isinstance(pipeline.target, tuple) else targets[0]
    store = None if isinstance(pipeline.store, Catalog) else pipeline.store
    return replace(folder, pipeline=replace(pipeline, target=target, store=store))


def _free_table(table: Iceberg, taken: Collection[str]) -> str:
    """Returns the table of the database that replaces one of a lake. Another target may have its name."""
    others = (f"lake{number}_{table.namespace}"[:LONGEST_RELATION] for number in count(1))
    each = (f"{schema}.{table.name}" for schema in chain([table.namespace], others))
    return next(name for name in each if name not in taken)


@contextmanager
def published_for_preview(at: Context, folder: PipelineFolder, attempt: AttemptId) -> Iterator[cursor]:
    """Publishes the attempt's rows for the block, in a transaction that is rolled back behind it.

    Raises `BadData` if a target refuses the rows.
    """
    with transaction(at.conn, COMMITTER) as cur:
        publish_rows(cur, folder.pipeline, attempt, Lane.LIVE, require_staged(cur, attempt).rows)
        yield cur
        at.conn.rollback()


def _in_one_batch(at: Context, folder: PipelineFolder, columns: Sequence[Sequence[Column]]) -> PipelineFolder:
    """Makes the targets. Returns the folder as one that reads the whole log in one batch, into the ledger's database.

    Start, limits and guarantee decide when records are read, and in which transaction they move. They never change what
    becomes of a record. Results that live in another store, or in a lake, get a table of the columns that are brought there.
    """
    pipeline = folder.pipeline
    if folder.expectations is not None and commit_unit(pipeline.guarantee) == CommitUnit.STREAM:
        raise BadDefinition(f"{pipeline.name}: expectations.json: {NO_SUITE}")
    here = without_lake(folder).pipeline
    here = replace(here, start="earliest", limits=ALL_RECORDS, guarantee=PerBatch(), store=None)
    is_delivered = isinstance(pipeline.guarantee, Delivered)
    made = [place for place, each in enumerate(pipeline.targets) if is_delivered or isinstance(each.table, Iceberg)]
    ddl = folder.target_sql
    if made:
        with transaction(at.conn, None) as cur:
            for place in made:
                rehearsed.make_schema(cur, here.targets[place])
            statements = [rehearsed.table_of(cur, here.targets[place], columns[place]) for place in made]
        ddl = ";\n".join(statements if is_delivered else [*statements, ddl or ""])
    folder = replace(folder, pipeline=here, target_sql=ddl)
    migrate_target(at.conn, folder, columns=columns)
    return folder


def _published(
    at: Context, folder: PipelineFolder, attempt: AttemptId, *, is_accepted: bool
) -> tuple[Staged | None, list[str]]:
    """Returns each target's rows behind the batch, or None with the error if a target refuses the rows.

    A batch that is refused by its verdict is published all the same, and rolled back.
    """
    targets = folder.pipeline.targets
    try:
        if is_accepted:
            commit(at, folder, attempt)
            with transaction(at.conn, COMMITTER) as cur:
                return [rehearsed.in_target(cur, target) for target in targets], []
        with published_for_preview(at, folder, attempt) as cur:
            return [rehearsed.in_target(cur, target) for target in targets], []
    except BadData as error:
        return None, [error.message]


def _told(empty: Tried, targets: Sequence[Target], staged: Staged, found: Staged | None) -> Tried:
    """Puts together what was staged and what the targets hold."""
    told = empty
    seen = {row["_offset"] for rows in staged for row in rows}
    told.filtered.extend(line for line in range(1, empty.records + 1) if line not in seen)
    for row in staged[0]:
        if row["_reason"] is not None:
            told.rejects.append(Reject(row["_offset"], row["_reason"], row["_key"], row["_value"]))
    for place, target in enumerate(targets):
        its = [row for row in staged[place] if row["_reason"] is None]
        rows = [_decoded(row) for row in its if not row["_deleted"]] if found is None else found[place]
        told.rows.extend(rows_of_table(target.table, rows, totals=isinstance(target, WithTotals)))
        if isinstance(target, Upsert):
            kept = None if found is None else frozenset((row["_offset"], row["_ordinal"]) for row in rows)
            deletions, replaced = changes_by_key(target, its, kept)
            told.deletions.extend(deletions)
            told.superseded.extend(replaced)
    return told


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a staged row with its coordinates, without other staged columns."""
    reserved = {*(name for name, _ in RESERVED_COLUMNS), UNAVAILABLE} - set(TARGET_COORDINATES)
    return {name: value for name, value in row.items() if name not in reserved}
