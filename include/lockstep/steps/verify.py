"""Proves the promises again, from the ledger, from the target, and from Kafka itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, snapshot
from lockstep.core.definition import Accumulate, Append, Upsert
from lockstep.core.errors import Refusal
from lockstep.core.planning import changed_definition
from lockstep.core.verification import Check, Wrong
from lockstep.ledger import verify as ledger
from lockstep.ledger.catalog import deviating
from lockstep.ledger.chain import chain_check
from lockstep.ledger.one_log import shared_until
from lockstep.ledger.plan import last_documents
from lockstep.ledger.verify_contents import contents_checks
from lockstep.ledger.verify_erased import erased_checks
from lockstep.steps.verify_append import appended
from lockstep.steps.verify_log import Log
from lockstep.steps.verify_owners import of_owners
from lockstep.steps.verify_results import of_results
from lockstep.steps.verify_totals import recomputed
from lockstep.steps.verify_upsert import upserted
from lockstep.targets import accumulated
from lockstep.targets.fit import columns_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from psycopg2.extensions import connection, cursor

    from lockstep.adapters.kafka import Broker
    from lockstep.core.definition import Pipeline
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.registry import Registry
    from lockstep.targets.delivery import Results

DECODING = ("format", "envelope", "transform", "decode")  # the parts of a definition that turn bytes into values


def verify(
    conn: connection,
    broker: Broker,
    folder: PipelineFolder,
    *,
    deep: bool,
    results: Results | None = None,
    registry: Registry | None = None,
) -> list[Check]:
    """Returns every check with its outcome.

    `deep` reads the covered offsets again with a consumer that shares nothing with Spark. `results` is the place of
    results that move apart from the offsets. Raises `Refusal` for a definition that is not the ledger's, and for a
    target that is not there.
    """
    pipeline = folder.pipeline
    view = broker.view(pipeline.topic) if deep else None
    with snapshot(conn, READER) as cur:
        _require_definition(cur, pipeline, elsewhere=results is not None)
        # These checks read whole tables. After a wrong estimate, a nested loop takes hours.
        cur.execute("set local enable_nestloop = off")
        checks = [
            _guards(cur),
            *ledger.ledger_checks(cur, pipeline),
            *contents_checks(cur, pipeline),
            chain_check(cur, pipeline.name),
            *(erased_checks(cur, pipeline) if results is None else ()),
        ]
        for target in pipeline.targets:
            if isinstance(target, Accumulate):
                found = accumulated.checks(cur, pipeline.name, target)
                checks += [replace(check, name=ledger.name_of(pipeline, target, check.name)) for check in found]
        for one, check in of_owners(cur, pipeline):
            checks.append(replace(check, name=ledger.name_of(pipeline, one.first, check.name)))
        cur.execute("set local enable_nestloop = on")
        if results:
            checks += of_results(cur, pipeline, results, deep=deep)
        if view is None:
            return checks
        alike = _alike(folder, ledger.definitions(cur, pipeline.name))
        until = shared_until(cur, pipeline.name)
        here = [s for s in ledger.streams(cur, pipeline.name) if s.topic_id == view.topic_id]
        streams = [s for s in here if until[s.stream_id] is None]
        checks += [_beyond(s, begin) for s in here if (begin := until[s.stream_id]) is not None]
        for one in pipeline.each():
            log = Log(conn, cur, broker, folder, one, view, alike, registry, results)
            checks += [replace(c, name=ledger.name_of(pipeline, one.first, c.name)) for c in _of_log(log, streams)]
        return checks


def _guards(cur: cursor) -> Check:
    """Checks that triggers, functions, constraints, owners and grants of the ledger are as the migrations make them."""
    wrong = Wrong()
    for each in deviating(cur):
        if not each.is_harmless:
            wrong.add(f"{each}; next: {each.remedy}")
    return Check("the ledger's guards are as migrated", not wrong.count, str(wrong) if wrong.count else "")


def _beyond(stream: Any, until: int) -> Check:
    """Returns a check that compares nothing: an older incarnation's log, in which other records may stand."""
    left_out = f"the log lost its end below {stream.position}, and a newer stream of it begins at {until}"
    name = f"{stream.topic}-{stream.partition}: stream {stream.stream_id}"
    return Check(name, ok=True, detail="not compared", left_out=left_out)


def _of_log(log: Log, streams: Sequence[Any]) -> list[Check]:
    match log.pipeline.first:
        case Append():
            return appended(log, streams)
        case Upsert() as target:
            deletes = target in log.folder.pipeline.tombstone_targets
            return upserted(log, target, streams, takes_tombstones=deletes)
        case Accumulate() as target:
            return recomputed(log, target, streams)


def _require_definition(cur: cursor, pipeline: Pipeline, *, elsewhere: bool) -> None:
    """Refuses a definition that differs from the committed ones, and a target that does not exist."""
    changed = changed_definition(pipeline, last_documents(cur, pipeline.name, None))
    if changed:
        raise Refusal(changed.reason, next_command=changed.next_command)
    for target in pipeline.targets if not elsewhere else ():
        if not columns_of(cur, target.table):
            raise Refusal(
                f"{pipeline.name}: target {target.table} is not there", next_command=f"lockstep migrate {pipeline.name}"
            )


def _alike(folder: PipelineFolder, definitions: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """Returns the definitions that decode a record as today's does."""
    today = json.loads(json.dumps(folder.document()))
    return frozenset(
        name
        for name, document in definitions.items()
        if all(document.get(part) == today.get(part) for part in DECODING)
    )
