"""What a look at the surroundings found: each finding with its reason and its remedy, and how many checks found nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Severity(StrEnum):
    """`problem`: a promise or the pipeline itself is in danger; `warning`: know it, and decide."""

    PROBLEM = "problem"
    WARNING = "warning"


class Check(StrEnum):
    """Everything that is looked at, by the name of the setting where it has one."""

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
    TARGET = "target"
    OWNER = "owner"
    DEFINITION = "definition"
    SCHEDULE = "schedule"
    LIMITS = "limits"
    PYSPARK = "pyspark"
    EXPECTATIONS = "great-expectations"
    CONFLUENT = "confluent-kafka"
    AIRFLOW = "apache-airflow"
    JAVA = "java"
    JARS = "jars"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be: what was found, why it matters, and exactly what to set or type."""

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


Judged = list[Finding | None]  # None: looked at, and nothing found


def problem(check: Check, subject: str, found: str, why: str, remedy: str) -> Finding:
    """A finding that makes `doctor` exit 1."""
    return Finding(Severity.PROBLEM, check, subject, found, why, remedy)


def warning(check: Check, subject: str, found: str, why: str, remedy: str) -> Finding:
    """A finding to know about."""
    return Finding(Severity.WARNING, check, subject, found, why, remedy)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, the problems first, and how many checks found nothing."""

    findings: tuple[Finding, ...]
    passed: int

    @classmethod
    def of(cls, judged: Iterable[Finding | None]) -> Report:
        """The report of these judgements; what several pipelines share is said once."""
        every = list(judged)
        found = dict.fromkeys(finding for finding in every if finding)
        ordered = sorted(found, key=lambda finding: finding.severity is not Severity.PROBLEM)
        return cls(tuple(ordered), every.count(None))

    @property
    def problems(self) -> int:
        """How many findings are problems."""
        return sum(finding.severity is Severity.PROBLEM for finding in self.findings)

    @property
    def ok(self) -> bool:
        """Whether there is no problem; warnings are allowed."""
        return self.problems == 0
