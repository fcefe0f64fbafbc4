"""Builds the spark-submit command of the embedded stack and of make."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters import java

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = Path(sys.prefix) / "bin" / "spark-submit"


def spark_submit(master: str, settings: Mapping[str, str], *more: str) -> list[str]:
    """Returns the command, with these settings and further arguments. Raises `Refusal` without pyspark."""
    java.pyspark_jars()  # refuses, where there is no pyspark and so no such program
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return [str(PROGRAM), "--master", master, *words, *more]
