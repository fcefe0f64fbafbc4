"""Looks at the topics that a pipeline's feeds are sent to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.feed.sink_findings import sink_findings
from lockstep.core.health.findings import Check, problem
from lockstep.core.pipeline.targets import topics_of

if TYPE_CHECKING:
    from lockstep.adapters.kafka.facts import SurveyedBroker
    from lockstep.core.health.broker_findings import TopicFacts
    from lockstep.core.health.findings import Judged
    from lockstep.core.pipeline.definition import Pipeline


def of_sinks(broker: SurveyedBroker, pipeline: Pipeline, source: TopicFacts) -> Judged:
    """Returns what is wrong with each topic of a feed, beside the one that is read. A missing one is a problem."""
    judged: Judged = []
    for target, topic in topics_of(pipeline.targets):
        try:
            judged += sink_findings(pipeline, target, broker.topic_facts(topic.name), source)
        except Unreachable:
            raise
        except Refusal as refusal:
            remedy = f"say partitions of the Topic, then lockstep migrate {pipeline.name}, or make the topic"
            why = f"the changes of {target.table} cannot be sent"
            judged.append(problem(Check.TOPIC, f"topic {topic.name}", " ".join(refusal.message.split()), why, remedy))
    return judged
