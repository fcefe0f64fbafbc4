"""Measures a few ratios at a size that CI can afford, beside those of the last whole bench."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from peers.field import (
    ALL_CORES,
    AVAILABLE_NOW,
    AVAILABLE_NOW_UPSERT,
    BINARY_4,
    OUR_UPSERT,
    PER_BATCH,
    PER_PARTITION,
    PYTHON_COPY,
)
from peers.found import Found, median

if TYPE_CHECKING:
    from pathlib import Path

    from peers.contender import Contender
    from peers.rounds import Ring

RECORDS, FOUR, MANY, SMALL = 100_000, 4, 512, 1_000
WARM_UPS = 4
FULL, RUN, WIDE = "quick", "quick, a small run", "quick, many partitions"
PEERS = (AVAILABLE_NOW.name, AVAILABLE_NOW_UPSERT.name)
SHARE = 0.5  # a ratio may fall to this share of what was recorded: machines differ, and a busy one scatters


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure as a multiple of its comparison. Higher is better."""

    name: str
    found: float
    recorded: float | None

    @property
    def fell(self) -> bool:
        """Returns True if it is under the share of the recorded ratio."""
        return self.recorded is not None and self.found < SHARE * self.recorded


def measure(turns: Ring, records: int = RECORDS, rounds: int = 3) -> dict[str, float]:
    """Returns the ratios, by name."""
    ours = (PER_BATCH, PER_PARTITION, OUR_UPSERT)
    theirs = tuple(map(_tuned, (AVAILABLE_NOW, AVAILABLE_NOW_UPSERT)))
    copying = PYTHON_COPY[ALL_CORES]
    turns.warm((*ours, *theirs, copying), records, FOUR, WARM_UPS, at=records)
    turns.rounds(FULL, (*ours, *theirs, copying, BINARY_4), records, FOUR, rounds, at=records)
    turns.rounds(RUN, (PER_BATCH, theirs[0]), SMALL, FOUR, rounds, at=SMALL)
    turns.rounds(WIDE, (PER_BATCH,), SMALL, MANY, rounds, at=MANY)
    return _ratios(turns.found)


def _ratios(found: Found) -> dict[str, float]:
    batch, peer = PER_BATCH.name, AVAILABLE_NOW.name
    small = {run.number: run.seconds for run in found.of(RUN, batch)}
    wide = [small[run.number] / run.seconds for run in found.of(WIDE, batch) if run.number in small]
    all_ratios = {
        "PerBatch append : AvailableNow append": found.ratio(FULL, batch, peer),
        "PerBatch append : binary COPY by 4 connections": found.ratio(FULL, batch, BINARY_4.name),
        "PerPartition append : AvailableNow append": found.ratio(FULL, PER_PARTITION.name, peer),
        "PerPartition append : Python and COPY, all cores": found.ratio(
            FULL, PER_PARTITION.name, PYTHON_COPY[ALL_CORES].name
        ),
        "PerBatch upsert : AvailableNow upsert": found.ratio(FULL, OUR_UPSERT.name, AVAILABLE_NOW_UPSERT.name),
        "a run of 1,000 records : AvailableNow's": found.ratio(RUN, batch, peer),
        "1,000 records in 512 partitions : in 4": median(wide),
    }
    return {name: ratio for name, ratio in all_ratios.items() if ratio is not None}


def compared(ratios: dict[str, float], file: Path) -> list[Ratio]:
    """Returns each ratio with its recorded one, if there is one."""
    recorded = json.loads(file.read_text())["ratios"] if file.exists() else {}
    return [Ratio(name, ratio, recorded.get(name)) for name, ratio in ratios.items()]


def record(ratios: dict[str, float], machine: dict[str, Any], file: Path) -> None:
    """Records the ratios for the comparison of the next quick bench."""
    document = {"machine": machine, "ratios": {name: round(ratio, 3) for name, ratio in ratios.items()}}
    file.write_text(json.dumps(document, indent=1) + "\n")


def _tuned(contender: Contender) -> Contender:
    """Returns the contender with its usually fastest tuning, instead of looking for it."""
    return replace(contender, tunings=(contender.tunings[-1],))
