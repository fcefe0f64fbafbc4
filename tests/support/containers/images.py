"""Stands in for the images of docker-compose.yaml: the files that they bring, their environment, and their entrypoints.

Postgres, Kafka, Spark and Airflow are those of this checkout. What the Dockerfile copies and sets is read from it. The
entrypoints of the official images are written down here as far as docker-compose.yaml uses them.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark

from lockstep.adapters import java
from lockstep.dev.servers import programs
from lockstep.dev.setup import jars
from lockstep.installed import CHECKOUT
from support.containers.machine import AS_POSTGRES
from support.pythons import SITE, link_packages, make_python

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# A folder directly below / cannot be made without root's rights, so this one is elsewhere.
ELSEWHERE = {"/docker-entrypoint-initdb.d": "/mnt/docker-entrypoint-initdb.d"}

# docker-entrypoint.sh of the official image: a cluster is made once, its files of SQL are run by a server that listens on
# its socket alone, and then the command is run. The account is another than root's.
POSTGRES = f"""set -e
export PGDATA=/var/lib/postgresql/data
if [[ ! -s $PGDATA/PG_VERSION ]]; then
    initdb --username=postgres --pwfile=<(printf '%s\\n' "$POSTGRES_PASSWORD") >/dev/null
    printf '\\nhost all all all scram-sha-256\\n' >>"$PGDATA/pg_hba.conf"
    printf "listen_addresses = '*'\\nunix_socket_directories = '/run/postgresql'\\n" >>"$PGDATA/postgresql.conf"
    pg_ctl -o "-c listen_addresses=''" -w start >/dev/null
    for file in {ELSEWHERE["/docker-entrypoint-initdb.d"]}/*.sql; do
        psql -v ON_ERROR_STOP=1 -h /run/postgresql --username postgres --no-password --no-psqlrc -f "$file"
    done
    pg_ctl -m fast -w stop >/dev/null
fi
exec "$@"
"""
# /etc/kafka/docker/run: KAFKA_* become server.properties by Kafka's own program, which formats the storage, too.
KAFKA = """set -e
export CLUSTER_ID=${CLUSTER_ID:-5L6g3nShT-eMCtK--X86sw}
kafka() { java -Xms128m -Xmx512m -XX:TieredStopAtLevel=1 -cp '/opt/kafka/libs/*' "$@"; }
kafka kafka.docker.KafkaDockerWrapper setup --default-configs-dir /etc/kafka/docker \
    --mounted-configs-dir /mnt/shared/config --final-configs-dir /opt/kafka/config
exec java -Xms128m -Xmx512m -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile=/opt/kafka/config/log4j2.yaml \
    -cp '/opt/kafka/libs/*' kafka.Kafka /opt/kafka/config/server.properties
"""
KAFKA_LOGS = """Configuration:
  Appenders: {Console: {name: STDOUT, PatternLayout: {pattern: "%d %p %m (%c)%n"}}}
  Loggers: {Root: {level: INFO, AppenderRef: [{ref: STDOUT}]}, Logger: []}
"""
# The command of Kafka's tools is not among the jars of the embedded broker. This asks the same broker for its nodes.
API_VERSIONS = f"""#!{sys.executable}
import sys
from confluent_kafka.admin import AdminClient
assert sys.argv[1] == "--bootstrap-server"
found = AdminClient({{"bootstrap.servers": sys.argv[2], "log_level": 0}}).list_topics(timeout=8)
print(found.brokers)
"""
# Airflow's /entrypoint: waits for Airflow's database, runs `bash` and `python` as they are, and all else by `airflow`.
AIRFLOW = """umask 0002
asked='import os, psycopg2
psycopg2.connect(os.environ["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"].replace("+psycopg2", "")).close()'
for left in {19..0}; do
    python -c "$asked" && break
    (( left )) || exit 1
    sleep 3
done
case $1 in bash | python) exec "$@" ;; airflow) shift ;; esac
exec airflow "$@"
"""


@dataclass(frozen=True, slots=True)
class Image:
    """What an image brings. `root` holds its files, two folders deep at least."""

    root: Path
    environ: Mapping[str, str]
    entrypoint: tuple[str, ...] = ()
    workdir: str = "/opt"


def make_images(folder: Path) -> dict[str, Image]:
    """Returns the images by name, with their files below the folder."""
    made: dict[str, Callable[[Path], Image]] = {
        "postgres": _postgres,
        "apache/kafka": _kafka,
        "apache/spark": _spark,
        "spark-worker": _spark_worker,
        "airflow": _airflow,
    }
    return {name: make(folder / name.replace("/", "-")) for name, make in made.items()}


def _postgres(root: Path) -> Image:
    binaries = programs.find_postgres({"PATH": os.environ["PATH"]})
    (root / "opt").mkdir(parents=True)
    entrypoint = (*AS_POSTGRES, "bash", "-c", POSTGRES, "postgres")
    return Image(root, {"PATH": f"{binaries}:{PATH}", "LANG": "C.UTF-8"}, entrypoint, "/mnt")


def _kafka(root: Path) -> Image:
    defaults, mounted, home = root / "etc/kafka/docker", root / "mnt/shared/config", root / "opt/kafka"
    for made in (defaults, mounted, home / "bin", home / "config"):
        made.mkdir(parents=True)
    for name in ("log4j2.yaml", "tools-log4j2.yaml"):
        (defaults / name).write_text(KAFKA_LOGS)
    (defaults / "server.properties").touch()
    (home / "libs").symlink_to(jars.broker_jars())
    _program(home / "bin" / "kafka-broker-api-versions.sh", API_VERSIONS)
    return Image(root, {"PATH": f"{_java(root)}:{PATH}"}, ("bash", "-c", KAFKA, "kafka"))


def _spark(root: Path) -> Image:
    home = root / "opt/spark"
    (home / "work").mkdir(parents=True)
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name in {"bin", "jars", "python", "sbin"}:
            (home / part.name).symlink_to(part)
    return Image(root, {"PATH": f"{_java(root)}:{PATH}", "SPARK_HOME": "/opt/spark"}, (), "/opt/spark/work")


def _spark_worker(root: Path) -> Image:
    """Returns Spark's image with the Dockerfile's Python, which has the packages of requirements-executors.txt alone."""
    spark = _spark(root)
    link_packages(root / "opt/packages")
    _python(root / "opt/lockstep", "/opt/packages")
    return Image(root, {**spark.environ, **_variables("spark-worker", spark.environ)}, spark.entrypoint, spark.workdir)


def _airflow(root: Path) -> Image:
    local, home = root / "home/airflow/.local", root / "opt/lockstep"
    _python(local, "/opt/lockstep/include", SITE)
    ours = Path(sys.executable).parent
    for script in ours.iterdir():
        first = script.read_bytes()[:2] if script.is_file() and not script.is_symlink() else b""
        if first != b"#!" or (local / "bin" / script.name).exists():
            continue
        text = script.read_text().replace(str(ours), "/home/airflow/.local/bin")
        _program(local / "bin" / script.name, text)
    for made in (root / "opt/airflow", home / "results"):
        made.mkdir(parents=True)
    for sources in re.findall(r"^COPY (?:--chown=\S+ )?((?:[\w./-]+ )+)\S+$", _stage("airflow"), flags=re.MULTILINE):
        for source in sources.split():
            here = CHECKOUT / source
            shutil.copytree(here, home / source) if here.is_dir() else shutil.copy(here, home / source)
    environ = {
        "PATH": f"/home/airflow/.local/bin:{_java(root)}:{PATH}",
        "HOME": "/home/airflow",
        "AIRFLOW_HOME": "/opt/airflow",
        "LANG": "C.UTF-8",
    }
    environ |= _variables("airflow", environ)
    return Image(root, environ, ("bash", "-c", AIRFLOW, "entrypoint"), "/opt/lockstep")


def _java(root: Path) -> str:
    """Returns the folder with the image's `java` and nothing else."""
    _program(root / "opt/java/bin/java", f'#!/bin/sh\nexec {java.find_java()} "$@"\n')
    return "/opt/java/bin"


def _python(folder: Path, *packages: Path | str) -> None:
    make_python(folder, *packages)
    assert (folder / "bin" / "python3.11").exists()


def _program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def _stage(name: str) -> str:
    """Returns the part of the Dockerfile that makes this target."""
    text = (CHECKOUT / "Dockerfile").read_text().replace("\\\n", " ")
    return next(part for part in re.split(r"^FROM ", text, flags=re.MULTILINE) if f" AS {name}\n" in part)


def _variables(stage: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns what the Dockerfile sets by ENV."""
    lines = re.findall(r"^ENV (.+)$", _stage(stage), flags=re.MULTILINE)
    named = dict(word.split("=", 1) for line in lines for word in line.split())
    return {name: value.replace("$PATH", environ["PATH"]) for name, value in named.items()}
