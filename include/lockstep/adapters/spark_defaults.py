"""Reads Spark's defaults on this machine: whether a cluster's driver and executors talk in clear."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SPARK_CONNECTION = "spark://"
AIRFLOW_CONNECTION = "AIRFLOW_CONN_"


def masters_in_clear(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the masters of clusters whose driver and executors exchange records and logins without encryption.

    Masters are those of SPARK_MASTER and of Airflow's connections in the environment. Settings are those of
    `spark-defaults.conf`: `spark.authenticate` with `spark.network.crypto.enabled`, or `spark.ssl.rpc.enabled`.
    """
    settings = spark_defaults(environ)
    on = {name for name, value in settings.items() if value.lower() == "true"}
    if "spark.ssl.rpc.enabled" in on or {"spark.authenticate", "spark.network.crypto.enabled"} <= on:
        return ()
    return tuple(sorted({master for master in _masters(environ) if not master.startswith("local")}))


def spark_defaults(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of `spark-defaults.conf`, as Spark finds and reads it, or none."""
    folder = environ.get("SPARK_CONF_DIR") or (environ["SPARK_HOME"] + "/conf" if environ.get("SPARK_HOME") else "")
    found: dict[str, str] = {}
    with suppress(OSError, UnicodeDecodeError):
        for line in (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8").splitlines() if folder else ():
            name, *value = line.strip().replace("=", " ", 1).split(maxsplit=1)[:2] or [""]
            if name and not name.startswith("#"):
                found[name] = "".join(value).strip()
    return found


def _masters(environ: Mapping[str, str]) -> Iterator[str]:
    if master := environ.get("SPARK_MASTER"):
        yield master
    for name, value in environ.items():
        if name.startswith(AIRFLOW_CONNECTION):
            yield from _master_of_connection(value)


def _master_of_connection(value: str) -> Iterator[str]:
    """Yields the master of a connection of the type `spark`, written as JSON or as an address."""
    if value.startswith(SPARK_CONNECTION):
        yield unquote(value.removeprefix(SPARK_CONNECTION).partition("?")[0]) or "yarn"
        return
    with suppress(ValueError, AttributeError):
        found: Any = json.loads(value)
        if found.get("conn_type") == "spark":
            yield str(found.get("host") or "yarn")
