"""Decides for many pipelines at once, where one look at ledger and broker is enough for a plan's own decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.health.ownership import Owner, tables_of
from lockstep.core.pipeline.targets import shares
from lockstep.core.planning.blocked import has_new_epoch
from lockstep.core.planning.decisions import Caller, Idle, Situation, Start
from lockstep.core.planning.live import decide, waiting_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockstep.core.health.ownership import Table
    from lockstep.core.offsets import LogView, Stream
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.planning.decisions import Pace

NOBODY = Caller("nobody")  # a look is of no caller: it holds no lease and has no key


@dataclass(frozen=True, slots=True)
class Known:
    """The ledger's facts of one pipeline, as one statement reads them for many.

    `needs_plan` is True where a decision rests on more: an unfinished batch, or a promoted transform.
    """

    streams: tuple[Stream, ...]
    bound_by: tuple[Mapping[str, Any], ...] = ()
    pause: str | None = None
    owns: Mapping[Table, Owner] | None = None
    needs_plan: bool = False
    forgotten: bool = False


def is_plain(pipeline: Pipeline, known: Known, view: LogView) -> bool:
    """Returns True if these facts are all that a plan would decide by.

    The partitions must be those of the streams, each under the leader that a plan has seen last.
    """
    return (
        not known.needs_plan
        and pipeline.archive is None
        and bool(known.streams)
        and {stream.topic_partition for stream in known.streams} == view.partitions.keys()
        and not any(has_new_epoch(stream, view) for stream in known.streams)
    )


def has_waiting(streams: Sequence[Stream], view: LogView) -> bool:
    """Returns True if an offset waits in one of these streams."""
    return any(waiting_offsets(stream, view) for stream in streams)


def decide_at_a_glance(pipeline: Pipeline, known: Known, view: LogView, pace: Pace) -> Start | Idle | None:
    """Returns a plan's decision, if the facts are plain and no person is needed. None is for a plan to decide.

    One answer of a broker blocks nothing (T6), and so a glance does not, either.
    """
    if not is_plain(pipeline, known, view):
        return None
    situation = Situation(view, known.streams, pause=known.pause, pace=pace, bound_by=known.bound_by)
    match decide(pipeline, situation, NOBODY):
        case Idle() as idle:
            return idle
        case Start() as start if _owns_its_tables(pipeline, known):
            return start
        case _:
            return None


def _owns_its_tables(pipeline: Pipeline, known: Known) -> bool:
    recorded = known.owns or {}
    return all(recorded.get(t) == Owner(pipeline.name, shares(target)) for t, target in tables_of(pipeline).items())
