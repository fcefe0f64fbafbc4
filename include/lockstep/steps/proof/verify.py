"""Proves the promises again, from the ledger, from the target, and from Kafka itself."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.topics import read_topics
from lockstep.adapters.postgres import READER, snapshot, transaction
from lockstep.core.errors import Refusal
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.definition import History
from lockstep.core.pipeline.guarantees import Delivered
from lockstep.core.pipeline.targets import WithTotals
from lockstep.core.proof.verification import PromiseCheck, Wrong
from lockstep.ledger.admin.catalog import deviating
from lockstep.ledger.batch.archived import with_archive
from lockstep.ledger.batch.one_log import shared_until
from lockstep.ledger.feed.verify import feed_checks
from lockstep.ledger.proof import verify as ledger
from lockstep.ledger.proof.chain import chain_check
from lockstep.ledger.proof.definitions import definitions_check
from lockstep.ledger.proof.given_up import given_up_check
from lockstep.ledger.proof.memory import memory_checks
from lockstep.ledger.proof.row_hashes import contents_and_hash_checks
from lockstep.ledger.proof.since import batches_since
from lockstep.ledger.proof.verify_contents import contents_checks, values_left_out
from lockstep.ledger.proof.verify_erased import erased_checks
from lockstep.steps.batch.same_log import require_still_same
from lockstep.steps.inspect.committed import changed_since_commit
from lockstep.steps.lake.copy_tables import copy_tables
from lockstep.steps.proof.verify_given_up import begin_check, lost_check
from lockstep.steps.proof.verify_log import Log, decoded_alike
from lockstep.steps.proof.verify_moves import look_at_moves, move_checks, stream_left_out
from lockstep.steps.proof.verify_owners import new_owners, of_owners
from lockstep.steps.proof.verify_results import of_results
from lockstep.steps.proof.verify_topic import look_at_topics, topic_checks
from lockstep.steps.rerun.by_log import checks_by_log
from lockstep.steps.rerun.remade import open_remade, run_again
from lockstep.targets.proof.by_ledger import checks_by_ledger
from lockstep.targets.rows import found_by_index
from lockstep.targets.table.fit import types_of_target

if TYPE_CHECKING:
    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.bounds import Bound
    from lockstep.core.proof.verification import BatchesSince
    from lockstep.core.registry import Registry
    from lockstep.steps.rerun.remade import Rerunner
    from lockstep.targets.stores.delivery import Results


def verify(  # noqa: PLR0913 - each is a system, or says how far to look
    conn: connection,
    broker: Broker,
    folder: PipelineFolder,
    *,
    deep: bool,
    results: Results | None = None,
    registry: Registry | None = None,
    since: BatchesSince | None = None,
    rerunner: Rerunner | None = None,
) -> list[PromiseCheck]:
    """Returns every check with its outcome. With a `since`, only rows of batches that have committed since are looked at.

    `deep` reads the covered offsets again with a consumer that shares nothing with Spark. `results` is the place of
    results that move apart from the offsets. `rerunner` runs a transform again, whose rows are not compared without it.
    Raises `Refusal` for a definition that is not the ledger's, and for a
    target that is not there.
    """
    view = read_topics(broker, folder.pipeline) if deep else None
    pipeline = folder.pipeline
    topics = look_at_topics(conn, broker, pipeline, deep=deep and since is None)
    moves = look_at_moves(conn, broker, pipeline.name, view) if view else None
    followed = move_checks(broker, moves) if moves and since is None else []
    with snapshot(conn, READER) as cur:
        view = with_archive(cur, pipeline, moves.view) if moves else None
        pipeline, in_lake = copy_tables(cur, pipeline)
        _require_definition(cur, pipeline, elsewhere=results is not None)
        checks = _of_database(cur, pipeline, since, elsewhere=results is not None) + in_lake
        checks += topic_checks(cur, broker, pipeline, topics, lambda: registry)
        if results:
            checks += of_results(cur, pipeline, results, deep=deep, since=since)
        if view is None or moves is None:
            return checks if results else checks + values_left_out(pipeline)
        checks += followed
        alike = decoded_alike(folder, ledger.committed_definitions(cur, pipeline.name))
        until = shared_until(cur, pipeline.name)
        ever = ledger.streams_ever(cur, pipeline.name)
        here = [s for s in ever if (there := view.log_of(s.topic)) and s.topic_id == there[2]]
        streams = [s for s in here if until[s.stream_id] is None]
        checks += [stream_left_out(s, why) for s in ever if (why := moves.why_not(s))]
        checks += [
            stream_left_out(s, f"the log lost its end below {s.position}, and a newer stream of it begins at {begin}")
            for s in here
            if (begin := until[s.stream_id]) is not None
        ]
        checks += [lost_check(cur, view, streams), begin_check(cur, broker, pipeline, view, streams)]
        with ExitStack() as stack:
            remade = None
            if folder.transforms:
                remade = stack.enter_context(open_remade(folder, None if results else rerunner))
                run_again(cur, remade, view, streams, alike, since)
            logs = [
                Log(conn, cur, broker, folder, one, view, alike, registry, results, since, remade, place)
                for place, one in enumerate(pipeline.each())
            ]
            checks += checks_by_log(pipeline, logs, streams, ever)
        require_still_same(broker, view, (s.topic for s in streams), f"lockstep verify {pipeline.name} --deep")
        return checks


def find_since(conn: connection, name: str, bound: Bound) -> BatchesSince:
    """Returns the batches of a pipeline that have committed since a time, or since a batch has."""
    with transaction(conn, READER) as cur:
        return batches_since(cur, name, bound)


def verify_of_ledger(conn: connection, pipeline: Pipeline, since: BatchesSince | None = None) -> list[PromiseCheck]:
    """Returns the checks that need no folder, for a pipeline by the ledger's own definition.

    Does not compare rows in another store, nor those of a table that is gone or has another owner.
    """
    with snapshot(conn, READER) as cur:
        own, left_out = [], []
        for one in pipeline.each():
            why = _not_compared(cur, one)
            if why:
                left_out.append(
                    PromiseCheck(f"rows of {one.first.table}", ok=True, detail="not compared", left_out=why)
                )
            else:
                own.append(one.first)
        if own:
            ours = replace(pipeline, target=tuple(own) if len(own) > 1 else own[0])
            return _of_database(cur, ours, since) + left_out
        return [*_of_ledger_alone(cur, pipeline), chain_check(cur, pipeline.name), *left_out]


def _not_compared(cur: cursor, pipeline: Pipeline) -> str:
    """Returns the reason why the rows of a pipeline's one target cannot be compared, or an empty text."""
    table = pipeline.first.table
    if isinstance(pipeline.guarantee, Delivered) or pipeline.store is not None:
        return f"{table} is in another store, and there is no folder here"
    if isinstance(table, Iceberg):
        return f"{table} is in the lake: lockstep verify {pipeline.name} reads it"
    if not types_of_target(cur, table):
        return f"{table} is not there any more"
    return next((f"{table} was given free, and belongs to {owner}" for owner in new_owners(cur, pipeline)), "")


