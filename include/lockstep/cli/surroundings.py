"""Finds the outside systems: by the environment first, else by the embedded stack above the working directory."""

from __future__ import annotations

import getpass
import json
import os
import socket
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import Refusal
from lockstep.core.person import Person

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg2.extensions import connection

    from lockstep.adapters.driver import Driver
    from lockstep.adapters.kafka import Broker
    from lockstep.core.definition import Pipeline
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.kafka_options import KafkaOptions
    from lockstep.core.registry import Registry
    from lockstep.core.staging import Engine
    from lockstep.steps.surroundings import Surroundings
    from lockstep.targets.delivery import Results

START = "lockstep dev up"
DRIVER_OFFSETS = "LOCKSTEP_DRIVER_OFFSETS"
KAFKA_OPTIONS, REGISTRY_OPTIONS = "LOCKSTEP_KAFKA_CONFIG", "LOCKSTEP_REGISTRY_CONFIG"


def dsn() -> str:
    """Returns the DSN of the ledger's database."""
    return os.environ.get("LOCKSTEP_DSN") or _of_stack("dsn", "LOCKSTEP_DSN", "database")


def targets_dsn() -> str | None:
    """Returns the DSN over which target.sql runs, if the operator gives it a login."""
    return os.environ.get("LOCKSTEP_TARGETS_DSN") or None


def kafka() -> str:
    """Returns the broker's bootstrap servers."""
    return os.environ.get("LOCKSTEP_KAFKA") or _of_stack("kafka", "LOCKSTEP_KAFKA", "Kafka broker")


def spark_remote() -> str | None:
    """Returns the address of a warm Spark, as SPARK_REMOTE takes it, or None if a run starts its own."""
    if given := os.environ.get("SPARK_REMOTE"):
        return given
    from lockstep.dev import stack

    known = stack.find()
    return known.spark_remote if known else None


def kafka_options() -> KafkaOptions:
    """Returns the client options of LOCKSTEP_KAFKA_CONFIG: a JSON object, or the path of a file with one.

    The files that they name are read here, so that the receiver of the options needs none.
    """
    from lockstep.core.kafka_options import kafka_options

    return kafka_options(options_of(KAFKA_OPTIONS)).inlined(partial(_content, KAFKA_OPTIONS))


def registry() -> Registry | None:
    """Returns the schema registry of LOCKSTEP_REGISTRY with the client options of LOCKSTEP_REGISTRY_CONFIG, or None."""
    from lockstep.core.registry import registry

    address = os.environ.get("LOCKSTEP_REGISTRY", "").strip()
    return registry(address, options_of(REGISTRY_OPTIONS), partial(_content, REGISTRY_OPTIONS)) if address else None


def broker() -> Broker:
    """Returns the broker. Sends no request yet."""
    from lockstep.adapters.kafka import Broker

    return Broker(kafka(), kafka_options())


def surroundings() -> Surroundings:
    """Opens the systems that the steps work with, over a ledger of this code's version.

    Sends the broker no request yet.
    """
    from lockstep.ledger.migrate import require_migrated
    from lockstep.steps.surroundings import Surroundings

    at = Surroundings(dsn(), broker(), stores())
    require_migrated(at.conn)
    return at


def engine_for(folder: PipelineFolder, at: Surroundings) -> Engine:
    """Returns the engine of a pipeline's batches.

    It is this process for small batches, else Spark: a warm one if there is one.
    """
    from lockstep.adapters.driver_first import OFFSETS, DriverFirst

    def driver() -> Driver:
        from lockstep.adapters.driver import Driver
        from lockstep.adapters.kafka_ranges import KafkaRanges

        return Driver(
            folder, KafkaRanges(at.broker.bootstrap, at.broker.options, folder.pipeline.record_limits.bytes), at.dsn
        )

    def spark() -> Engine:
        if remote := spark_remote():
            os.environ["SPARK_REMOTE"] = remote
        from lockstep.adapters.spark import SparkEngine

        return SparkEngine(folder, at.broker.bootstrap, at.dsn, at.broker.options, registry())

    given = os.environ.get(DRIVER_OFFSETS, "").strip() or str(OFFSETS)
    if not given.isdecimal():
        raise Refusal(f"{DRIVER_OFFSETS} is {given!r}, and takes a number: a batch of more offsets is read by Spark")
    return DriverFirst(folder, driver, spark, int(given))


def stores() -> dict[str, str]:
    """Returns the addresses of other stores, by name, as LOCKSTEP_STORE_NAME holds them."""
    from lockstep.core.stores import PREFIX

    return {name.removeprefix(PREFIX): value for name, value in os.environ.items() if name.startswith(PREFIX)}


def results_elsewhere(pipeline: Pipeline) -> Results | None:
    """Returns the place of results that move apart from the offsets, or None if one transaction moves both."""
    from lockstep.core.guarantees import Delivered
    from lockstep.targets.stores import results_of

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
def ledger() -> Iterator[connection]:
    """Opens a connection to a ledger of this code's version."""
    from lockstep.ledger.migrate import require_migrated

    with database() as conn:
        require_migrated(conn)
        yield conn


def person(why: str | None) -> Person:
    """Returns the person who types the command, with the reason."""
    try:
        login = getpass.getuser()
    except (KeyError, OSError):  # a uid without a name, as containers have them
        login = f"uid-{os.getuid()}"
    return Person(f"{login}@{socket.gethostname()}", why or "no reason given")


def _of_stack(field: str, variable: str, what: str) -> str:
    from lockstep.dev import stack

    address: str | None = getattr(stack.find(), field, None)
    if address is None:
        raise Refusal(
            f"no {what}: {variable} is not set, and no stack was started in or above here", next_command=START
        )
    return address


def options_of(variable: str) -> dict[str, Any]:
    """Returns the options that a variable holds: a JSON object, or the path of a file with one."""
    given = os.environ.get(variable, "").strip()
    if not given:
        return {}
    try:
        text = given if given.startswith("{") else Path(given).read_text(encoding="utf-8")
        options = json.loads(text)
    except OSError:  # the value may hold a password, so it is not repeated
        raise _bad_options(variable, "it is neither a JSON object nor the path of a file that can be read") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise _bad_options(variable, f"no JSON: {error}") from None
    if not isinstance(options, dict) or not all(isinstance(v, str | int | float) for v in options.values()):
        raise _bad_options(variable, "it must be one JSON object of options and plain values")
    return options


def _content(variable: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}"
        raise _bad_options(variable, why) from None


def _bad_options(variable: str, why: str) -> Refusal:
    return Refusal(f"{variable}: {why}", next_command="set it to a JSON object, or to the path of one")
