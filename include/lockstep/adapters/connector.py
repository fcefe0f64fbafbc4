"""Spark's Kafka connector: jars that pip cannot bring, found without starting Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping


def connector_jars(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The jars that let Spark read Kafka: below `LOCKSTEP_JARS`, else below the nearest `.lockstep/jars`."""
    places = [Path(environ["LOCKSTEP_JARS"])] if environ.get("LOCKSTEP_JARS") else []
    places += [folder / ".lockstep" / "jars" for folder in (Path.cwd(), *Path.cwd().parents)]
    for place in places:
        if jars := sorted(str(jar) for jar in (place / "connector").glob("*.jar")):
            return jars
    raise Refusal(
        "Spark's Kafka connector is not here: no connector/*.jar in LOCKSTEP_JARS or .lockstep/jars",
        next_command="make jars",
    )
