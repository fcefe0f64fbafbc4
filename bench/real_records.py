"""Measures Lockstep, its peers and the limit by records as they usually are: wide, with odd texts, some bad, transformed.

Exits 1 when a row is lost, changed or too many in any run, or when another number of records are rejects.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from peers import jars
from peers.contender import cores
from peers.found import Found
from peers.real import report
from peers.real.events import PARTITIONS
from peers.real.field import AVAILABLE_NOW, REMEMBERED, VARIANTS, WITH_MEMORY, memory_part, parts
from peers.rounds import ring
from peers.servers import machine, servers
from peers.settings import settings
from peers.telling import say

RESULTS = Path(__file__).parents[1] / ".lockstep" / "bench" / "real.json"
MEMORY_RUNS = 3  # of a session: memory grows from the first to the second


def main() -> int:
    """Runs the rounds of all variants, prints the tables and the goals, and keeps the figures."""
    given = _asked()
    found, order = Found(), parts(given.only, given.contenders)
    if any(contender.name == AVAILABLE_NOW.name for _, contender in order):
        for why in jars.missing(("spark",)):
            say(f"{AVAILABLE_NOW.name} is out: {why}")
            found.missing[AVAILABLE_NOW.name] = why
    with servers() as place, ring(place, found) as turns:
        found.machine, found.settings = machine(place), settings(place)
        for _, contender in order:
            turns.warm([contender], given.records, PARTITIONS, given.warm_ups, at=given.records)
        turns.rounds_of_parts(order, given.records, PARTITIONS, given.rounds, at=given.records)
        report.save(found, given.results)
        for part, contender in order:
            if part in REMEMBERED and contender.name in {each.name for each in WITH_MEMORY}:
                turns.memory(memory_part(part), contender, given.records, PARTITIONS, MEMORY_RUNS)
        report.save(found, given.results)
    print(report.shown(found))
    return int(not all(run.is_right for run in found.runs))


def _asked() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--records", type=int, default=600_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--warm-ups", type=int, default=2, help="of each contender with a JVM, at the measured size")
    options.add_argument("--only", type=_words, default=VARIANTS, help=f"variants: {', '.join(VARIANTS)}")
    options.add_argument(
        "--contenders", type=_words, default=(), help="contenders with one of these words in their names"
    )
    options.add_argument("--results", type=Path, default=RESULTS, help="where the figures are kept")
    given = options.parse_args()
    if odd := set(given.only) - set(VARIANTS):
        options.error(f"--only {', '.join(sorted(odd))}: not one of {', '.join(VARIANTS)}")
    if cores() < 2:  # noqa: PLR2004 - Python's processes
        say("one core: the two processes of plain Python share it")
    return given


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
