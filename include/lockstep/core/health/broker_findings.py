"""Checks that a topic's records survive its brokers, and are the same when they are read again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lockstep.core.health.findings import Check, Finding, Judged, problem, warning
from lockstep.core.pipeline.definition import Accumulate, Append, History, Upsert, Windows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.core.pipeline.definition import Pipeline, Target

COPIES = 3
FUTURE = timedelta(days=1)
LOG_LOSES = "offsets that are committed here are gone from the log, or stand for other records, and the pipeline stops"


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The facts of a topic: copies, cluster size, and settings in force.

    The settings are None if the login may not read them.
    """

    bootstrap: str
    topic: str
    brokers: int
    partitions: int
    copies: int  # of the partition that has the fewest
    settings: Mapping[str, str] | None

    def word(self, name: str, default: str) -> str:
        """Returns a setting, or `default` if the broker does not know it."""
        return (self.settings or {}).get(name, default)

    def number(self, name: str) -> int:
        """Returns a setting that is a number, or -1 if the broker does not know it."""
        return int(self.word(name, "-1"))

    @property
    def cluster(self) -> str:
        """Returns the subject of what holds for each topic of the cluster, so that a report says it once."""
        return f"cluster {self.bootstrap}"

    def set_to(self, setting: str) -> str:
        """Returns the command that gives the topic the setting `name=value`."""
        return (
            f"kafka-configs.sh --bootstrap-server {self.bootstrap} --entity-type topics --entity-name {self.topic}"
            f" --alter --add-config {setting}"
        )


def broker_findings(pipeline: Pipeline, facts: TopicFacts, cores: int | None) -> Judged:
    """Judges durability, compaction, clocks and partitions of the pipeline's topic."""
    if facts.settings is None:
        return [unreadable(facts), replication(facts), partition_findings(facts, cores)]
    return [
        None,
        replication(facts),
        in_sync(facts),
        unclean(facts),
        cleanup(facts, pipeline),
        timestamps(facts),
        partition_findings(facts, cores),
    ]


def unreadable(facts: TopicFacts) -> Finding:
    """Warns that the login may not read the topic's settings. Reading records does not need that right."""
    return warning(
        Check.TOPIC,
        f"topic {facts.topic}",
        "its settings may not be read",
        "nobody can tell here whether retention, durability and clocks are right; `lockstep status` is refused",
        f"kafka-acls.sh --bootstrap-server {facts.bootstrap} --add --allow-principal User:NAME"
        f" --operation DescribeConfigs --topic {facts.topic}",
    )


def replication(facts: TopicFacts) -> Finding | None:
    """Reports a topic with a single copy, which is lost with its disk. Only warns in a cluster of one broker."""
    if facts.copies > 1:
        return None
    alone = facts.brokers == 1
    return (warning if alone else problem)(
        Check.REPLICATION,
        facts.cluster if alone else f"topic {facts.topic}",
        "1, in a cluster of one broker" if alone else f"1, in a cluster of {facts.brokers} brokers",
        f"the only copy goes with its disk: {LOG_LOSES}",
        f"run {COPIES} brokers and give the topic {COPIES} copies, where the records matter"
        if alone
        else f"kafka-reassign-partitions.sh --bootstrap-server {facts.bootstrap} --execute"
        f" --reassignment-json-file FILE, with {min(COPIES, facts.brokers)} replicas for each partition of {facts.topic}",
    )


