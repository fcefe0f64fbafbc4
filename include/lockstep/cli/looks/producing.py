"""Defines the part of `doctor --production` that looks at this machine, this environment and the database."""

from __future__ import annotations

import ast
import socket
import stat
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lockstep.adapters import folders
from lockstep.adapters.connection.options import options_of
from lockstep.adapters.spark_defaults import masters_in_clear
from lockstep.cli.looks.certifying import SIGNING_KEY
from lockstep.cli.pipelines.sharing import definitions_on_disk
from lockstep.context import systems
from lockstep.core.errors import Refusal
from lockstep.core.health.production import ProductionFacts, ServerPath
from lockstep.core.lake.catalogs import CATALOG_PREFIX
from lockstep.core.lake.iceberg import lake_places
from lockstep.core.lake.lake_options import ENDPOINT
from lockstep.core.login.mechanisms import TOKEN_URL
from lockstep.core.pipeline.stores import STORE_PREFIX
from lockstep.core.registry import REGISTRY_ISSUER
from lockstep.core.settings import ENVIRONMENT, KAFKA_OPTIONS, LAKE_CONFIG, REGISTRY_OPTIONS, settings_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lockstep.core.health.findings import DoctorReport

Environ = Mapping[str, str]
HERE = ("localhost", "127.0.0.1", "::1", "")
DEFAULT_MODE = "prefer"  # libpq's own
PATHS = (KAFKA_OPTIONS, REGISTRY_OPTIONS, LAKE_CONFIG, SIGNING_KEY, "PGPASSFILE", "PGSSLKEY")
KEYS = ("ssl.key.location", "ssl.keystore.location")
OF_CATALOGS = ("uri", "oauth2-server-uri", ENDPOINT)
DAGS_FOR = ("dags_for", "history_dag_for")


def production_facts(report: DoctorReport, environ: Environ = ENVIRONMENT) -> ProductionFacts:
    """Gathers the facts that are visible from here. A server that is away is the doctor's finding."""
    login, excess, standbys, postgres, same_tries = _of_database()
    options, kafka = _of_kafka()
    key = environ.get(SIGNING_KEY)
    remote = environ.get("SPARK_REMOTE", "")
    project = _project()
    return ProductionFacts(
        problems=report.problems,
        embedded=_embedded(),
        excess=excess,
        login=login,
        postgres=postgres,
        kafka=kafka,
        kafka_verifies=options.get("ssl.endpoint.identification.algorithm", "https") == "https",
        kafka_login=bool({"sasl.mechanism", "ssl.certificate.pem"} & options.keys()),
        tokens=_issuer(options.get(TOKEN_URL)),
        registry=_registry(environ),
        others=ways_to_others(environ),
        spark_remote=bool(remote),
        spark_token=";token=" in remote or bool(environ.get("SPARK_CONNECT_AUTHENTICATE_TOKEN")),
        spark_in_clear=masters_in_clear(environ),
        standbys=standbys,
        lake_tables=[each.name for each in definitions_on_disk() if lake_places(each.targets)],
        lake_keep=settings_of(environ).lake_keep,
        same_tries=None if settings_of(environ).airflow else same_tries,
        without_approvers=without_approvers(project / "dags"),
        without_retention=[each.name for each in definitions_on_disk() if each.reject_retention is None],
        signing_key=key or None,
        ledger_is_here=postgres is not None and not postgres.far,
        open_files=open_files(environ, project),
        locks_without_hashes=locks_without_hashes(project),
        tagged_images=_images(project, environ),
    )


def without_approvers(dags: Path) -> list[str]:
    """Names the DAG files that make a history DAG without naming its approvers."""
    found = []
    for file in sorted(dags.glob("*.py")):
        with suppress(SyntaxError, UnicodeDecodeError):
            calls = [
                node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
            ]
            if any(_name_of(call) in DAGS_FOR and not _names_approvers(call) for call in calls):
                found.append(f"dags/{file.name}")
    return found


def open_files(environ: Environ, project: Path) -> dict[str, str]:
    """Lists files with secrets that accounts other than their owner may read, with their modes."""
    files = {Path(environ[name]) for name in PATHS if environ.get(name) and not environ[name].lstrip().startswith("{")}
    with suppress(Refusal):
        files |= {Path(path) for path in _paths_of_keys()}
    files |= {
        project / ".env",
        project / ".lockstep" / "stack.json",
        *(project / ".lockstep" / "airflow" / name for name in ("secrets.json", "sql_alchemy_conn", "fernet_key")),
    }
    found = {}
    for file in sorted(files):
        with suppress(OSError):
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                found[str(file)] = f"{mode:04o}"
    return found


def locks_without_hashes(project: Path) -> list[str]:
    """Names the requirement locks that have a package without the hash of its files."""
    found = []
    for lock in sorted(project.glob("requirements*.txt")):
        entries = lock.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
        if any("==" in entry and "--hash=sha256:" not in entry for entry in entries if not entry.startswith("#")):
            found.append(lock.name)
    return found


