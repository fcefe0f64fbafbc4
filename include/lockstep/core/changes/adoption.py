"""Decides where a pipeline begins that takes over from another reader, and what it cannot read any more."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lockstep.core.changes.readers import IN_DEFINITION, offsets_text
from lockstep.core.errors import Refusal
from lockstep.core.offsets import OffsetRange, TopicPartition, TopicViews

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lockstep.core.changes.readers import Reader, Standing
    from lockstep.core.offsets import Bounds, LogView, TopicView


@dataclass(frozen=True, slots=True)
class ReaderPlace:
    """The next offset of another reader in one partition, and the log's bounds there."""

    topic_partition: TopicPartition
    stands: int
    bounds: Bounds

    @property
    def lost(self) -> OffsetRange | None:
        """Returns the offsets that the reader has not read and the log holds no more, or None."""
        if self.bounds.log_start <= self.stands:
            return None
        return OffsetRange(self.topic_partition, self.stands, self.bounds.log_start)

    @property
    def first(self) -> int:
        """Returns the offset that Lockstep reads first."""
        return max(self.stands, self.bounds.log_start)

    def document(self) -> dict[str, Any]:
        """Describes the place, for `--json`."""
        return {
            "topic": self.topic_partition.topic,
            "partition": self.topic_partition.partition,
            "stands": self.stands,
            "log_start": self.bounds.log_start,
            "log_end": self.bounds.stable_end,
            "first": self.first,
            "waiting": self.bounds.stable_end - self.first,
            "lost": self.first - self.stands,
        }


@dataclass(frozen=True, slots=True)
class Adoption:
    """The beginning of a pipeline where another reader stands, partition by partition."""

    pipeline: str
    reader: Reader
    view: LogView
    places: tuple[ReaderPlace, ...]
    words: str

    @property
    def digest(self) -> str:
        """Returns the digest of what is decided: where each partition begins, and what is lost there.

        The log's end is not part of it, because producers go on.
        """
        named = isinstance(self.view, TopicViews)
        logs = [[self.view.cluster_id, each.topic, each.topic_id] for each in self.view.topics]
        begin = [
            [str(each.topic_partition) if named else each.topic_partition.partition, each.stands, each.first]
            for each in self.places
        ]
        facts = {"pipeline": self.pipeline, "reader": self.reader.document(), "from": begin}
        text = json.dumps(facts | {"log": logs if named else logs[0]}, sort_keys=True)
        return sha256(text.encode()).hexdigest()

    @property
    def starts(self) -> dict[str, dict[int, int]]:
        """Returns, per topic and partition, the offset at which its stream begins. Lost offsets lie behind it."""
        found: dict[str, dict[int, int]] = {view.topic: {} for view in self.view.topics}
        for each in self.places:
            found[each.topic_partition.topic][each.topic_partition.partition] = each.stands
        return found

    @property
    def lost(self) -> list[OffsetRange]:
        """Returns the offsets that nothing has read and nothing can read."""
        return [each.lost for each in self.places if each.lost]

    def document(self) -> dict[str, Any]:
        """Describes the beginning, for `--json`."""
        return {
            "pipeline": self.pipeline,
            "reader": self.reader.document(),
            "digest": self.digest,
            "from": [each.document() for each in self.places],
        }

    def decision(self) -> dict[str, Any]:
        """Describes the beginning, for the ledger."""
        return {
            "digest": self.digest,
            "reader": self.reader.document(),
            "from": [
                {"topic": at.topic_partition.topic, "partition": at.topic_partition.partition, "offset": at.stands}
                for at in self.places
            ],
        }

    def next_command(self) -> str:
        """Returns the command that begins there, with each loss by its partition."""
        losses = "".join(f" --accept-loss {_shown(each.topic_partition, self.view)}" for each in self.lost)
        return f"lockstep adopt {self.pipeline} {self.words} --apply {self.digest}{losses} --reason ..."

    def require_accepted(self, accepted: Collection[TopicPartition]) -> None:
        """Raises `Refusal` unless exactly the partitions with lost offsets are named."""
        lost = {each.topic_partition: each for each in self.lost}
        for partition in sorted(set(accepted) - lost.keys()):
            raise Refusal(
                f"{self.pipeline}: nothing of partition {_shown(partition, self.view)} is lost",
                next_command=self.next_command(),
            )
        for _, each in sorted((at, each) for at, each in lost.items() if at not in accepted):
            raise Refusal(
                f"{each} was deleted from the log and not read before: it is lost, and a person must accept that",
                next_command=self.next_command(),
            )


def adoption_of(pipeline: str, standing: Standing, given: Mapping[TopicPartition, int], view: LogView) -> Adoption:
    """Returns where the pipeline begins: where the reader stands, and at the given offsets in partitions without one.

    Raises `Refusal` unless this is one offset within the log for each partition of each topic.
    """
    reader, bounds_at = standing.reader, view.partitions
    for at in sorted(given.keys() & standing.offsets.keys()):
        rest = {each: offset for each, offset in given.items() if each not in standing.offsets}
        raise Refusal(
            f"{at}: {reader.stands} {standing.offsets[at]}, and --at says "
            f"{given[at]}: --at is for partitions that it has no offset in",
            next_command=f"lockstep adopt {pipeline} {_words(reader, rest, view)}",
        )
    stands = {**standing.offsets, **given}
    for at in sorted(stands.keys() - bounds_at.keys()):
        known = ", ".join(str(each.partition) for each in sorted(bounds_at) if each.topic == at.topic) or "none"
        raise Refusal(
            f"{at.topic} has no partition {at.partition}, and {reader.stands} {stands[at]} there: "
            f"its partitions are {known}",
            next_command=f"lockstep status {pipeline}",
        )
    missing = {at: bounds for at, bounds in bounds_at.items() if at not in stands}
    for at, bounds in sorted(missing.items(), key=lambda each: each[0]):
        words = {**given, **{place: each.log_start for place, each in missing.items()}}
        raise Refusal(
            f"{at}: {reader.shown} has no offset there, and the log holds [{bounds.log_start}, {bounds.stable_end})",
            next_command=f"lockstep adopt {pipeline} {_words(reader, words, view)}",
        )
    for at, offset in sorted(stands.items()):
        if offset > bounds_at[at].stable_end:
            raise Refusal(
                f"{at}: {reader.stands} {offset}, past the log's end "
                f"{bounds_at[at].stable_end}: it has read another log, or a transaction is open",
                next_command=f"lockstep status {pipeline}",
            )
    places = tuple(ReaderPlace(at, offset, bounds_at[at]) for at, offset in sorted(stands.items()))
    return Adoption(pipeline, reader, view, places, _words(reader, given, view))


def named_starts(pipeline: str, offsets: Mapping[int, int], view: TopicView) -> dict[int, int]:
    """Returns the offsets that a definition names as its start. Refuses what an adoption of them would refuse."""
    named = {TopicPartition(view.topic, partition): offset for partition, offset in offsets.items()}
    begin = adoption_of(pipeline, IN_DEFINITION, named, view)
    begin.require_accepted(())
    return begin.starts[view.topic]


def _shown(at: TopicPartition, view: LogView) -> str:
    """Returns a partition as the command line takes it: with its topic, where there are several."""
    return str(at) if view.option(at.topic) else str(at.partition)


def _words(reader: Reader, given: Mapping[TopicPartition, int], view: LogView) -> str:
    """Returns the options of a call that names this reader and these offsets."""
    at = f"--at {offsets_text(given, named=isinstance(view, TopicViews))}" if given else ""
    return " ".join(each for each in (reader.words, at) if each)
