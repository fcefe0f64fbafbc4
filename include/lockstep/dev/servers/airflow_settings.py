"""Builds the embedded Airflow's environment: common settings, settings of the place, and its secrets, drawn once."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from cryptography.fernet import Fernet

from lockstep.adapters import java
from lockstep.core.settings import ENVIRONMENT
from lockstep.dev.private import write_privately

if TYPE_CHECKING:
    from collections.abc import Mapping

USER = "admin"
DATABASE, FERNET = "sql_alchemy_conn", "fernet_key"  # files that the command `airflow` reads
REVIEWER = "reviewer"  # an asker may not approve, so there are two
MARK = "SPT_NOENV"  # of the processes that are started here
# The settings of this Airflow in any place. docker-compose.yaml has the same.
AIRFLOW_SETTINGS = {
    "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__PARALLELISM": "4",
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
    "AIRFLOW__CORE__AUTH_MANAGER": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin,{REVIEWER}:user",
    "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
    "AIRFLOW__API__WORKERS": "1",
    "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
    # A changed DAG file is parsed at once. The others wait: parsing them anew is most of what an idle Airflow does.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "120",
    "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
    "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    "GX_ANALYTICS_ENABLED": "false",
    MARK: "1",  # process titles must not overwrite the environment, by which its processes are found again
}


@dataclass(frozen=True, slots=True)
class Secrets:
    """The passwords of the UI, the keys of its tokens and its log links, and the key for Airflow's connections."""

    password: str = field(repr=False)
    reviewer: str = field(repr=False)
    fernet: str = field(repr=False)
    jwt: str = field(repr=False)
    api: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AirflowPlace:
    """The surroundings of an Airflow: the databases of the ledger and of Airflow itself, Kafka, and its folders."""

    dsn: str = field(repr=False)
    kafka: str
    dags: Path
    plugins: Path
    pipelines: Path
    jars: Path
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark_master: str = "local[2]"
    spark_remote: str | None = None
    metadata: str = "airflow"
    more: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def metadata_dsn(self) -> str:
        """Returns the DSN of Airflow's own database, on the same server."""
        return urlsplit(self.dsn)._replace(path=f"/{self.metadata}").geturl()


def secrets_of(folder: Path) -> Secrets:
    """Returns the secrets that the folder keeps for its owner alone. Draws those that are missing."""
    file = folder / "secrets.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    drawn = {
        "password": secrets.token_urlsafe(9),
        "reviewer": secrets.token_urlsafe(9),
        "fernet": Fernet.generate_key().decode(),
        "jwt": secrets.token_hex(32),
        "api": secrets.token_hex(32),
    } | kept
    if drawn != kept:  # a folder of an earlier version has fewer
        write_privately(file, json.dumps(drawn))
    return Secrets(**drawn)


def for_commands(folder: Path, dags: Path, plugins: Path) -> dict[str, str]:
    """Returns the environment that leads the command `airflow` to this Airflow.

    It holds no secret: the command reads the database's address and the key of connections from files of their owner.
    Empty if this Airflow was last started by a version that kept no such files.
    """
    secret = {
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_CMD": folder / DATABASE,
        "AIRFLOW__CORE__FERNET_KEY_CMD": folder / FERNET,
    }
    if not all(file.exists() for file in secret.values()):
        return {}
    return {
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(plugins),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    } | {name: f"cat {shlex.quote(str(file))}" for name, file in secret.items()}


def airflow_environment(folder: Path, place: AirflowPlace, port: int, log_ports: tuple[int, int]) -> dict[str, str]:
    """Returns the environment of every process of this Airflow.

    Writes its secrets into files of their owner. They are nowhere else.
    """
    known = secrets_of(folder)
    database = place.metadata_dsn.replace("postgresql://", "postgresql+psycopg2://", 1)
    write_privately(folder / DATABASE, database)
    write_privately(folder / FERNET, known.fernet)
    write_privately(folder / "passwords.json", json.dumps({USER: known.password, REVIEWER: known.reviewer}))
    url = f"http://127.0.0.1:{port}"
    return {
        **AIRFLOW_SETTINGS,
        "LOCKSTEP_PAGES": "*",  # of pipelines that the command line runs, too: it is one person's
        "AIRFLOW_HOME": str(folder),
        "AIRFLOW__CORE__DAGS_FOLDER": str(place.dags),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(place.plugins),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__CORE__FERNET_KEY": known.fernet,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__SECRET_KEY": known.api,
        "AIRFLOW__API_AUTH__JWT_SECRET": known.jwt,
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(log_ports[0]),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(log_ports[1]),
        "AIRFLOW_CONN_POSTGRES_DEFAULT": _postgres(place.dsn),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(
            {"conn_type": "kafka", "extra": {"bootstrap.servers": place.kafka, **place.kafka_options}}
        ),
        **_spark(place),
        "LOCKSTEP_PIPELINES": str(place.pipelines),
        "LOCKSTEP_JARS": str(place.jars),
        # spark-submit is found beside the Python that runs Airflow, and Spark's workers are to be the same.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), ENVIRONMENT.get("PATH", os.defpath)]),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        **java.exports(),
        **place.more,
    }


def _spark(place: AirflowPlace) -> dict[str, str]:
    """Returns the connection to Spark: to a running server if there is one, else to a driver for each run."""
    cold = {"conn_type": "spark", "host": place.spark_master, "extra": {"deploy-mode": "client"}}
    if place.spark_remote is None:
        return {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(cold)}
    server = urlsplit(place.spark_remote)
    token = server.path.partition("token=")[2].partition(";")[0]
    where = {"conn_type": "spark_connect", "host": server.hostname, "port": server.port, "password": token}
    warm = json.dumps(where)
    return {"AIRFLOW_CONN_SPARK_DEFAULT": warm, "AIRFLOW_CONN_SPARK_CONNECT_DEFAULT": warm}


def _postgres(dsn: str) -> str:
    parts = urlsplit(dsn)
    return json.dumps(
        {
            "conn_type": "postgres",
            "host": parts.hostname,
            "port": parts.port,
            "login": unquote(parts.username or ""),
            "password": unquote(parts.password or ""),
            "schema": unquote(parts.path.lstrip("/")),
        }
    )
