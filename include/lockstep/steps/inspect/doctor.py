"""Gathers facts about this machine, Postgres, Kafka and the schema registry. The core judges them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, connect_as_is, transaction
from lockstep.core.errors import Refusal
from lockstep.core.health.catalog import catalog_findings
from lockstep.core.health.database_findings import database_findings
from lockstep.core.health.evolution_findings import evolution_findings, feed_findings, index_findings
from lockstep.core.health.findings import NOT_THERE, Check, DoctorReport, Finding, Judged, Severity, warning
from lockstep.core.health.ledger_findings import chain_findings, ledger_findings, target_findings
from lockstep.core.health.machine_findings import limits_findings, machine_findings, pace_findings
from lockstep.core.health.ownership import owner_findings
from lockstep.core.health.replication_findings import replication_findings
from lockstep.core.health.session_findings import session_findings
from lockstep.core.pipeline.names import topic_words
from lockstep.core.windows.window_findings import window_findings
from lockstep.ledger.admin.catalog import deviating
from lockstep.ledger.admin.facts import Flow, database_facts, flow, ledger_facts, target_facts
from lockstep.ledger.admin.replication import replication_facts
from lockstep.ledger.changes.owners import conflicts
from lockstep.ledger.feed.make import misses
from lockstep.ledger.migrate import known_migrations
from lockstep.ledger.proof.chain import stuck
from lockstep.ledger.views import reading
from lockstep.steps.changes.evolve import propose, propose_indexes
from lockstep.steps.inspect.look_at_topics import away_finding, of_topics
from lockstep.steps.inspect.registry import registry_findings
from lockstep.steps.lake.look import look_at_lake
from lockstep.steps.windows.look import facts_of_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.facts import SurveyedBroker
    from lockstep.core.health.machine_findings import MachineFacts
    from lockstep.core.health.ownership import Conflict
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.registry import Registry

TASKS = 8  # for a cluster, whose cores are not visible from here


@dataclass(frozen=True, slots=True)
class Places:
    """The ways to find Postgres, Kafka and the registry. Each may raise `Refusal`, which then becomes a finding."""

    dsn: Callable[[], str]
    broker: Callable[[], SurveyedBroker]
    registry: Callable[[], Registry | None] = lambda: None


@dataclass(slots=True)
class _OfLedger:
    """The ledger's facts about one pipeline. They are empty if the ledger did not answer."""

    streams: list[Any] = field(default_factory=list)
    flow: Flow = field(default_factory=lambda: Flow(None, None))
    conflicts: Sequence[Conflict] = ()


def doctor(
    pipelines: Sequence[Pipeline],
    broken: Sequence[Refusal],
    places: Places,
    machine: MachineFacts,
    now: datetime,
    *,
    named: bool = True,
    transformed: Collection[str] = (),
) -> DoctorReport:
    """Examines everything that can be reached.

    A system that is away is one finding, and the others are still examined. Without `named`, a pipeline that was
    never planned and has no table is only a warning: it was never begun. Tables of `transformed` pipelines are not
    compared with their definitions, because only Spark knows the columns.
    """
    judged: Judged = [
        *machine_findings(machine),
        *(away_finding(Check.DEFINITION, "pipelines", each) for each in broken),
    ]
    told: dict[str, _OfLedger] = {}
    judged += _of_postgres(pipelines, places, machine, told, transformed)
    for pipeline in pipelines:
        ours = told.get(pipeline.name, _OfLedger())
        judged += limits_findings(pipeline, machine, ours.flow.bytes_per_record)
        judged += pace_findings(pipeline, machine, ours.flow.past, len(ours.streams))
    judged += _of_kafka(pipelines, places, machine, told, now)
    judged += registry_findings([each for each in pipelines if named or _has_begun(told, each)], places.registry)
    return DoctorReport.of(judged if named else _without_missing(pipelines, told, judged))


def _without_missing(pipelines: Sequence[Pipeline], told: dict[str, _OfLedger], judged: Judged) -> Judged:
    """Makes one warning of all that is missing for each pipeline that was never planned and has no table here."""
    why = "it can be run once topic and tables are there; until then it is only a definition"
    missing = {finding.subject for finding in judged if finding and _is_missing(finding)}
    tables = {each.name: {f"table {one.table}" for one in each.targets if not each.store} for each in pipelines}
    never, needed, warnings = set[str](), set[str](), []
    for pipeline in pipelines:
        name, topic = pipeline.name, f"topic {topic_words(pipeline.topic)}"
        if name not in told or told[name].streams or not tables[name] <= missing:
            needed |= {topic, *tables[name]}
        elif absent := sorted((tables[name] | {topic}) & missing):
            never |= set(absent)
            found = f"not begun yet: {' and '.join(absent)} {'are' if len(absent) > 1 else 'is'} not there"
            remedy = f"lockstep {'migrate' if tables[name] else 'dev topic'} {name}"
            warnings.append(warning(Check.DEFINITION, f"pipeline {name}", found, why, remedy))
    rest = [each for each in judged if not (each and _is_missing(each) and each.subject in never - needed)]
    return [*rest, *warnings]


