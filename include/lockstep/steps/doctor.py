"""Gathers facts about this machine, Postgres and Kafka. The core judges them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, connect_as_is, transaction
from lockstep.core.broker_findings import broker_findings
from lockstep.core.catalog import catalog_findings
from lockstep.core.database_findings import database_findings
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.evolution_findings import evolution_findings
from lockstep.core.findings import Check, Finding, Judged, Report, Severity, problem, warning
from lockstep.core.ledger_findings import ledger_findings, target_findings
from lockstep.core.log_findings import LogFacts, log_findings
from lockstep.core.machine_findings import limits_findings, machine_findings
from lockstep.core.ownership import owner_findings
from lockstep.core.replication_findings import replication_findings
from lockstep.core.session_findings import session_findings
from lockstep.ledger import reading
from lockstep.ledger.catalog import deviating
from lockstep.ledger.facts import Flow, database_facts, flow, ledger_facts, target_facts
from lockstep.ledger.migrate import known
from lockstep.ledger.owners import conflicts
from lockstep.ledger.replication import replication_facts
from lockstep.steps.evolve import propose
from lockstep.steps.warn import bounds_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import datetime

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka_facts import SurveyedBroker
    from lockstep.core.definition import Pipeline
    from lockstep.core.ledger_findings import TargetFacts
    from lockstep.core.machine_findings import MachineFacts
    from lockstep.core.ownership import Conflict

WHY = {
    Check.POSTGRES: "the ledger and the targets are there: without it nothing is planned, and nothing commits",
    Check.KAFKA: "the log is there: without it nothing can be planned or read",
    Check.TOPIC: "the pipeline has nothing to read",
    Check.DEFINITION: "a pipeline that does not load does not run, and what it needs cannot be looked at",
}
TASKS = 8  # for a cluster, whose cores are not visible from here


@dataclass(frozen=True, slots=True)
class Places:
    """The ways to find Postgres and Kafka. Each may raise `Refusal`, which then becomes a finding."""

    dsn: Callable[[], str]
    broker: Callable[[], SurveyedBroker]


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
) -> Report:
    """Examines everything that can be reached.

    A system that is away is one finding, and the others are still examined. Without `named`, a pipeline that has
    neither topic nor table is only a warning, because nobody has begun with it. Tables of `transformed` pipelines are
    not compared with their definitions, because only Spark knows the columns.
    """
    judged: Judged = [*machine_findings(machine), *(_away(Check.DEFINITION, "pipelines", each) for each in broken)]
    told: dict[str, _OfLedger] = {}
    judged += _of_postgres(pipelines, places, machine, told, transformed)
    for pipeline in pipelines:
        judged += limits_findings(pipeline, machine, told.get(pipeline.name, _OfLedger()).flow.bytes_per_record)
    judged += _of_kafka(pipelines, places, machine, told, now)
    return Report.of(judged if named else _begun(pipelines, judged))


def _begun(pipelines: Sequence[Pipeline], judged: Judged) -> Judged:
    missing = {
        (finding.check, finding.subject) for finding in judged if finding and finding.severity is Severity.PROBLEM
    }
    rest, why = judged, "it can be run once both are there; until then it is only a definition"
    for pipeline in pipelines:
        parts = {(Check.TOPIC, f"topic {pipeline.topic}"), (Check.TARGET, f"table {pipeline.first.table}")}
        if parts <= missing:
            rest = [finding for finding in rest if finding is None or (finding.check, finding.subject) not in parts]
            found, remedy = "neither its topic nor its table is there", f"lockstep migrate {pipeline.name}"
            rest.append(warning(Check.DEFINITION, f"pipeline {pipeline.name}", found, why, remedy))
    return rest


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
            migrations = {migration.version: migration.checksum for migration in known()}
            judged += ledger_findings(ledger, migrations)
            if ledger.applied == migrations:
                with transaction(conn, None) as cur:
                    judged += catalog_findings(deviating(cur), ledger.named)
            # targets in another store are checked before each read
            for pipeline in (one for several in pipelines if several.store is None for one in several.each()):
                judged += target_findings(pipeline.name, _target(conn, pipeline))
            if ledger.lets_read(READER) and set(migrations) <= set(ledger.applied or ()):
                told |= {pipeline.name: _of_ledger(conn, pipeline) for pipeline in pipelines}
                for pipeline in pipelines:
                    judged += owner_findings(pipeline.name, told[pipeline.name].conflicts)
                    if pipeline.name not in transformed:
                        judged += _of_columns(conn, pipeline)
        finally:
            conn.close()
    except Refusal as refusal:
        judged.append(_away(Check.POSTGRES, "database", refusal))
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
            judged += _of_topic(broker, pipeline, machine, told.get(pipeline.name, _OfLedger()), now)
    except Refusal as refusal:
        judged.append(_away(Check.KAFKA, "broker", refusal))
        return judged
    return [*judged, None]


def _of_topic(
    broker: SurveyedBroker, pipeline: Pipeline, machine: MachineFacts, ledger: _OfLedger, now: datetime
) -> Judged:
    try:
        topic = broker.topic_facts(pipeline.topic)
    except Unreachable:
        raise
    except Refusal as refusal:
        return [_away(Check.TOPIC, f"topic {pipeline.topic}", refusal)]
    waiting = broker.first_times(pipeline.topic, _uncommitted(broker, pipeline, ledger))
    log = LogFacts(waiting, broker.open_transactions(pipeline.topic), ledger.flow.bytes_per_second)
    return [*broker_findings(pipeline, topic, machine.cores), *log_findings(pipeline, topic, log, now)]


def _uncommitted(broker: SurveyedBroker, pipeline: Pipeline, ledger: _OfLedger) -> dict[int, int]:
    """Returns, per partition in which records wait, the offset at which the pipeline would continue.

    For a pipeline that begins at the log's start and has not begun, this is the log's start.
    """
    view = broker.view(pipeline.topic)
    if not ledger.streams:
        starts = {p: b.log_start for p, b in view.bounds.items() if b.log_start < b.stable_end}
        return starts if pipeline.start == "earliest" else {}
    found: dict[int, int] = {}
    for stream in ledger.streams:
        bounds = bounds_of(stream, view)
        if bounds and stream.position < bounds.stable_end:
            found[stream.partition] = max(stream.position, bounds.log_start)
    return found


def _target(conn: connection, pipeline: Pipeline) -> TargetFacts:
    with transaction(conn, None) as cur:
        return target_facts(cur, pipeline)


def _of_columns(conn: connection, pipeline: Pipeline) -> Judged:
    try:
        return evolution_findings(propose(conn, pipeline, [pipeline.columns for _ in pipeline.targets]))
    except Refusal:  # a missing table is a separate finding, and another store compares before each read
        return []


def _of_ledger(conn: connection, pipeline: Pipeline) -> _OfLedger:
    with transaction(conn, READER) as cur:
        found = tuple(conflicts(cur, pipeline).values())
        return _OfLedger(reading.progress(cur, pipeline.name), flow(cur, pipeline.name), found)


def _away(check: Check, subject: str, refusal: Refusal) -> Finding:
    """Turns a refusal into a finding: its own words, which repeat no secret, on one line."""
    remedy = refusal.next_command or "lockstep dev status"
    return problem(check, subject, " ".join(refusal.message.split()), WHY[check], " ".join(remedy.split()))
