"""How far it is, for whoever waits."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """One line on standard error; standard output is for what was found."""
    sys.stderr.write(f"{line}\n")