def _of_database() -> tuple[str, list[str] | None, int | None, ServerPath | None, str | None]:
    from lockstep.adapters.connection.dsn import way_to
    from lockstep.adapters.postgres import connect_as_is
    from lockstep.core.health.replication_findings import SYNCHRONOUS
    from lockstep.ledger.admin.facts import ledger_facts
    from lockstep.ledger.admin.replication import replication_facts
    from lockstep.ledger.admin.same_tries import same_tries

    try:
        dsn = systems.dsn()
        with closing(connect_as_is(dsn, name="lockstep doctor")) as conn:
            ledger, replication = ledger_facts(conn), replication_facts(conn, dsn)
            twice = same_tries(conn)
    except Refusal:
        return "", None, None, None, None
    hosts, mode = way_to(dsn)
    waits = sum(each.sync_state in SYNCHRONOUS for each in replication.standbys)
    way = ServerPath(_far(hosts), mode or ENVIRONMENT.get("PGSSLMODE") or DEFAULT_MODE)
    return ledger.login, list(ledger.excess), waits, way, twice


def _of_kafka() -> tuple[dict[str, str], ServerPath | None]:
    try:
        hosts = [each.rpartition(":")[0] for each in systems.kafka().split(",")]
        options = systems.configured_kafka_options().for_librdkafka()
    except Refusal:
        return {}, None
    return options, ServerPath(_far(hosts), options.get("security.protocol", "plaintext").lower())


def _registry(environ: Environ) -> ServerPath | None:
    addresses = [urlsplit(each.strip()) for each in environ.get("LOCKSTEP_REGISTRY", "").split(",") if each.strip()]
    if not addresses:
        return None
    plain = [each for each in addresses if each.scheme != "https"]
    return ServerPath(_far(each.hostname or "" for each in plain or addresses), (plain or addresses)[0].scheme)


def ways_to_others(environ: Environ) -> dict[str, ServerPath]:
    """Returns the ways to the lake's store, to catalogs, stores and issuers, by the setting that names each."""
    from lockstep.adapters.connection.dsn import way_to

    given, found = settings_of(environ), dict[str, ServerPath]()
    addressed: dict[str, tuple[str, ...]] = {
        LAKE_CONFIG: (given.lake_options, ENDPOINT),
        REGISTRY_OPTIONS: (given.registry_options, REGISTRY_ISSUER),
    }
    addressed |= {
        name: (value, *OF_CATALOGS) for name, value in given.stores.items() if name.startswith(CATALOG_PREFIX)
    }
    for variable, (value, *names) in addressed.items():
        with suppress(Refusal):  # the doctor names options that cannot be read
            options = options_of(variable, value)
            ways = {f"{name} of {variable}": _issuer(options.get(name)) for name in names}
            found |= {setting: way for setting, way in ways.items() if way is not None}
    for name, value in given.stores.items():
        if not name.startswith(CATALOG_PREFIX):
            hosts, mode = way_to(value)  # none of a folder
            found[f"{STORE_PREFIX}{name}"] = ServerPath(_far(hosts), mode or environ.get("PGSSLMODE") or DEFAULT_MODE)
    return found


def _issuer(address: str | None) -> ServerPath | None:
    """Returns the way to the address that gives tokens, if there is one."""
    if address is None:
        return None
    parts = urlsplit(address)
    return ServerPath(_far([parts.hostname or ""]), parts.scheme)


def _embedded() -> list[str]:
    from lockstep.dev.servers import stack

    known = stack.find_stack()
    if known is None:
        return []
    found = []
    for what, of_stack, ask in (("Postgres", known.dsn, systems.dsn), ("Kafka", known.kafka, systems.kafka)):
        with suppress(Refusal):
            if of_stack is not None and ask() == of_stack:
                found.append(what)
    return found


def _far(hosts: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({host for host in hosts if host.strip("[]") not in (*HERE, socket.gethostname())}))


def _project() -> Path:
    """Returns the folder that holds pipelines, DAGs and locks."""
    with suppress(Refusal):
        root = folders.root()
        if root.parent.name == "include":
            return root.parents[1]
    return Path.cwd()


def _paths_of_keys() -> Iterator[str]:
    given = settings_of()
    for variable, value in ((KAFKA_OPTIONS, given.kafka_options), (REGISTRY_OPTIONS, given.registry_options)):
        options = options_of(variable, value)
        yield from (str(options[name]) for name in KEYS if name in options)


def _images(project: Path, environ: Environ) -> list[str]:
    from lockstep.dev.setup.images import named, unpinned

    if not (project / ".env.example").exists():
        return []
    images = named(project, environ)
    return [f"{name}={image}" for name, image in images.items() if unpinned({name: image})]


def _name_of(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _names_approvers(call: ast.Call) -> bool:
    history = next((word.value for word in call.keywords if word.arg == "history"), None)
    if not isinstance(history, ast.Dict):
        return False
    return any(
        isinstance(key, ast.Constant)
        and key.value == "approvers"
        and not (isinstance(value, ast.Tuple) and not value.elts)
        for key, value in zip(history.keys, history.values, strict=True)
    )
