"""Lists the points that are missing for production, each with the next command.

In production, money depends on the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lockstep.core.lake.keeping import KEEP, KEPT
from lockstep.core.ledger_rights import OF_A_RUN
from lockstep.core.settings import AIRFLOW_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RUN_LOGIN = f"create role lockstep_run login password '...'; grant {', '.join(OF_A_RUN)} to lockstep_run"
DOCTOR = "lockstep doctor"
ENCRYPTED = ("ssl", "sasl_ssl")
PROVEN = ("https", "verify-full")


class Point(StrEnum):
    """All points that `doctor --production` checks. docs/operations.md has the same points."""

    DOCTOR = "doctor"
    EMBEDDED = "embedded stack"
    RUN_LOGIN = "run login"
    OWNER = "owner's role"
    POSTGRES_TLS = "TLS to Postgres"
    KAFKA_TLS = "TLS to Kafka"
    KAFKA_LOGIN = "login at Kafka"
    TOKEN_TLS = "TLS to the issuer of tokens"  # noqa: S105 - the name of a point
    REGISTRY_TLS = "TLS to the registry"
    OTHERS_TLS = "TLS to other servers"
    SPARK_TOKEN = "Spark Connect token"  # noqa: S105 - the name of a point
    SPARK_NETWORK = "Spark's own network"
    STANDBY = "standby"
    BACKUPS = "backups of the lake"
    AIRFLOWS = "names of Airflows"
    APPROVERS = "approvers"
    REJECTS = "retention of rejects"
    SIGNING_KEY = "signing key"
    FILES = "files with secrets"
    HASHES = "hashes of packages"
    IMAGES = "images by digest"


@dataclass(frozen=True, slots=True)
class Missing:
    """One point that is not met."""

    point: Point
    found: str
    next_command: str

    def __str__(self) -> str:
        return f"{self.point}: {self.found}  Next: {self.next_command}"


@dataclass(frozen=True, slots=True)
class ServerPath:
    """The way to one server: its hosts other than this machine, and the encryption."""

    far: tuple[str, ...]
    encryption: str  # sslmode, security.protocol or the scheme of an address


@dataclass(frozen=True, slots=True)
class ProductionFacts:
    """The deployment as this machine and this environment show it. A fact that could not be read is None."""

    problems: int  # that the doctor names
    embedded: Sequence[str]  # servers that are those of `lockstep dev up`
    excess: Sequence[str] | None  # rights of the login beyond a run
    login: str
    postgres: ServerPath | None
    kafka: ServerPath | None
    kafka_verifies: bool
    kafka_login: bool
    tokens: ServerPath | None  # the address that gives them to the Kafka clients
    registry: ServerPath | None
    others: Mapping[str, ServerPath]  # of the lake, catalogs, stores and issuers, by the setting that names each
    spark_remote: bool
    spark_token: bool
    spark_in_clear: Sequence[str]  # masters of clusters
    standbys: int | None  # that a COMMIT waits for
    lake_tables: Sequence[str]  # pipelines with a table in the lake of the ledger
    lake_keep: str  # LOCKSTEP_LAKE_KEEP, or nothing
    same_tries: str | None  # a task of a DAG run that had one try number twice, as by two Airflows
    without_approvers: Sequence[str]  # files of DAGs whose history names no approver
    without_retention: Sequence[str]  # pipelines whose rejects keep their bytes for good
    signing_key: str | None  # its file
    ledger_is_here: bool
    open_files: Mapping[str, str]  # files with secrets that other accounts may read, and their modes
    locks_without_hashes: Sequence[str]
    tagged_images: Sequence[str]


def unmet_points(facts: ProductionFacts) -> list[Missing]:
    """Lists the points that are not met in production."""
    return [
        *_of_servers(facts),
        *_of_recovery(facts),
        *_of_addresses(facts),
        *_of_roles(facts),
        *_of_people(facts),
        *_of_supplies(facts),
    ]


def _of_servers(facts: ProductionFacts) -> Iterator[Missing]:
    if facts.problems:
        yield Missing(Point.DOCTOR, f"{facts.problems} problems", DOCTOR)
    if facts.embedded:
        found = f"{' and '.join(facts.embedded)} of `lockstep dev up`: one machine's, with one login for everything"
        yield Missing(Point.EMBEDDED, found, "set LOCKSTEP_DSN and LOCKSTEP_KAFKA to servers of your own")
    if (way := facts.postgres) and way.far and way.encryption != "verify-full":
        found = f"{', '.join(way.far)} by sslmode={way.encryption}: whoever stands between reads and answers"
        yield Missing(Point.POSTGRES_TLS, found, "add sslmode=verify-full&sslrootcert=FILE to LOCKSTEP_DSN")
    if (way := facts.kafka) and way.far and (way.encryption not in ENCRYPTED or not facts.kafka_verifies):
        how = f"security.protocol {way.encryption}" if facts.kafka_verifies else "no look at the host's name"
        command = "set security.protocol to SASL_SSL or SSL, with ssl.ca.location, in LOCKSTEP_KAFKA_CONFIG"
        yield Missing(Point.KAFKA_TLS, f"{', '.join(way.far)} by {how}", command)
    if facts.kafka and facts.kafka.far and not facts.kafka_login:
        found = "no sasl.mechanism and no certificate: whoever reaches the broker reads, and perhaps writes"
        yield Missing(Point.KAFKA_LOGIN, found, "set sasl.* or ssl.certificate.location in LOCKSTEP_KAFKA_CONFIG")
    if facts.spark_remote and not facts.spark_token:
        found = "SPARK_REMOTE has none: the server runs the code of every client"
        yield Missing(
            Point.SPARK_TOKEN, found, "set SPARK_CONNECT_AUTHENTICATE_TOKEN for the server, ;token=... in SPARK_REMOTE"
        )
    if facts.spark_in_clear:
        found = f"{', '.join(facts.spark_in_clear)}: executors get records and logins of Kafka and Postgres in clear"
        command = (
            "set spark.authenticate and spark.network.crypto.enabled to true in spark-defaults.conf; docs/clusters.md"
        )
        yield Missing(Point.SPARK_NETWORK, found, command)


def _of_recovery(facts: ProductionFacts) -> Iterator[Missing]:
    """Yields what a failover, a backup or another Airflow would bring back, or would take away."""
    if facts.standbys == 0:
        found = "COMMIT waits for no standby: a lost disk, or a failover, takes committed batches back"
        yield Missing(Point.STANDBY, found, "set synchronous_standby_names; docs/operations.md, Failover")
    if facts.lake_tables and not facts.lake_keep:
        found = (
            f"{KEEP} is not set: files of lake tables of {', '.join(facts.lake_tables)} go after {KEPT}, and a backup that is "
            "older names them"
        )
        yield Missing(Point.BACKUPS, found, f"set {KEEP} longer than the oldest backup is kept; docs/operations.md")
    if facts.same_tries:
        found = f"{facts.same_tries} was two tasks: another Airflow with the same DAG, or a run that was deleted and made anew"
        yield Missing(Point.AIRFLOWS, found, f"set {AIRFLOW_NAME} to another name for each Airflow; docs/airflow.md")


def _of_addresses(facts: ProductionFacts) -> Iterator[Missing]:
    if (way := facts.tokens) and way.far and way.encryption != "https":
        found = f"{', '.join(way.far)} by {way.encryption}: whoever stands between reads the client's secret"
        yield Missing(Point.TOKEN_TLS, found, "set sasl.oauthbearer.token.endpoint.url to https://...")
    if (way := facts.registry) and way.far and way.encryption != "https":
        yield Missing(
            Point.REGISTRY_TLS, f"{', '.join(way.far)} by {way.encryption}", "set LOCKSTEP_REGISTRY to https://..."
        )
    for setting, way in facts.others.items():
        if way.far and way.encryption not in PROVEN:
            found = f"{', '.join(way.far)} by {way.encryption}, of {setting}: whoever stands between reads what is sent"
            by_http = way.encryption == "http"
            command = f"set {setting} to https://..." if by_http else f"add sslmode=verify-full to {setting}"
            yield Missing(Point.OTHERS_TLS, found, command)


def _of_roles(facts: ProductionFacts) -> Iterator[Missing]:
    owner = "member of lockstep_owner"
    if facts.excess is None:
        return
    if owner in facts.excess or "superuser" in facts.excess:
        found = f"{facts.login} migrates and runs: a transform with its password can rewrite history"
        yield Missing(Point.OWNER, found, f"{RUN_LOGIN}; keep {facts.login} for `lockstep migrate`")
    if more := [each for each in facts.excess if each != owner]:
        yield Missing(Point.RUN_LOGIN, f"{facts.login} may more than a run: {', '.join(more)}", RUN_LOGIN)


def _of_people(facts: ProductionFacts) -> Iterator[Missing]:
    for file in facts.without_approvers:
        found = f"{file}: any other user with edit rights may approve a replay or an accepted loss"
        yield Missing(Point.APPROVERS, found, 'dags_for(..., history={"approvers": ("ID", ...)})')
    if facts.without_retention:
        found = f"rejects of {', '.join(facts.without_retention)} keep the bytes of their records for good"
        yield Missing(Point.REJECTS, found, "set reject_retention=DAYS in each definition; docs/erase.md")
    if facts.signing_key is None:
        found = "LOCKSTEP_SIGNING_KEY names none: no certificate shows a history that its owner rewrote"
        yield Missing(Point.SIGNING_KEY, found, "lockstep certificate --help; docs/audit.md")
    elif facts.ledger_is_here:
        found = f"{facts.signing_key} lies on the ledger's own machine: its administrator could sign another history"
        yield Missing(Point.SIGNING_KEY, found, "keep the key, and sign, on a machine of its own; docs/audit.md")
    for file, mode in facts.open_files.items():
        yield Missing(Point.FILES, f"{file} is {mode}: other accounts may read it", f"chmod go= {file}")


def _of_supplies(facts: ProductionFacts) -> Iterator[Missing]:
    for lock in facts.locks_without_hashes:
        yield Missing(Point.HASHES, f"{lock} has packages without a SHA-256", "make lock")
    for image in facts.tagged_images:
        found = f"{image} has no digest: a tag may lead to another image tomorrow"
        yield Missing(Point.IMAGES, found, "make images")
