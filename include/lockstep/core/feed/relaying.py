"""Decides where a relay goes on: by what Kafka has, and by what the ledger knows of it (E17)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lockstep.core.planning.decisions import Blocked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lockstep.core.offsets import TopicView

NUMBER_HEADER = "lockstep.number"


class FeedRecord(NamedTuple):
    """A record of a feed's topic. `value` is None for a tombstone. `at_ms` is when the change was committed."""

    number: int
    seq: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]
    at_ms: int


@dataclass(frozen=True, slots=True)
class SinkLog:
    """The log that a feed is sent to: its cluster, its identity there, and its number of partitions."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: int

    @classmethod
    def seen(cls, view: TopicView) -> SinkLog:
        """Returns the log that the broker shows now."""
        return cls(view.cluster_id, view.topic, view.topic_id, len(view.bounds))


@dataclass(frozen=True, slots=True)
class Relayed:
    """The ledger's knowledge of a relay. Numbers are of changes.

    All below `confirmed` are known to be in Kafka. A transaction up to `intent` was begun, if there is an intent. `log` is
    None until the first relay.
    """

    pipeline: str
    target: str
    topic: str
    transactional_id: str
    log: SinkLog | None
    confirmed: int
    intent: int | None
    kept_from: int
    next_number: int
    began_at: int

    @property
    def is_untouched(self) -> bool:
        """Returns True if no relay has ever begun a transaction since the feed's beginning or a restart."""
        return self.confirmed == self.began_at and self.intent is None

    def other_sink(self, log: SinkLog, topic: str) -> Blocked | None:
        """Returns why a topic is not the one that was written, or None."""
        if topic != self.topic:
            return self.blocked(f"the definition names the topic {topic}, and {self.topic} was written")
        if self.log is None:
            return None
        if log.cluster_id != self.log.cluster_id:
            return self.blocked(f"{topic} is on the cluster {log.cluster_id}, and {self.log.cluster_id} was written")
        if log.topic_id != self.log.topic_id:
            return self.blocked(
                f"{topic} was deleted and made anew: its id is {log.topic_id}, and was {self.log.topic_id}"
            )
        if log.partitions != self.log.partitions:
            return self.blocked(
                f"{topic} has {log.partitions} partitions, and had {self.log.partitions}: a key's changes would go on in "
                "another one"
            )
        return None

    def goes_on(
        self,
        cursor: int | None,
        newest: Callable[[], int | None],
        erased: Callable[[int], Collection[int]] = lambda _: (),
    ) -> int | Blocked:
        """Returns the number to go on at, or why a person must decide.

        `cursor` is what the last transaction committed, or None if Kafka has no cursor. `newest` then reads the highest
        number in the topic. A relay that was never used looks there, too: its ledger may be of an older state. `erased`
        returns the erased changes from a number on. They are not sent, so the topic may end before them.
        """
        if cursor is None:
            return self._by_the_topic(newest(), erased)
        if cursor in {self.confirmed, self.intent}:
            return cursor
        if cursor > self.confirmed:
            return self.blocked(
                f"Kafka was given the changes below number {cursor}, and the ledger knows of those below {self.confirmed}: "
                "it is an older state, or another ledger writes there"
            )
        return self.blocked(
            f"Kafka has a cursor at number {cursor}, and had acknowledged the changes below {self.confirmed}"
        )

    def _by_the_topic(self, last: int | None, erased: Callable[[int], Collection[int]]) -> int | Blocked:
        """Returns the number to go on at where Kafka has no cursor. `last` is the highest number in the topic."""
        if self.confirmed == self.began_at and (last is None or (self.is_untouched and last < self.began_at)):
            return self.began_at  # the first transaction was aborted, or there was none
        end = self.began_at if last is None else last + 1
        if last is not None and end in {self.confirmed, self.intent}:
            return end
        begin = max(end, self.began_at)
        unsent = erased(begin)
        for number in (self.confirmed, self.intent):
            if number is not None and begin < number and all(each in unsent for each in range(begin, number)):
                return number
        found = "the topic has no change" if last is None else f"the topic ends with number {last}"
        return self.blocked(f"Kafka has no cursor any more, {found}, and the ledger knows of [0, {self.confirmed})")

    def blocked(self, reason: str) -> Blocked:
        """Returns the answer that a person must say where the relay begins anew."""
        return Blocked(
            f"{self.target}: {reason}",
            f"lockstep relay {self.pipeline} --target {self.target} --restart-at NUMBER --reason WHY",
        )


@dataclass(frozen=True, slots=True)
class RelayLook:
    """A look at a relay: its cursor in Kafka, and what a person must decide. `unknown` says why neither is known.

    `is_ahead` is True if the topic that was written has changes that the ledger does not know.
    """

    cursor: int | None = None
    blocked: Blocked | None = None
    unknown: str | None = None
    topic: str | None = None
    is_ahead: bool = False