def _has_begun(told: dict[str, _OfLedger], pipeline: Pipeline) -> bool:
    return bool(told.get(pipeline.name, _OfLedger()).streams)


def _is_missing(finding: Finding) -> bool:
    return finding.severity is Severity.PROBLEM and (finding.check is Check.TOPIC or finding.found == NOT_THERE)


def _of_postgres(
    pipelines: Sequence[Pipeline],
    places: Places,
    machine: MachineFacts,
    told: dict[str, _OfLedger],
    transformed: Collection[str],
) -> Judged:
    judged: Judged = []
    try:
        dsn = places.dsn()
        conn = connect_as_is(dsn, name="lockstep doctor")
        try:
            facts = database_facts(conn, dsn)
            judged += [*database_findings(facts, machine.cores or TASKS), *session_findings(facts)]
            judged += replication_findings(replication_facts(conn, dsn))
            ledger = ledger_facts(conn)
            migrations = {migration.version: migration.checksum for migration in known_migrations()}
            judged += ledger_findings(ledger, migrations)
            if ledger.applied == migrations:
                with transaction(conn, None) as cur:
                    judged += catalog_findings(deviating(cur), ledger.named)
            # targets in another store are checked before each read
            for pipeline in (one for several in pipelines if several.store is None for one in several.each()):
                with transaction(conn, None) as cur:
                    judged += target_findings(pipeline.name, target_facts(cur, pipeline))
            if ledger.lets_read(READER) and set(migrations) <= set(ledger.applied or ()):
                told |= {pipeline.name: _of_ledger(conn, pipeline) for pipeline in pipelines}
                for pipeline in pipelines:
                    judged += chain_findings(pipeline.name, _stuck(conn, pipeline))
                    judged += owner_findings(pipeline.name, told[pipeline.name].conflicts)
                    judged += feed_findings(pipeline.name, _of_feeds(conn, pipeline))
                    judged += window_findings(pipeline.name, facts_of_time(conn, pipeline))
                    judged += look_at_lake(conn, pipeline)
                    judged += _of_columns(conn, pipeline, is_transformed=pipeline.name in transformed)
        finally:
            conn.close()
    except Refusal as refusal:
        judged.append(away_finding(Check.POSTGRES, "database", refusal))
        return judged
    return [*judged, None]


def _of_kafka(
    pipelines: Sequence[Pipeline], places: Places, machine: MachineFacts, told: dict[str, _OfLedger], now: datetime
) -> Judged:
    judged: Judged = []
    try:
        broker = places.broker()
        broker.answers()
        for pipeline in pipelines:
            ours = told.get(pipeline.name, _OfLedger())
            judged += of_topics(broker, pipeline, machine.cores, ours.streams, ours.flow.bytes_per_second, now)
    except Refusal as refusal:
        judged.append(away_finding(Check.KAFKA, "broker", refusal))
        return judged
    return [*judged, None]


def _of_columns(conn: connection, pipeline: Pipeline, *, is_transformed: bool) -> Judged:
    if is_transformed:  # Spark alone knows its columns
        return [] if pipeline.store else index_findings(pipeline.name, propose_indexes(conn, pipeline))
    try:
        return evolution_findings(propose(conn, pipeline, [pipeline.columns for _ in pipeline.targets]))
    except Refusal:  # a missing table is a separate finding, and another store compares before each read
        return []


def _stuck(conn: connection, pipeline: Pipeline) -> str:
    with transaction(conn, READER) as cur:
        found = stuck(cur, pipeline.name)
    return str(found) if found.count else ""


def _of_feeds(conn: connection, pipeline: Pipeline) -> dict[str, str | None]:
    with transaction(conn, READER) as cur:
        return misses(cur, pipeline)


def _of_ledger(conn: connection, pipeline: Pipeline) -> _OfLedger:
    with transaction(conn, READER) as cur:
        found = tuple(conflicts(cur, pipeline).values())
        return _OfLedger(reading.stream_progress(cur, pipeline.name), flow(cur, pipeline.name), found)
