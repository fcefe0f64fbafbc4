"""Runs the long storm: crashes over a remembered log on every core, then under real Spark and Kafka.

Its figures go to the docs. Usage: python -m simulation.soak MINUTES. Exits 1 when a promise was broken, naming the seed that
shows it again.
"""

from __future__ import annotations

import os
import platform
import random
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from lockstep.dev.servers import postgres
from simulation.pipeline import DDL
from simulation.real_storm import a_drill, real_storm
from simulation.storm import Storm
from simulation.world import World
from support.servers.servers import Servers

COMMITS_OF_A_STORM = 250
REAL_SHARE = 0.4  # of the time
HEAD = """
| | commits struck by a crash | strikes | storms (seeds) | rows compared by content | lost | doubled | wrong | promises broken |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""
VALUES = ("compared", "lost", "doubled", "wrong")
KINDS = [kind for kind in DDL if kind != "mirrored"]  # the log here has no change records


@dataclass
class Tally:
    """The sums of some storms."""

    struck: int = 0
    strikes: Counter[str] = field(default_factory=Counter)
    seeds: list[int] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)

    def add(
        self, seed: int, struck: int, strikes: dict[str, int], violations: list[str], figures: dict[str, int]
    ) -> None:
        """Adds one more storm."""
        self.struck += struck
        self.strikes.update(strikes)
        self.figures.update(figures)
        self.seeds.append(seed)
        for violation in violations:
            self.violations.append(f"seed {seed}: {violation}")
            print(self.violations[-1], file=sys.stderr, flush=True)

    def row(self, name: str) -> str:
        """Returns the line that the docs keep."""
        seeds = f"{len(self.seeds)} ({min(self.seeds)} to {max(self.seeds)})" if self.seeds else "0"
        values = " | ".join(str(self.figures[name]) for name in VALUES)
        return f"| {name} | {self.struck} | {self.strikes.total()} | {seeds} | {values} | {len(self.violations)} |"


def core_storm(seed: int, home: Path, until: float) -> tuple[int, dict[str, int], list[str], dict[str, int]]:
    """Runs over a remembered log, on this process's own Postgres, which is restarted now and then.

    The seed chooses the kind of target.
    """
    servers = Servers(home / str(os.getpid()), keep=True, in_memory=True)
    servers.join()
    place, port = servers.home / "postgres", servers.postgres().port

    def restart() -> None:
        if running := postgres.running(place):
            postgres.stop(running, postgres.Mode.IMMEDIATE)
        postgres.start(place, port)

    with servers.database(f"soak_{seed}") as dsn, tempfile.TemporaryDirectory() as folder:
        world = World(dsn, Path(folder), kind=KINDS[seed % len(KINDS)], restart=restart)
        storm = Storm(world, seed, superuser=servers.postgres().superuser_dsn)
        figures = storm.rage(COMMITS_OF_A_STORM, until)
        struck = len(storm.committed_and_struck())
        world.close()
    strikes = {f"{point}={kind}": n for (point, kind), n in figures.strikes.items()}
    return struck, strikes, figures.violations, dict(world.figures)


def core_part(minutes: float, first: int, home: Path, say) -> Tally:
    """Runs storm after storm, one on each core, until the time is over."""
    tally, seed, until = Tally(), first, time.monotonic() + 60 * minutes
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        under_way = {}
        while under_way or time.monotonic() < until:
            while time.monotonic() < until and len(under_way) < (os.cpu_count() or 1):
                under_way[pool.submit(core_storm, seed, home, until)] = seed
                seed += 1
            for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                tally.add(under_way.pop(done), *done.result())
                say(f"core: {tally.struck} commits struck, {len(tally.violations)} promises broken")
    for each in home.glob("*"):
        postgres.remove_server(each / "postgres")
    return tally


def real_part(minutes: float, first: int, home: Path) -> Tally:
    """Runs one storm with real Spark and Kafka, until the time is over."""
    tally, servers = Tally(), Servers(home, keep=False, in_memory=True)
    servers.join()
    try:
        with (
            servers.database(f"real_{first}") as dsn,
            tempfile.TemporaryDirectory() as folder,
            a_drill(dsn, Path(folder), f"real-{first}") as drill,
        ):
            said = real_storm(drill, servers.postgres().superuser_dsn, first, minutes=minutes)
            tally.add(first, said["struck"], said["strikes"], said["violations"], said["figures"])
    finally:
        servers.leave()
    return tally


def main() -> int:
    minutes = float(sys.argv[1])
    first = random.SystemRandom().randrange(10**6) * 1000
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # Postgres may run as another account
        core = core_part(minutes * (1 - REAL_SHARE), first, Path(folder) / "core", console.log)
        real = real_part(minutes * REAL_SHARE, first, Path(folder) / "real")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} cores, {memory:.0f} GiB, {platform.machine()}"
    print(f"{datetime.now(UTC):%Y-%m-%d}, {minutes:g} minutes, {machine}\n{HEAD}")
    print(core.row("core: a ledger, and a log that is remembered"))
    print(real.row("Spark, Kafka and Postgres"))
    strikes = core.strikes + real.strikes
    print("\nstrikes: " + ", ".join(f"{name} {n}" for name, n in sorted(strikes.items())))
    for violation in core.violations + real.violations:
        print(violation)
    return int(bool(core.violations + real.violations))


if __name__ == "__main__":
    sys.exit(main())
