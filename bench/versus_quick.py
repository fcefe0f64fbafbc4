"""Measures a few ratios in a few minutes.

Exits 1 only when one falls under half of its value in bench/recorded.json. It is measured twice more before that, and the
median of the three counts.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from peers import jars, quick
from peers.found import Found
from peers.rounds import ring
from peers.servers import machine, servers
from peers.telling import say

RECORDED = Path(__file__).with_name("recorded.json")


def main() -> int:
    """Prints each ratio with the recorded one."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=quick.RECORDS)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--recorded", type=Path, default=RECORDED, help="the file to hold the ratios against")
    options.add_argument("--record", action="store_true", help="write that file instead")
    given = options.parse_args()
    found = Found()
    for why in jars.missing(("spark",)):
        found.missing = dict.fromkeys(quick.PEERS, why)
    with servers() as place, ring(place, found) as turns:
        where, ratios = machine(place), quick.measure(turns, given.records, given.rounds)
        if given.record:
            quick.record(ratios, where, given.recorded)
        compared = quick.confirmed(
            quick.compared(ratios, given.recorded),
            lambda name: quick.measure_again(turns, name, given.records, given.rounds),
        )
    for name, why in found.missing.items():
        say(f"{name} is out: {why}")
    for each in compared:
        recorded = "not recorded" if each.recorded is None else f"recorded {each.recorded:.2f}"
        tries = f", the median of {_figures(each.first, *each.again)}" if each.again else ""
        print(f"{each.name:<50}{each.found:>8.2f}   {recorded}{tries}{'   FELL UNDER HALF OF IT' * each.fell}")
    return int(any(each.fell for each in compared))


def _figures(*values: float) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


if __name__ == "__main__":
    sys.exit(main())
