"""Switches the embedded stack on and off: starts only missing servers and stops only its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal
from lockstep.core.settings import ENVIRONMENT
from lockstep.dev import lock, project
from lockstep.dev.private import private_folder
from lockstep.dev.servers import airflow, cluster, kafka, ports, postgres, spark_connect, stack
from lockstep.dev.servers.airflow_settings import AirflowPlace
from lockstep.dev.servers.stack import ServerState, Stack
from lockstep.dev.setup import jars

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def start_servers(
    home: Path,
    say: Callable[[str], None],
    environ: Mapping[str, str] = ENVIRONMENT,
    *,
    with_airflow: bool = False,
    with_spark: bool = False,
) -> Stack:
    """Starts the servers that do not run, and records their addresses. May be repeated at any time."""
    if with_airflow:
        airflow.require_airflow()
    with lock.held(home / "lock", say):
        # Started by root, Postgres runs as another account, which must reach its own folder in here.
        private_folder(home, 0o711 if cluster.account() else 0o700)
        before = stack.read(home) or Stack(home)
        if not environ.get("LOCKSTEP_DSN"):
            _postgres_up(before, say, environ)
        if not environ.get("LOCKSTEP_KAFKA"):
            _broker_up(before, say, environ)
        if with_spark:
            _spark_up(before, say, environ)
        if with_airflow:
            _airflow_up(_write_down(before), say, environ)
        return _write_down(before)


def stop_servers(home: Path, say: Callable[[str], None], *, only_airflow: bool = False) -> Stack:
    """Stops the servers below this folder, or its Airflow alone, and nothing else. Keeps data and ports."""
    with lock.held(home / "lock", say):
        before = stack.read(home) or Stack(home)
        if scheduled := airflow.running(home):
            airflow.stop(scheduled)
            say(f"airflow: stopped (processes {', '.join(str(part.pid) for part in scheduled.parts.values())})")
        if only_airflow:
            return _write_down(before)
        if warm := spark_connect.running(home):
            spark_connect.stop(warm)
            say(f"spark connect: stopped (process {warm.process.pid})")
        if broker := kafka.running(home):
            kafka.stop(broker)
            say(f"kafka: stopped (process {broker.process.pid})")
        if server := postgres.running(home):
            postgres.stop(server)
            say(f"postgres: stopped (process {server.process.pid})")
        return _write_down(before)


def _postgres_up(before: Stack, say: Callable[[str], None], environ: Mapping[str, str]) -> None:
    began, known = time.monotonic(), postgres.running(before.home)
    port = known.port if known else _port(before, before.postgres, "LOCKSTEP_PG_PORT", environ)
    server = postgres.start(before.home, port, environ=environ)
    _write_down(before)
    say(f"postgres: {_how(known is not None, began)} on 127.0.0.1:{server.port}")


def _broker_up(before: Stack, say: Callable[[str], None], environ: Mapping[str, str]) -> None:
    known = kafka.running(before.home)
    if known is None:
        jars.ensure_jars(jars.folder(environ), say)
    began = time.monotonic()
    port = known.port if known else _port(before, before.broker, "LOCKSTEP_KAFKA_PORT", environ)
    broker = kafka.start(before.home, port, jar_folder=jars.folder(environ) / "broker")
    _write_down(before)
    say(f"kafka: {_how(known is not None, began)} on {broker.bootstrap}")


def _spark_up(before: Stack, say: Callable[[str], None], environ: Mapping[str, str]) -> None:
    began, known = time.monotonic(), spark_connect.running(before.home)
    port = known.port if known else _port(before, before.spark, "LOCKSTEP_SPARK_PORT", environ)
    server = spark_connect.start(before.home, port)
    _write_down(before)
    say(f"spark connect: {_how(known is not None, began)} on 127.0.0.1:{server.port}")


def _airflow_up(before: Stack, say: Callable[[str], None], environ: Mapping[str, str]) -> None:
    dsn, bootstrap = environ.get("LOCKSTEP_DSN") or before.dsn, environ.get("LOCKSTEP_KAFKA") or before.kafka
    if dsn is None or bootstrap is None:
        raise Refusal("Airflow needs the Postgres and the Kafka of this stack.", next_command=stack.UP)
    began, known = time.monotonic(), airflow.running(before.home)
    port = known.port if known else _port(before, before.airflow, "LOCKSTEP_AIRFLOW_PORT", environ)
    found = project.find_project(environ)
    place = AirflowPlace(
        dsn=dsn,
        kafka=bootstrap,
        dags=found.dags,
        plugins=found.plugins,
        pipelines=found.pipelines,
        jars=jars.folder(environ),
        spark_remote=before.spark_remote,
        more=found.exports(environ),
    )
    whole = known is not None and len(known.parts) == len(airflow.AIRFLOW_PARTS)
    running = airflow.start(before.home, place, port)
    say(f"airflow: {_how(whole, began)} on {running.address}")


def _how(was_running: bool, began: float) -> str:  # noqa: FBT001 - the question is its name
    return "running already" if was_running else f"started in {time.monotonic() - began:.1f} s"


def _port(before: Stack, part: ServerState | None, variable: str, environ: Mapping[str, str]) -> int:
    """Returns the port that the environment demands, else the last one, else a free one for no other part."""
    if demanded := environ.get(variable):
        if not demanded.isdecimal() or not 0 < int(demanded) < ports.PORTS_END:
            raise Refusal(f"{variable}={demanded} is no port.", next_command=f"unset {variable}")
        return ports.demand(int(demanded), variable)
    parts = (before.postgres, before.broker, before.airflow, before.spark)
    others = [other.port for other in parts if other and other is not part]
    return ports.choose(before.home, wanted=part.port if part else None, taken=others)


def _write_down(before: Stack) -> Stack:
    """Records the running servers in the state file."""
    home = before.home
    server, broker, scheduled = postgres.running(home), kafka.running(home), airflow.running(home)
    warm = spark_connect.running(home)
    now = Stack(
        home,
        server.dsn if server else before.dsn,
        broker.bootstrap if broker else before.kafka,
        ServerState(server.port, server.process) if server else _at_rest(before.postgres),
        ServerState(broker.port, broker.process) if broker else _at_rest(before.broker),
        ServerState(scheduled.port, next(iter(scheduled.parts.values()))) if scheduled else _at_rest(before.airflow),
        ServerState(warm.port, warm.process) if warm else _at_rest(before.spark),
    )
    stack.write_stack(now)
    return now


def _at_rest(part: ServerState | None) -> ServerState | None:
    return ServerState(part.port, None) if part else None
