"""Sends what feeds have behind each run, where a feed has a topic. A relay that fails fails no commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, get_current_context, task

from lockstep.adapters.airflow.names import AirflowFailException, AirflowSkipException
from lockstep.airflow.door import emit_news, task_caller
from lockstep.core.pipeline.targets import topics_of
from lockstep.core.planning.decisions import Blocked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import XComArg

    from lockstep.airflow.door import Door
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.steps.feed.relay import RelayReport


def topic_assets(pipeline: Pipeline) -> dict[str, Asset]:
    """Returns the asset of each topic that a pipeline's feeds are sent to, by its name.

    A URI `kafka://TOPIC` is none to Airflow's Kafka provider, which wants a broker's address before the topic.
    """
    topics = [topic.name for _, topic in topics_of(pipeline.targets)]
    return {
        topic: Asset(name=f"kafka://{topic}", uri=f"lockstep://kafka/{topic}", group="lockstep") for topic in topics
    }


def send_behind(door: Door, pipeline: Pipeline, announced: XComArg) -> None:
    """Adds the task `relay` behind a run, if a feed of the pipeline has a topic. It also runs behind an idle run.

    Several topics have a mapped task each: one that is blocked keeps no other from telling what it has sent.
    """
    assets = topic_assets(pipeline)
    if not assets:
        return
    outlets = list(assets.values())

    @task(trigger_rule="none_failed", inlets=outlets, outlets=outlets)
    def relay(topic: str) -> None:
        """Sends each change that a topic has not, once, by transactions that carry the cursor."""
        send_changes(door, topic, assets[topic])

    if len(assets) == 1:
        announced >> relay(*assets)
    else:
        announced >> relay.override(map_index_template="{{ topic }}").expand(topic=list(assets))


def send_changes(door: Door, topic: str, asset: Asset) -> None:
    """Sends the feed of a topic. The topic's asset event has the first and last number that no event has told.

    The last event is read from Airflow. So the numbers that a dead try has sent are told by the next one. Skips the task
    if there are none. A relay that needs a decision fails it without a retry.
    """
    from lockstep.airflow import logs
    from lockstep.steps.feed.relay import relay

    context = get_current_context()
    context["topic"] = topic  # type: ignore[typeddict-unknown-key]  # the task's name in its row of the grid
    with door.opened("relay") as at:
        pipeline = door.folder().pipeline
        target = next((target for target, each in topics_of(pipeline.targets) if each.name == topic), None)
        if target is None:
            raise AirflowSkipException(f"{pipeline.name}: no feed is sent to {topic} any more")
        report = relay(at, pipeline, target, task_caller().owner)
    sent = _untold(report, context["inlet_events"][asset].ascending(ascending=False).limit(1))
    numbers = {topic: sent} if sent else {}
    line = f"{target.table}: {report.sent:,} changes sent to {topic}"
    logs.log_facts("relay", [line], {"pipeline": door.pipeline, "sent": numbers})
    if isinstance(report.stopped, Blocked):
        raise AirflowFailException(f"{report.stopped.reason}  Next: {report.stopped.next_command}")
    if sent is None:
        raise AirflowSkipException(report.stopped.reason if report.stopped else "nothing waits to be sent")
    emit_news(context, {asset: sent})


def _untold(report: RelayReport, last: Sequence[Any]) -> dict[str, Any] | None:
    """Returns the numbers that the topic has got since the last event, or None if there are none.

    A relay that began anew at an earlier number has sent some of them once more.
    """
    if report.began is None:
        return None
    extra: Mapping[str, Any] = (last[0].extra or {}) if len(last) else {}
    first = min(report.began, extra["last"] + 1 if "last" in extra else report.relayed.began_at)
    until = report.relayed.confirmed
    return {"first": first, "last": until - 1} if first < until else None
