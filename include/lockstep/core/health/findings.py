"""Defines findings about the surroundings, each with reason and remedy, and counts the checks that found nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Severity(StrEnum):
    """The severity of a finding.

    A `problem` endangers a promise or the pipeline. A `warning` asks a person to know and decide.
    """

    PROBLEM = "problem"
    WARNING = "warning"


class Check(StrEnum):
    """The names of all checks. A check of a setting has the setting's name."""

    KAFKA = "kafka"
    TOPIC = "topic"
    REPLICATION = "replication.factor"
    IN_SYNC = "min.insync.replicas"
    UNCLEAN = "unclean.leader.election.enable"
    CLEANUP = "cleanup.policy"
    RETENTION_MS = "retention.ms"
    RETENTION_BYTES = "retention.bytes"
    HEADROOM = "headroom"
    TIMESTAMPS = "message.timestamp.type"
    TRANSACTION = "open transaction"
    PARTITIONS = "partitions"
    MESSAGE_BYTES = "max.message.bytes"
    OFFSETS_RETENTION = "offsets.retention.minutes"
    REGISTRY = "schema registry"
    POSTGRES = "postgres"
    VERSION = "server_version"
    FSYNC = "fsync"
    FULL_PAGES = "full_page_writes"
    SYNCHRONOUS = "synchronous_commit"
    ISOLATION = "default_transaction_isolation"
    IDLE_TIMEOUT = "idle_in_transaction_session_timeout"
    IDLE = "idle in transaction"
    REPLICATION_ROLE = "session_replication_role"
    STATEMENT_TIMEOUT = "statement_timeout"
    TRANSACTION_TIMEOUT = "transaction_timeout"
    SESSION_TIMEOUT = "idle_session_timeout"
    CONNECTIONS = "max_connections"
    CHECKSUMS = "data_checksums"
    STANDBY = "standby"
    STANDBYS = "synchronous_standby_names"
    SESSION = "target_session_attrs"
    POOLER = "pooler"
    ROLES = "roles"
    MEMBERSHIP = "membership"
    GRANTS = "grants"
    HISTORY = "history"
    PRIVILEGES = "privileges"
    CATALOG = "catalog"
    MIGRATIONS = "migrations"
    CHAIN = "chain"
    TARGET = "target"
    OWNER = "owner"
    LAKE = "lake table"
    LAKE_METRICS = "lake metrics"
    LAKE_FILES = "lake files"
    LAKE_METADATA = "lake metadata"
    LAKE_SNAPSHOTS = "lake snapshots"
    LAKE_DELETES = "lake deletes"
    LAKE_ORPHANS = "lake orphans"
    DEFINITION = "definition"
    SCHEDULE = "schedule"
    LIMITS = "limits"
    PYSPARK = "pyspark"
    EXPECTATIONS = "great-expectations"
    CONFLUENT = "confluent-kafka"
    AIRFLOW = "apache-airflow"
    JAVA = "java"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault of the surroundings: what was found, why it matters, and the exact remedy."""

    severity: Severity
    check: Check
    subject: str
    found: str
    why: str
    remedy: str

    def __post_init__(self) -> None:
        for name in ("subject", "found", "why", "remedy"):
            text = getattr(self, name)
            if not text or "\n" in text:
                raise ValueError(f"a finding's {name} is one line: {text!r}")


NOT_THERE = "not there"  # what is found of a table that is missing
Judged = list[Finding | None]  # None: the check found nothing


def problem(check: Check, subject: str, found: str, why: str, remedy: str) -> Finding:
    """Returns a finding that makes `doctor` exit 1."""
    return Finding(Severity.PROBLEM, check, subject, found, why, remedy)


def warning(check: Check, subject: str, found: str, why: str, remedy: str) -> Finding:
    """Returns a finding that does not change the exit code of `doctor`."""
    return Finding(Severity.WARNING, check, subject, found, why, remedy)


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """All findings, problems first, and the number of checks that found nothing."""

    findings: tuple[Finding, ...]
    passed: int

    @classmethod
    def of(cls, judged: Iterable[Finding | None]) -> DoctorReport:
        """Builds the report of these judgements. Mentions a finding that several pipelines share only once."""
        every = list(judged)
        found = dict.fromkeys(finding for finding in every if finding)
        ordered = sorted(found, key=lambda finding: finding.severity is not Severity.PROBLEM)
        return cls(tuple(ordered), every.count(None))

    @property
    def problems(self) -> int:
        """Counts the findings that are problems."""
        return sum(finding.severity is Severity.PROBLEM for finding in self.findings)

    @property
    def ok(self) -> bool:
        """Returns True if there is no problem. Warnings are allowed."""
        return self.problems == 0