def _of_database(
    cur: cursor, pipeline: Pipeline, since: BatchesSince | None = None, *, elsewhere: bool = False
) -> list[PromiseCheck]:
    """Returns the checks of the ledger with itself, and of the tables in its database with the ledger."""
    if since:
        return _of_batches(cur, pipeline, since, elsewhere=elsewhere)
    # These checks read whole tables. After a wrong estimate, a nested loop takes hours.
    cur.execute("set local enable_nestloop = off")
    checks = [
        _guards(cur),
        *ledger.ledger_checks(cur, pipeline),
        given_up_check(cur, pipeline.name),
        *memory_checks(cur, pipeline.name),
        *contents_and_hash_checks(cur, pipeline),
        definitions_check(cur, pipeline.name),
        chain_check(cur, pipeline.name),
        *(() if elsewhere else erased_checks(cur, pipeline)),
    ]
    for target in pipeline.targets:
        found = feed_checks(cur, pipeline.name, target)
        found = [*checks_by_ledger(cur, pipeline.name, target), *found]
        checks += [replace(check, name=ledger.check_name(pipeline, target, check.name)) for check in found]
    checks += _of_owners(cur, pipeline)
    cur.execute("set local enable_nestloop = on")
    return checks


def _of_batches(cur: cursor, pipeline: Pipeline, since: BatchesSince, *, elsewhere: bool) -> list[PromiseCheck]:
    """Returns the checks of the whole ledger with itself, and of some batches' rows with the ledger."""
    checks = [*_of_ledger_alone(cur, pipeline), chain_check(cur, pipeline.name)]
    with found_by_index(cur):
        if not isinstance(pipeline.guarantee, Delivered):
            checks += ledger.checks_since(cur, pipeline, since)
        checks += contents_checks(cur, pipeline, since)
    checks += _of_owners(cur, pipeline)
    checks.append(PromiseCheck("earlier batches", ok=True, detail="not looked at", left_out=since.left_out))
    whole = [] if elsewhere else ["rows of erased keys", "the SHA-256 of rows"]
    whole += ["totals of keys"] if any(isinstance(target, WithTotals) for target in pipeline.targets) else []
    whole += ["versions of keys"] if any(isinstance(target, History) for target in pipeline.targets) else []
    whole += ["feeds, and topics that they are sent to"] if any(target.feed for target in pipeline.targets) else []
    if whole:
        named = "; ".join(whole)
        checks.append(PromiseCheck("what only a whole table shows", ok=True, detail="not looked at", left_out=named))
    return checks


def _of_ledger_alone(cur: cursor, pipeline: Pipeline) -> list[PromiseCheck]:
    its = [given_up_check(cur, pipeline.name), *memory_checks(cur, pipeline.name)]
    its.append(definitions_check(cur, pipeline.name))
    return [_guards(cur), *ledger.consistency_checks(cur, pipeline), *its]


def _of_owners(cur: cursor, pipeline: Pipeline) -> list[PromiseCheck]:
    return [
        replace(check, name=ledger.check_name(pipeline, one.first, check.name))
        for one, check in of_owners(cur, pipeline)
    ]


def _guards(cur: cursor) -> PromiseCheck:
    """Checks that triggers, functions, constraints, owners and grants of the ledger are as the migrations make them."""
    wrong = Wrong()
    for each in deviating(cur):
        if not each.is_harmless:
            wrong.add(f"{each}; next: {each.remedy}")
    return wrong.check("the ledger's guards are as migrated")


def _require_definition(cur: cursor, pipeline: Pipeline, *, elsewhere: bool) -> None:
    """Refuses a definition that differs from the committed ones, and a target that does not exist."""
    changed = changed_since_commit(cur, pipeline)
    if changed:
        raise Refusal(changed.reason, next_command=changed.next_command)
    for target in pipeline.targets if not elsewhere else ():
        if not types_of_target(cur, target.table):
            raise Refusal(
                f"{pipeline.name}: target {target.table} is not there", next_command=f"lockstep migrate {pipeline.name}"
            )
