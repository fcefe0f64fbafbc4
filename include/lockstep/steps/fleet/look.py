"""Looks at all pipelines: asks the cluster once and Postgres once, and decides as each pipeline's own plan would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import NeedsDecision, Refusal, Unreachable
from lockstep.core.fleet.glance import decide_at_a_glance, has_waiting, is_plain
from lockstep.core.offsets import TopicViews
from lockstep.core.pipeline.names import Topics, chosen_topics
from lockstep.core.pipeline.stores import require_address
from lockstep.core.planning.decisions import NO_PACE, Blocked
from lockstep.ledger.batch.plan import recent_pace
from lockstep.ledger.views.fleet import facts_of_all
from lockstep.steps.batch.plan import Planned, plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.fleet.glance import Known
    from lockstep.core.offsets import LogView
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.decisions import Caller
    from lockstep.steps.context import Context


@dataclass(frozen=True, slots=True)
class Looked:
    """The outcome of a look at one pipeline: what its plan would decide, or why it would refuse."""

    pipeline: str
    planned: Planned | None
    refusal: Refusal | None = None

    @property
    def stopped(self) -> Refusal | None:
        """Returns what keeps the pipeline from going on, as its own plan would raise it."""
        decision = self.planned.decision if self.planned else None
        if isinstance(decision, Blocked):
            return NeedsDecision(decision.reason, next_command=decision.next_command)
        return self.refusal


def look_at_all(
    at: Context, loaded: Mapping[str, PipelineFolder | Refusal], caller: Caller, now: datetime
) -> list[Looked]:
    """Returns the outcome of each pipeline that was not forgotten, in the order of the names. Records nothing.

    A pipeline about which one look does not tell all has its own plan made, as a dry run. One that is refused or blocked
    stops no other. Raises `Unreachable` if Kafka or Postgres is away.
    """
    found: dict[str, Looked] = {}
    folders: dict[str, PipelineFolder] = {}
    for name, folder in loaded.items():
        if isinstance(folder, Refusal):
            found[name] = Looked(name, None, folder)
            continue
        try:
            require_address(name, folder.pipeline.store, at.stores)
        except Refusal as refusal:
            found[name] = Looked(name, None, refusal)
        else:
            folders[name] = folder
    asked = {name: folder.pipeline for name, folder in folders.items()}
    views = logs_of(at.broker, asked.values())
    with transaction(at.conn, READER) as cur:
        known = facts_of_all(cur, [*asked, *found])
    found |= _at_a_glance(at, asked, known, views)
    return [
        found.get(name) or _as_dry_run(at, folders[name], caller, now)
        for name in sorted({*found, *folders})
        if not (name in known and known[name].forgotten)
    ]


def logs_of(broker: Broker, pipelines: Iterable[Pipeline]) -> dict[str, LogView]:
    """Returns what each pipeline would read of the cluster, by name. All topics are asked for at once.

    Omits a pipeline whose only topic is not there, or cannot be read now.
    """
    chosen = {pipeline.name: pipeline.topic for pipeline in pipelines}
    is_pattern = any(isinstance(source, Topics) for source in chosen.values())
    there = broker.topic_names() if is_pattern else []
    named = {name: chosen_topics(source, lambda: there) for name, source in chosen.items()}
    if not named:
        return {}
    seen = broker.topic_views({topic for topics in named.values() for topic in topics}, only_readable=True)
    views: dict[str, LogView] = {}
    for name, source in chosen.items():
        own = tuple(view for topic in named[name] if (view := seen.of(topic)))
        if isinstance(source, str):
            views |= {name: own[0]} if own else {}
        elif not isinstance(source, Topics) or len(named[name]) <= source.limit:
            views[name] = TopicViews(seen.cluster_id, own)
    return views


def _at_a_glance(
    at: Context, pipelines: Mapping[str, Pipeline], known: Mapping[str, Known], views: Mapping[str, LogView]
) -> dict[str, Looked]:
    """Returns the outcome of each pipeline about which this look tells all."""
    seen = [name for name in pipelines if name in known and name in views]
    plain = [name for name in seen if is_plain(pipelines[name], known[name], views[name])]
    paces = dict.fromkeys(plain, NO_PACE)
    with transaction(at.conn, READER) as cur:
        for name in plain:
            if has_waiting(known[name].streams, views[name]):
                paces[name] = recent_pace(cur, name, pipelines[name].limits)
    decided = {name: decide_at_a_glance(pipelines[name], known[name], views[name], paces[name]) for name in plain}
    return {name: Looked(name, Planned(decision, None)) for name, decision in decided.items() if decision}


def _as_dry_run(at: Context, folder: PipelineFolder, caller: Caller, now: datetime) -> Looked:
    name = folder.pipeline.name
    try:
        return Looked(name, plan(at.conn, at.broker, folder, caller, now, dry_run=True))
    except Unreachable as away:
        at.broker.topic_names()  # raises if it is the cluster, and not this pipeline's topic alone
        return Looked(name, None, away)
    except Refusal as refusal:
        return Looked(name, None, refusal)
