"""A few ratios in a few minutes; exits 1 only when one falls under half of what bench/recorded.json has for it."""

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
    """Prints each ratio beside what was recorded."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=quick.RECORDS)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--recorded", type=Path, default=RECORDED, help="the file to hold the ratios against")
    options.add_argument("--record", action="store_true", help="write that file instead")
    given = options.parse_args()
    if missing := jars.missing(("jdbc",)):
        say(missing[0])
        return 1
    with servers() as place, ring(place, Found()) as turns:
        where, ratios = machine(place), quick.measure(turns, given.records, given.rounds)
        if turns.found.missing:
            say(f"not measured: {turns.found.missing}")
    if given.record:
        quick.record(ratios, where, given.recorded)
    found = quick.compared(ratios, given.recorded)
    for each in found:
        recorded = "not recorded" if each.recorded is None else f"recorded {each.recorded:.2f}"
        print(f"{each.name:<50}{each.found:>8.2f}   {recorded}{'   FELL UNDER HALF OF IT' * each.fell}")
    return int(any(each.fell for each in found))


if __name__ == "__main__":
    sys.exit(main())
