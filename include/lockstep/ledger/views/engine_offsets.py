"""Counts the committed offsets of each pipeline by the engine that read them, and each closed batch once."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from lockstep.core.planning.routes import Way
from lockstep.ledger.views import overview

if TYPE_CHECKING:
    from collections.abc import Collection

    from psycopg2.extensions import cursor

BATCHES_AT_ONCE = 10_000  # of each pipeline, in one query
NONE = dict.fromkeys(map(str, Way), 0)


class EngineOffsets:
    """The committed offsets of pipelines, counted on from call to call.

    A closed batch never changes, so its offsets are kept. A restored ledger may lack batches that were counted: start
    anew after it.
    """

    def __init__(self, batches_at_once: int = BATCHES_AT_ONCE) -> None:
        self._most = batches_at_once
        self._through: dict[str, int] = {}
        self._closed: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._open: set[int] = set()

    def count(self, cur: cursor, names: Collection[str], patience: float) -> dict[str, dict[str, int]]:
        """Returns the offsets of each pipeline by engine. A pipeline is left out until its whole history is counted.

        Begins no other query after `patience` seconds. The next call goes on from there.
        """
        until = time.monotonic() + patience
        while True:
            behind = {name: self._through.get(name, 0) for name in names}
            rows = overview.offsets_by_engine(cur, behind, self._open, self._most)
            self._open = {row.open_batch for row in rows if row.open_batch}
            opened: defaultdict[str, Counter[str]] = defaultdict(Counter)
            for row in rows:
                counted = opened if row.open_batch else self._closed
                counted[row.pipeline][row.engine] += row.offsets
                self._through[row.pipeline] = max(self._through.get(row.pipeline, 0), row.newest or 0)
            done = [name for name in names if self._through.get(name, 0) == behind[name]]
            if len(done) == len(names) or time.monotonic() > until:
                return {name: {**NONE, **(self._closed[name] + opened[name])} for name in done}