def in_sync(facts: TopicFacts) -> Finding | None:
    """Reports a `min.insync.replicas` that is below two, or not below the number of copies.

    A record that one broker acknowledges is lost with that broker. If all copies are needed, one broker can stop the
    producers.
    """
    needed, subject = facts.number("min.insync.replicas"), f"topic {facts.topic}"
    if needed > facts.copies:
        return problem(
            Check.IN_SYNC,
            subject,
            f"{needed}, and the topic has {facts.copies} copies",
            "no producer with acks=all can write: nothing new ever arrives",
            facts.set_to(f"min.insync.replicas={max(1, facts.copies - 1)}"),
        )
    if needed < 2:  # noqa: PLR2004 - one copy is not enough, two are
        alone = facts.brokers == 1
        return (warning if alone else problem)(
            Check.IN_SYNC,
            facts.cluster if alone else subject,
            f"{needed}, in a cluster of one broker" if alone else f"{needed}, of {facts.copies} copies",
            f"a record is acknowledged when one broker has it, and gone when that broker is: {LOG_LOSES}",
            f"set min.insync.replicas=2 for each topic, once it has {COPIES} copies"
            if alone
            else facts.set_to("min.insync.replicas=2")
            + (f", once it has {COPIES} copies" if facts.copies < COPIES else ""),
        )
    if needed == facts.copies:
        return warning(
            Check.IN_SYNC,
            subject,
            f"{needed}, as many as there are copies",
            "one broker that is away, for an upgrade even, refuses every producer with acks=all",
            f"give the topic {needed + 1} copies, or {facts.set_to(f'min.insync.replicas={needed - 1}')}",
        )
    return None


def unclean(facts: TopicFacts) -> Finding | None:
    """Reports unclean leader election. A leader that lacks records serves their offsets again with other records."""
    if facts.word("unclean.leader.election.enable", "false") != "true":
        return None
    return problem(
        Check.UNCLEAN,
        f"topic {facts.topic}",
        "true",
        f"a broker that lags behind may become leader: {LOG_LOSES}",
        facts.set_to("unclean.leader.election.enable=false"),
    )


def cleanup(facts: TopicFacts, pipeline: Pipeline) -> Finding | None:
    """Warns about compaction, which keeps the newest record of each key.

    A replay then reads fewer records than the first run.
    """
    policy = facts.word("cleanup.policy", "delete")
    if "compact" not in policy:
        return None
    then = "; ".join(dict.fromkeys(_again(target, facts) for target in pipeline.targets))
    return warning(
        Check.CLEANUP,
        f"topic {facts.topic}",
        policy,
        f"compaction takes older records of a key away: {then}",
        f"{facts.set_to('cleanup.policy=delete')}, or look first: lockstep replay {pipeline.name} --from X --until Y --preview",
    )


def _again(target: Target, facts: TopicFacts) -> str:
    """Says what a replay does to the target if it reads fewer records than the first run."""
    match target:
        case History():
            return "a replay deletes the versions of its offsets and reads fewer again, and other versions last longer"
        case Append():
            return "a replay deletes the rows of its offsets and reads fewer again"
        case Accumulate() | Windows():
            return "a replay takes what its offsets added out of the totals and reads fewer of them again"
        case Upsert():
            kept = facts.word("delete.retention.ms", "?")
            return (
                "a replay sees only the newest of each key, and a deletion that is not read within delete.retention.ms "
                f"({kept}) is never seen"
            )


def timestamps(facts: TopicFacts) -> Finding | None:
    """Warns if a producer's clock may run ahead. Such records keep old segments alive and close times too early."""
    kind, ahead = facts.word("message.timestamp.type", "CreateTime"), "message.timestamp.after.max.ms"
    limit = facts.number(ahead)
    if kind == "LogAppendTime" or 0 <= limit <= FUTURE / timedelta(milliseconds=1):
        return None
    return warning(
        Check.TIMESTAMPS,
        f"topic {facts.topic}",
        f"{kind}, with {ahead}={limit}",
        "producers may date records far into the future: retention then keeps their segments, and a --from or --until"
        " by time finds the wrong offset",
        facts.set_to(f"{ahead}=3600000") + ", or message.timestamp.type=LogAppendTime",
    )


def partition_findings(facts: TopicFacts, cores: int | None) -> Finding | None:
    """Warns if partitions are too few for the cores. One task reads a partition, so some cores stand idle."""
    if cores is None or ((facts.partitions > 1 or cores == 1) and facts.partitions * 2 >= cores):
        return None
    return warning(
        Check.PARTITIONS,
        f"topic {facts.topic}",
        f"{facts.partitions}, for {cores} cores",
        f"a partition is read by one Spark task, so {cores - facts.partitions} of {cores} cores have nothing to read",
        f"kafka-topics.sh --bootstrap-server {facts.bootstrap} --alter --topic {facts.topic} --partitions {cores}"
        " (keys move to other partitions), or give Spark fewer cores",
    )
