"""Compares Lockstep with its alternatives, in turns, and writes docs/performance.md.

All have the same topic, table and machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from peers import grid, jars, page, quick
from peers.cold import cold
from peers.contender import APPEND, PEER, cores
from peers.field import CONTENDERS, NEEDS, SOME_CORES, on_cores
from peers.found import COLD, CORES, PARTITIONS, PARTS, SIZES, THROUGHPUT, Found, load
from peers.goals import SMALL
from peers.rounds import TUNING, WARMING, ring
from peers.servers import machine, servers
from peers.settings import settings
from peers.telling import say
from versus_quick import RECORDED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from peers.contender import Contender
    from peers.rounds import Ring

ROOT = Path(__file__).parents[1]
PAGE, PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "images" / "performance.svg"
RESULTS = ROOT / ".lockstep" / "bench" / "results.json"
FOUR = 4
FEW_WARM_UPS = 4  # of parts beside throughput: all JVMs have run for minutes
QUICK = "quick"


def main() -> int:
    """Runs the requested measurements and prints the page. Also writes the whole page to its place.

    Exits 1 when the times of a session lie on a grid. Its ratios would then show how it is waited for.
    """
    given = _asked()
    is_whole = given.parts == PARTS and not given.only
    if given.again:
        found = load(given.again)
    else:
        found = Found()
        with servers() as place, ring(place, found) as turns:
            found.machine, found.settings = machine(place), settings(place)
            measure(turns, _wanted(found, given.only), given)
            found.save(given.results)
            if is_whole:
                with _timed(found, QUICK):
                    ratios = quick.measure(turns, min(given.records, quick.RECORDS), given.rounds)
                quick.record(ratios, found.machine, RECORDED)
        found.save(given.results)
    if given.again or is_whole:
        page.write(found, PAGE, PICTURE)
    print(page.page(found))
    steps = grid.grids(found)
    for name, step in steps.items():
        say(f"the times of {name} lie on a grid of {step} s: wait for its end by an event, and measure again")
    return int(bool(steps))


def measure(turns: Ring, contenders: Sequence[Contender], given: argparse.Namespace) -> None:
    """Measures part by part.

    Peers are tuned at the size of the throughput, and all are warm at each size that is measured.
    """
    found, parts = turns.found, set(given.parts)
    appending = [each for each in contenders if each.kind == APPEND and each.has_runs]
    if parts & {THROUGHPUT, SIZES, PARTITIONS}:
        with _timed(found, WARMING):
            turns.warm(contenders, given.records, given.partitions, at=given.records)
        with _timed(found, TUNING):
            turns.tune(contenders, given.records, given.partitions)
    if THROUGHPUT in parts:
        with _timed(found, THROUGHPUT):
            turns.rounds(THROUGHPUT, contenders, given.records, given.partitions, given.rounds, at=given.records)
        found.save(given.results)
    with _timed(found, SIZES):
        for size in given.sizes if SIZES in parts else ():
            # The size of the throughput has been measured there.
            if not (THROUGHPUT in parts and (size, FOUR) == (given.records, given.partitions)):
                _at(turns, SIZES, appending, size, FOUR, 1 if size > given.records else given.rounds, size)
    with _timed(found, PARTITIONS):
        for partitions in given.wide if PARTITIONS in parts else ():
            _at(turns, PARTITIONS, appending, SMALL, partitions, given.rounds, partitions)
    with _timed(found, COLD):
        if COLD in parts:
            for run in cold(turns.place, turns.topic(SMALL, FOUR), SMALL, FOUR, given.rounds):
                say(f"{run.part:<11}{run.number:>2}  {run.contender:<62}{run.seconds:>8.3f} s")
                found.runs.append(run)
    if CORES in parts:
        with _timed(found, CORES):
            _by_cores(turns, {each.name for each in contenders}, given)


def _by_cores(turns: Ring, names: set[str], given: argparse.Namespace) -> None:
    """Measures one session after the other on several numbers of cores.

    Skips all cores if the throughput has measured them.
    """
    is_known = THROUGHPUT in given.parts and given.partitions == FOUR
    for number in (each for each in SOME_CORES if not (is_known and each == cores())):
        some = [each for each in on_cores(number) if each.name in names]
        turns.warm(some, given.records, FOUR, at=given.records)
        turns.tune(some, given.records, FOUR)
        turns.rounds(CORES, some, given.records, FOUR, given.rounds, at=number)
        for each in some:
            turns.end(each.session)


def _at(
    turns: Ring, part: str, contenders: Sequence[Contender], size: int, partitions: int, rounds: int, at: int
) -> None:
    """Warms the contenders, and runs them in turns."""
    if size <= quick.RECORDS:
        turns.warm(contenders, size, partitions, FEW_WARM_UPS, at=at)
    turns.rounds(part, contenders, size, partitions, rounds, at=at)


@contextmanager
def _timed(found: Found, part: str) -> Iterator[None]:
    """Records how many minutes a part takes."""
    begin = time.monotonic()
    yield
    found.took[part] = round((time.monotonic() - begin) / 60, 1)


def _wanted(found: Found, only: Sequence[str]) -> list[Contender]:
    """Returns the requested contenders that can run. Reports the others."""
    wanted = [each for each in CONTENDERS if not only or any(word in each.name for word in only)]
    said = {name: jars.missing((name,)) for name in {NEEDS[each.session] for each in wanted if each.session in NEEDS}}
    for each in wanted:
        if lines := said.get(NEEDS.get(each.session, ""), []):
            say(f"{each.name} is out: {lines[0]}")
            found.missing[each.name] = lines[0]
    if not any(each.family == PEER for each in wanted):
        say("no peer is asked for, so that there will be no ratios to one")
    return [each for each in wanted if each.name not in found.missing]


def _asked() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=1_000_000, help="of the topic for throughput")
    options.add_argument("--partitions", type=int, default=max(FOUR, cores()))
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument(
        "--sizes", type=_numbers, default=(1_000, 10_000, 100_000, 1_000_000, 2_000_000), help="a run's records"
    )
    options.add_argument("--wide", type=_numbers, default=(4, 64, 512), help="partitions of 1,000 records")
    options.add_argument("--parts", type=_words, default=PARTS, help=", ".join(PARTS))
    options.add_argument("--only", type=_words, default=(), help="contenders with one of these words in their names")
    options.add_argument("--results", type=Path, default=RESULTS, help="where the figures are kept")
    options.add_argument("--again", type=Path, help="write the page from such a file, and measure nothing")
    return options.parse_args()


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(","))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    sys.exit(main())
