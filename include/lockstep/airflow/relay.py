"""Sends what feeds have behind each run, where a feed has a topic. A relay that fails fails no commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, get_current_context, task

from lockstep.adapters.airflow.names import AirflowFailException, AirflowSkipException
from lockstep.airflow.door import task_caller
from lockstep.core.pipeline.targets import topics_of
from lockstep.core.planning.decisions import Blocked, Busy

if TYPE_CHECKING:
    from airflow.sdk import XComArg

    from lockstep.airflow.door import Door
    from lockstep.core.pipeline.definition import Pipeline


def topic_assets(pipeline: Pipeline) -> dict[str, Asset]:
    """Returns the asset of each topic that a pipeline's feeds are sent to, by its name.

    A URI `kafka://TOPIC` is none to Airflow's Kafka provider, which wants a broker's address before the topic.
    """
    topics = [topic.name for _, topic in topics_of(pipeline.targets)]
    return {
        topic: Asset(name=f"kafka://{topic}", uri=f"lockstep://kafka/{topic}", group="lockstep") for topic in topics
    }


def send_behind(door: Door, pipeline: Pipeline, announced: XComArg) -> None:
    """Adds the task `relay` behind a run, if a feed of the pipeline has a topic. It also runs behind an idle run."""
    assets = topic_assets(pipeline)
    if not assets:
        return

    @task(trigger_rule="none_failed", outlets=list(assets.values()))
    def relay() -> None:
        """Sends each change that a topic has not, once, by transactions that carry the cursor."""
        send_changes(door, assets)

    announced >> relay()


def send_changes(door: Door, assets: dict[str, Asset]) -> None:
    """Sends the feeds one after another. The asset event of a topic has the first and last number that it got.

    Skips the task if nothing was sent. A relay that needs a decision fails it without a retry.
    """
    from lockstep.airflow import logs
    from lockstep.steps.feed.relay import relay

    blocked: list[Blocked] = []
    idle = "nothing waits to be sent"
    lines: list[str] = []
    numbers: dict[str, dict[str, Any]] = {}
    with door.opened("relay") as at:
        pipeline = door.folder().pipeline
        for target, topic in topics_of(pipeline.targets):
            report = relay(at, pipeline, target, task_caller().owner)
            known, stopped = report.relayed, report.stopped
            blocked += [stopped] if isinstance(stopped, Blocked) else []
            idle = stopped.reason if isinstance(stopped, Busy) else idle
            if report.sent:
                numbers[topic.name] = {"first": known.confirmed - report.sent, "last": known.confirmed - 1}
            lines.append(f"{target.table}: {report.sent:,} changes sent to {topic.name}")
    logs.log_facts("relay", lines, {"pipeline": door.pipeline, "sent": numbers})
    events = get_current_context()["outlet_events"]
    for topic_name, sent in numbers.items():
        if topic_name in assets:
            events[assets[topic_name]].extra = sent
    if blocked:
        raise AirflowFailException(f"{blocked[0].reason}  Next: {blocked[0].next_command}")
    if not numbers:
        raise AirflowSkipException(idle)
