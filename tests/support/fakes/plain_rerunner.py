"""Provides what runs batches again without Spark: the steps of a run, on a ledger that is thrown away."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.window import WindowBroker
from lockstep.dev import scratch
from lockstep.steps.context import Context
from lockstep.steps.requests.rehearse import rehearse_past
from lockstep.steps.rerun.remade import Rerun
from support.fakes.plain_engine import PlainEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.changes.canary import Past
    from support.scenes.here import Here


class PlainRerunner:
    """Runs batches of the drill again by the code that the test has given. `ran` are the batches, in order."""

    def __init__(self, here: Here) -> None:
        self.here = here
        self.outside: tuple[str, ...] = ()
        self.ran: list[int] = []

    @contextmanager
    def __call__(self, past: Past, _step: str) -> Iterator[Rerun]:
        self.ran.append(past.batch_id)
        window = WindowBroker(self.here.at.broker, past.ranges)
        with scratch.scratch_ledger() as dsn, closing(Context(dsn, window)) as at:
            engine = PlainEngine(self.here.folder, self.here.drill.kafka, dsn, self.here.code)
            done = rehearse_past(at, engine, self.here.folder, past)
            columns = [engine.columns(place) for place, _ in enumerate(self.here.folder.pipeline.targets)]
            yield Rerun(at.conn, done, tuple(columns))

    def outside_values(self) -> tuple[str, ...]:
        return self.outside
