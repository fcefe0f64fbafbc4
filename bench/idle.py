"""Measures the CPU time of the embedded stack while nothing runs, over all its processes and their children.

Usage: python bench/idle.py [SECONDS], beside a stack of `lockstep dev up --airflow`. Exits 1 above a tenth of one core.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from lockstep.dev.servers import stack

MOST = 0.10
TICKS = os.sysconf("SC_CLK_TCK")
AIRFLOW = ("api-server", "scheduler", "dag-processor")


def spent(roots: dict[str, int]) -> dict[str, float]:
    """Returns the CPU seconds of each root with its children, those that have ended included."""
    children: dict[int, list[int]] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split() if entry.name.isdigit() else None
        except OSError:
            continue  # it has just ended
        if fields:
            children.setdefault(int(fields[1]), []).append(int(entry.name))
            seconds[int(entry.name)] = sum(map(int, fields[11:15])) / TICKS
    found = dict.fromkeys(roots, 0.0)
    for name, root in roots.items():
        waiting = [root]
        while waiting:
            pid = waiting.pop()
            found[name] += seconds.get(pid, 0.0)
            waiting += children.get(pid, [])
    return found


def main() -> int:
    """Measures, prints a line for each server, and returns the exit code."""
    lasting = float(sys.argv[1]) if len(sys.argv) > 1 else 300.0
    found = stack.find_stack()
    parts = {"postgres": found.postgres, "kafka": found.broker, "airflow": found.airflow} if found else {}
    roots = {name: part.process.pid for name, part in parts.items() if part and part.process}
    if found is None or "airflow" not in roots:
        print("no Airflow runs here.  Next: lockstep dev up --airflow", file=sys.stderr)
        return 1
    del roots["airflow"]
    roots |= {name: int((found.home / "airflow" / f"{name}.pid").read_text()) for name in AIRFLOW}
    before, begun = spent(roots), time.monotonic()
    time.sleep(lasting)
    after, took = spent(roots), time.monotonic() - begun
    shares = {name: (after[name] - before[name]) / took for name in roots}
    for name, share in (shares | {"all": sum(shares.values())}).items():
        print(f"{name:<14} {share:6.2%} of one core")
    return int(sum(shares.values()) > MOST)


if __name__ == "__main__":
    sys.exit(main())
