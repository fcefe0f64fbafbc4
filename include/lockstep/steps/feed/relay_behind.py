"""Relays every feed of a pipeline behind its batches. A relay that stops is told, and fails nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal, Superseded
from lockstep.core.pipeline.targets import topics_of
from lockstep.core.planning.decisions import Blocked
from lockstep.steps.feed.relay import relay

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from lockstep.core.feed.feeds import Topic
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.steps.context import Context


@dataclass(slots=True)
class Relays:
    """The outcome of a pipeline's relays: the changes they sent, and a warning for each one that stopped."""

    sent: int = 0
    warnings: list[dict[str, Any]] = field(default_factory=list)


def relay_behind(at: Context, pipeline: Pipeline, owner: str, say: Callable[[str], None] = lambda _: None) -> Relays:
    """Sends what the pipeline's feeds have and their topics have not. Never raises a refusal.

    Another relay that works on a feed is no warning, because that one sends.
    """
    done = Relays()
    for target, topic in topics_of(pipeline.targets):
        say(f"sending the changes of {target.table}")
        try:
            report = relay(at, pipeline, target, owner)
        except Superseded:
            continue
        except Refusal as refusal:
            done.warnings.append(
                _warning(topic, refusal.message, refusal.next_command or f"lockstep relay {pipeline.name}")
            )
            continue
        done.sent += report.sent
        if isinstance(report.stopped, Blocked):
            done.warnings.append(_warning(topic, report.stopped.reason, report.stopped.next_command))
    return done


def _warning(topic: Topic, message: str, remedy: str) -> dict[str, Any]:
    nowhere = dict.fromkeys(("partition", "from_offset", "until_offset", "records", "seconds"))
    return {"kind": "relay_stopped", "topic": topic.name, "message": message, "next": remedy} | nowhere
