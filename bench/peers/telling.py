"""Reports the progress to a person who waits."""

from __future__ import annotations

import sys


def say(line: str) -> None:
    """Prints one line on standard error. Standard output is for the results."""
    sys.stderr.write(f"{line}\n")
