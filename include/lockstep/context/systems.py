"""Finds the outside systems: by the environment first, else by the embedded stack above the working directory."""

from __future__ import annotations

import gc
import getpass
import os
import socket
import sys
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING

from lockstep.adapters.connection.options import content_of, kafka_options_given, options_of
from lockstep.core.changes.person import Person
from lockstep.core.errors import Refusal
from lockstep.core.settings import KAFKA_OPTIONS, REGISTRY_OPTIONS, REMOTE, settings_of
from lockstep.installed import is_installed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.adapters.kafka.facts import SurveyedBroker
    from lockstep.core.engine import Engine
    from lockstep.core.kafka_options import KafkaOptions
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.routes import Route
    from lockstep.core.registry import Registry
    from lockstep.steps.context import Context
    from lockstep.targets.stores.delivery import Results

START = "lockstep dev up"
AIRFLOW_PATIENCE = 2.0


def dsn() -> str:
    """Returns the DSN of the ledger's database, with the command for its password if there is one."""
    from lockstep.adapters.connection.dsn import with_password_command

    return with_password_command(plain_dsn(), settings_of().password_command)


def plain_dsn() -> str:
    """Returns the DSN of the ledger's database, as libpq reads it."""
    return settings_of().dsn or _of_stack("dsn", "LOCKSTEP_DSN", "database")


def targets_dsn() -> str | None:
    """Returns the DSN over which target.sql runs, if the operator gives it a login."""
    return settings_of().targets_dsn or None


def stager_dsn() -> str | None:
    """Returns the DSN over which executors stage, if the operator gives them a login of their own."""
    return settings_of().stager_dsn or None


def lake_keep() -> timedelta:
    """Returns how long snapshots of the lake are kept: LOCKSTEP_LAKE_KEEP, or seven days."""
    from lockstep.core.lake.keeping import kept_of

    return kept_of(settings_of().lake_keep)


def kafka() -> str:
    """Returns the broker's bootstrap servers."""
    return settings_of().kafka or _of_stack("kafka", "LOCKSTEP_KAFKA", "Kafka broker")


def warehouse() -> str:
    """Returns the address of the lake: LOCKSTEP_LAKE, or a folder of the embedded stack whose ledger this is. Else empty."""
    from lockstep.dev.servers import stack

    if given := settings_of().lake:
        return given
    known = stack.find_stack()
    return f"file://{known.home / 'lake'}" if known and known.dsn is not None and known.dsn == dsn() else ""


def spark_remote() -> str | None:
    """Returns the address of a warm Spark, as SPARK_REMOTE takes it, or None if a run starts its own."""
    if given := settings_of().spark_remote:
        return given
    from lockstep.dev.servers import stack

    known = stack.find_stack()
    return known.spark_remote if known else None


def configured_kafka_options() -> KafkaOptions:
    """Returns the client options of LOCKSTEP_KAFKA_CONFIG: a JSON object, or the path of a file with one.

    The files that they name are read here, so that the receiver of the options needs none.
    """
    return kafka_options_given(
        KAFKA_OPTIONS,
        settings_of().kafka_options,
        f"correct {KAFKA_OPTIONS}, or the extra of Airflow's Kafka connection",
    )


def configured_registry() -> Registry | None:
    """Returns the schema registry of LOCKSTEP_REGISTRY with the client options of LOCKSTEP_REGISTRY_CONFIG, or None."""
    from lockstep.core.registry import AS_KAFKA, registry

    given = settings_of()
    if not given.registry:
        return None
    options = options_of(REGISTRY_OPTIONS, given.registry_options)
    kafka_login = configured_kafka_options() if AS_KAFKA in options.values() else None
    return registry(given.registry, options, partial(content_of, REGISTRY_OPTIONS), kafka_login)


def broker() -> Broker:
    """Returns the broker. Sends no request yet."""
    from lockstep.adapters.kafka.broker import Broker

    return Broker(kafka(), configured_kafka_options())


def broker_elsewhere(servers: str, config: str) -> Broker:
    """Returns the broker of another cluster. `config` is a file with its client options, or empty. Sends no request yet."""
    from lockstep.adapters.kafka.broker import Broker

    return Broker(servers, kafka_options_given("--kafka-config", config, "correct the file of --kafka-config"))


