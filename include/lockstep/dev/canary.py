"""Compares a transform with the live one on committed batches, on temporary ledgers."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

from lockstep.adapters.kafka.window import WindowBroker
from lockstep.core.planning.routes import Route, Way, may_end_its_reader, needs_spark
from lockstep.core.settings import REMOTE
from lockstep.dev import scratch
from lockstep.engine.chosen import engine_of
from lockstep.steps.changes.canary import CANARY, LIVE, Side, compare
from lockstep.steps.context import Context
from lockstep.steps.requests.rehearse import without_lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lockstep.core.changes.canary import Compared, Past
    from lockstep.core.engine import Engine
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.registry import Registry


def compare_batches(
    at: Context,
    live: PipelineFolder,
    canary: PipelineFolder,
    batches: Sequence[Past],
    registry: Registry | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Compared]:
    """Yields each batch under both transforms. Each gets a ledger of its own, and targets that are empty.

    Starts a Postgres of this process's own, and a local Spark if a definition needs it.
    """
    say("starting a Postgres of the canary's own")
    for past in batches:
        window = WindowBroker(at.broker, past.ranges)
        with (
            scratch.scratch_ledger() as one,
            scratch.scratch_ledger() as other,
            closing(Context(one, window)) as first,
            closing(Context(other, window)) as second,
        ):
            yield compare(
                Side(LIVE, first, local_engine(without_lake(live), first, registry), live),
                Side(CANARY, second, local_engine(without_lake(canary), second, registry), canary),
                past,
                say,
            )


def local_engine(folder: PipelineFolder, at: Context, registry: Registry | None) -> Engine:
    """Returns the engine of a run, on this machine: a Spark elsewhere cannot reach the canary's Postgres."""
    why = needs_spark(folder) or may_end_its_reader(folder.pipeline)
    choice = Route(Way.SPARK if why else Way.PROCESS, "a canary")
    return engine_of(folder, at.broker, at.dsn, lambda: registry, choice, lambda: os.environ.pop(REMOTE, None))
