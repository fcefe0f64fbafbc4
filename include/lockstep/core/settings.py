"""Reads the environment of this process. No other module does, except to set variables for a process that follows."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal, quoted
from lockstep.core.lake.catalogs import CATALOG_PREFIX
from lockstep.core.pipeline.stores import STORE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

ENVIRONMENT: Mapping[str, str] = MappingProxyType(os.environ)  # as it is now, and to read only
DSN_COMMAND = "LOCKSTEP_DSN_PASSWORD_COMMAND"
KAFKA_OPTIONS, REGISTRY_OPTIONS = "LOCKSTEP_KAFKA_CONFIG", "LOCKSTEP_REGISTRY_CONFIG"
LAKE_CONFIG = "LOCKSTEP_LAKE_CONFIG"
STAGER_DSN = "LOCKSTEP_STAGER_DSN"
AIRFLOW_NAME = "LOCKSTEP_AIRFLOW_NAME"
ENGINE, REMOTE = "LOCKSTEP_ENGINE", "SPARK_REMOTE"  # a remote is sc://HOST:PORT/;PARAMETERS


@dataclass(frozen=True, slots=True)
class Settings:
    """The outside systems that the environment names. A value is empty if its variable is not set.

    Options are JSON objects, or paths of files with one. `stores` are addresses by name, and the settings of catalogs by the
    names of their variables.
    """

    dsn: str = field(default="", repr=False)
    password_command: str = field(default="", repr=False)
    targets_dsn: str = field(default="", repr=False)
    stager_dsn: str = field(default="", repr=False)
    kafka: str = ""
    kafka_options: str = field(default="", repr=False)
    registry: str = ""
    registry_options: str = field(default="", repr=False)
    lake: str = ""
    lake_options: str = field(default="", repr=False)
    lake_keep: str = ""
    airflow: str = ""
    spark_remote: str = field(default="", repr=False)
    engine: str = ""
    stores: Mapping[str, str] = field(default_factory=dict, repr=False)


def settings_of(environ: Mapping[str, str] = ENVIRONMENT) -> Settings:
    """Returns the settings that an environment holds now."""

    def of(name: str) -> str:
        return environ.get(name, "").strip()

    return Settings(
        dsn=of("LOCKSTEP_DSN"),
        password_command=of(DSN_COMMAND),
        targets_dsn=of("LOCKSTEP_TARGETS_DSN"),
        stager_dsn=of(STAGER_DSN),
        kafka=of("LOCKSTEP_KAFKA"),
        kafka_options=of(KAFKA_OPTIONS),
        registry=of("LOCKSTEP_REGISTRY"),
        registry_options=of(REGISTRY_OPTIONS),
        lake=of("LOCKSTEP_LAKE"),
        lake_options=of(LAKE_CONFIG),
        lake_keep=of("LOCKSTEP_LAKE_KEEP"),
        airflow=of(AIRFLOW_NAME),
        spark_remote=of(REMOTE),
        engine=of(ENGINE),
        stores={
            name.removeprefix(STORE_PREFIX): value.strip()
            for name, value in environ.items()
            if name.startswith((STORE_PREFIX, CATALOG_PREFIX))
        },
    )


def airflow_name(environ: Mapping[str, str] = ENVIRONMENT) -> str | None:
    """Returns the name of this Airflow, where several share a ledger. Raises `Refusal` for one that no owner can have."""
    name = settings_of(environ).airflow
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", name):
        raise Refusal(
            f"{AIRFLOW_NAME} is {quoted(name)}: a name has 1 to 63 letters, digits, '.', '_' and '-'",
            next_command=f"set {AIRFLOW_NAME} to a name, the same for all components of this Airflow",
        )
    return name or None
