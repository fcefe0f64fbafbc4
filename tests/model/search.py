"""Searches every state of a small model, and names the promise that breaks first."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

HERE = Path(__file__).parent


def first_broken(
    home: Path, model: str, flags: str, *, is_liveness: bool = False, is_large: bool = False
) -> str | None:
    """Returns the promise that breaks first, or None when all hold. A search that was cut short raises."""
    kind = ["-DNFAIR=4"] if is_liveness else ["-DSAFETY"]
    for command in (
        ["spin", "-a", *flags.split(), str(HERE / f"{model}.pml")],
        ["gcc", "-w", "-O2" if is_large else "-O0", "-DCOLLAPSE", "-DMEMLIM=3000", *kind, "-o", "pan", "pan.c"],
    ):
        made = subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=240, check=False)
        assert made.returncode == 0, made.stdout + made.stderr
    fairly = ["-a", "-f"] if is_liveness else []
    found = subprocess.run(
        ["./pan", "-m1000000", *fairly], cwd=home, capture_output=True, text=True, timeout=1200, check=False
    )
    said = found.stdout
    broken = re.search(r"pan:1: (?:assertion violated (\w+)|(invalid end state)|(acceptance cycle))", said)
    if broken:
        return next(name for name in broken.groups() if name)
    assert " errors: 0" in said, said
    assert not re.search(r"Search not completed|max search depth too small", said), said
    return None