def surveyed_broker() -> SurveyedBroker:
    """Returns the broker that also reports its settings, not asked anything yet."""
    from lockstep.adapters.kafka.facts import SurveyedBroker

    return SurveyedBroker(kafka(), configured_kafka_options())


def open_context() -> Context:
    """Opens the systems that the steps work with, over a ledger of this code's version. Asks the broker nothing yet."""
    from lockstep.ledger.migrate import require_migrated
    from lockstep.steps.context import Context

    at = Context(dsn(), broker(), stores(), configured_registry, stager_dsn())
    require_migrated(at.conn)
    return at


def paused_dags() -> dict[str, bool]:
    """Returns, by id, if a DAG is paused in the embedded Airflow.

    Empty if it does not run or answer, or if the ledger is another one. No other Airflow can be known here.
    """
    from lockstep.dev.servers import stack

    known = stack.find_stack()
    if known is None or known.dsn is None or known.dsn != plain_dsn():
        return {}
    from lockstep.dev.servers import airflow

    found = airflow.running(known.home)
    if found is None:
        return {}
    try:
        from lockstep.dev.servers.airflow_api import paused
    except ModuleNotFoundError:
        return {}  # another environment has started it, and this one has no Airflow to ask it with
    return paused(found.api(AIRFLOW_PATIENCE))


def engine_choice(folder: PipelineFolder, wanted: str | None = None) -> Route:
    """Returns the engine that reads a pipeline's batches. `wanted` is the command's own wish."""
    from lockstep.core.planning.routes import choose_engine

    return choose_engine(folder, wanted=wanted, environment=settings_of().engine, has_spark=is_installed("pyspark"))


def engine_for(folder: PipelineFolder, at: Context, wanted: str | None = None) -> Engine:
    """Returns the engine of a pipeline's batches: Spark, a warm one if there is one, or this process."""
    from lockstep.engine.chosen import engine_of

    def before_spark() -> None:
        if remote := spark_remote():
            os.environ[REMOTE] = remote

    choice = engine_choice(folder, wanted)
    _leave_out_of_collections(len(sys.modules))
    return engine_of(folder, at.broker, at.dsn, configured_registry, choice, before_spark, at.stager_dsn)


@cache
def _leave_out_of_collections(_modules: int) -> None:
    """Leaves modules out of garbage collections. To search all of them takes a tenth of a second."""
    gc.freeze()


def stores() -> dict[str, str]:
    """Returns the addresses of other stores, by name, as LOCKSTEP_STORE_NAME holds them."""
    return dict(settings_of().stores)


def results_elsewhere(pipeline: Pipeline) -> Results | None:
    """Returns the place of results that move apart from the offsets, or None if one transaction moves both."""
    from lockstep.core.pipeline.guarantees import Delivered
    from lockstep.targets.stores.stores import results_of

    return results_of(pipeline, dsn(), stores()) if isinstance(pipeline.guarantee, Delivered) else None


@contextmanager
def database() -> Iterator[connection]:
    """Opens a connection to the ledger's database, whatever its contents are."""
    from lockstep.adapters.postgres import connect

    conn = connect(dsn())
    try:
        yield conn
    finally:
        conn.close()


@contextmanager
def open_ledger() -> Iterator[connection]:
    """Opens a connection to a ledger of this code's version."""
    from lockstep.ledger.migrate import require_migrated

    with database() as conn:
        require_migrated(conn)
        yield conn


def typing_person(why: str | None) -> Person:
    """Returns the person who types the command, with the reason."""
    try:
        login = getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as containers have them
        login = f"uid-{os.getuid()}"
    return Person(f"{login}@{socket.gethostname()}", why or "no reason given")


def _of_stack(field: str, variable: str, what: str) -> str:
    from lockstep.dev.servers import stack

    address: str | None = getattr(stack.find_stack(), field, None)
    if address is None:
        raise Refusal(
            f"no {what}: {variable} is not set, and no stack was started in or above here", next_command=START
        )
    return address
