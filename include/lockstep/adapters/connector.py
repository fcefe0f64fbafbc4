"""Finds Spark's Kafka connector, and the jars that precede pyspark's own, without starting Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters import jar_lock
from lockstep.core.errors import Refusal
from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Mapping


def connector_jars(environ: Mapping[str, str] = ENVIRONMENT) -> list[str]:
    """Returns the jars that let Spark read Kafka. Refuses jars that are not the locked ones."""
    return jar_lock.checked_jars(jars_folder(environ), jar_lock.CONNECTOR_JARS)


def class_path(environ: Mapping[str, str] = ENVIRONMENT) -> dict[str, str]:
    """Returns the settings that put fixed codecs before pyspark's own. Refuses codecs that are not the locked ones.

    Executors on other machines use them if the jars are in the same folder. A missing path does no harm.
    """
    ahead = os.pathsep.join(jar_lock.checked_jars(jars_folder(environ), jar_lock.AHEAD_JARS))
    return {"spark.driver.extraClassPath": ahead, "spark.executor.extraClassPath": ahead}


def jars_folder(environ: Mapping[str, str] = ENVIRONMENT) -> Path:
    """Returns the folder of the jars: `LOCKSTEP_JARS`, else the nearest `.lockstep/jars`."""
    places = [Path(environ["LOCKSTEP_JARS"])] if environ.get("LOCKSTEP_JARS") else []
    places += [folder / ".lockstep" / "jars" for folder in (Path.cwd(), *Path.cwd().parents)]
    for place in places:
        if _jars(place):
            return place
    raise Refusal(
        "Spark's Kafka connector is not here: no connector/*.jar in LOCKSTEP_JARS or .lockstep/jars",
        next_command="lockstep dev jars",
    )


def _jars(place: Path) -> list[str]:
    return sorted(str(jar) for jar in (place / "connector").glob("*.jar"))
