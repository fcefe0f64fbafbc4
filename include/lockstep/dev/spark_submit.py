"""spark-submit, as the embedded stack and make call it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = Path(sys.prefix) / "bin" / "spark-submit"


def spark_submit(master: str, settings: Mapping[str, str], *more: str) -> list[str]:
    """The command, with these settings and what follows them."""
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    return [str(PROGRAM), "--master", master, *words, *more]
