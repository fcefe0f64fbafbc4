"""Lockstep beside what a user would pick instead: the same topic, table and machine, in turns; writes docs/performance.md."""

from __future__ import annotations

import argparse
import sys

from peers import jars
from peers.field import CONTENDERS
from peers.found import THROUGHPUT, Found
from peers.rounds import ring
from peers.servers import machine, servers
from peers.telling import say


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=400_000)
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", default="")
    given = options.parse_args()
    found = Found()
    contenders = [c for c in CONTENDERS if any(w in c.name for w in given.only.split(","))]
    for said in jars.missing(("jdbc", "connect", "flink")):
        say(said)
    with servers() as place, ring(place, found) as turns:
        found.machine = machine(place)
        turns.tune(contenders, min(given.records, 100_000), given.partitions)
        turns.rounds(THROUGHPUT, contenders, given.records, given.partitions, given.rounds, at=given.records)
    for name in found.names(THROUGHPUT):
        runs = found.of(THROUGHPUT, name)
        print(name, found.rate(THROUGHPUT, name), [(r.lost, r.doubled, r.cpu, r.peak, r.steps) for r in runs])
    print(found.missing, found.tuned, found.machine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
