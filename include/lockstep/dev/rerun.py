"""Runs committed batches again with a Spark of this machine, on ledgers that are thrown away."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.window import WindowBroker
from lockstep.dev import scratch
from lockstep.dev.canary import local_engine
from lockstep.steps.context import Context
from lockstep.steps.requests.rehearse import rehearse_past, without_lake
from lockstep.steps.rerun.remade import Rerun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.canary import Past
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.registry import Registry


class LocalRerunner:
    """Runs batches of one pipeline again. Starts a Postgres of this process's own, and a local Spark."""

    def __init__(
        self,
        broker: Broker,
        folder: PipelineFolder,
        registry: Registry | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._broker, self._folder, self._registry, self._say = broker, folder, registry, say

    @contextmanager
    def __call__(self, past: Past, step: str) -> Iterator[Rerun]:
        """Runs the batch by the steps of a run, under its own number and time."""
        window = WindowBroker(self._broker, past.ranges)
        with scratch.scratch_ledger() as dsn, closing(Context(dsn, window)) as at:
            engine = local_engine(without_lake(self._folder), at, self._registry)
            done = rehearse_past(at, engine, self._folder, past, lambda what: self._say(f"{step}: {what}"))
            columns = [engine.columns(place) for place, _ in enumerate(self._folder.pipeline.targets)]
            yield Rerun(at.conn, done, tuple(columns))

    def outside_values(self) -> tuple[str, ...]:
        """Returns what the transforms take from outside their records, by Spark's plan, or that the definition says so."""
        if self._folder.pipeline.nondeterministic:
            return ("what nondeterministic=True allows",)
        from lockstep.engine.spark.engine import SparkEngine  # noqa: PLC0415 - it takes longer than the rest

        found = SparkEngine(self._folder, "", "").unrepeatable().values()
        return tuple(sorted({expression for expressions in found for expression in expressions}))
