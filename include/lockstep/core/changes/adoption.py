"""Decides where a pipeline begins that takes over from another reader, and what it cannot read any more."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lockstep.core.changes.evolution import DIGEST_LETTERS
from lockstep.core.changes.readers import IN_DEFINITION, offsets_text
from lockstep.core.errors import Refusal
from lockstep.core.offsets import OffsetRange, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lockstep.core.changes.readers import Reader, Standing
    from lockstep.core.offsets import Bounds, TopicView


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
    view: TopicView
    places: tuple[ReaderPlace, ...]
    words: str

    @property
    def digest(self) -> str:
        """Returns the digest of what is decided: where each partition begins, and what is lost there.

        The log's end is not part of it, because producers go on.
        """
        text = json.dumps(
            {
                "pipeline": self.pipeline,
                "reader": self.reader.document(),
                "log": [self.view.cluster_id, self.view.topic, self.view.topic_id],
                "from": [[each.topic_partition.partition, each.stands, each.first] for each in self.places],
            },
            sort_keys=True,
        )
        return sha256(text.encode()).hexdigest()[:DIGEST_LETTERS]

    @property
    def starts(self) -> dict[int, int]:
        """Returns the offset at which each partition's stream begins. Lost offsets lie behind it."""
        return {each.topic_partition.partition: each.stands for each in self.places}

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
        losses = "".join(f" --accept-loss {each.topic_partition.partition}" for each in self.lost)
        return f"lockstep adopt {self.pipeline} {self.words} --apply {self.digest}{losses} --reason ..."

    def require_accepted(self, accepted: Collection[int]) -> None:
        """Raises `Refusal` unless exactly the partitions with lost offsets are named."""
        lost = {each.topic_partition.partition: each for each in self.lost}
        for partition in sorted(set(accepted) - lost.keys()):
            raise Refusal(
                f"{self.pipeline}: nothing of partition {partition} is lost", next_command=self.next_command()
            )
        for _, each in sorted((p, each) for p, each in lost.items() if p not in accepted):
            raise Refusal(
                f"{each} was deleted from the log and not read before: it is lost, and a person must accept that",
                next_command=self.next_command(),
            )


def adoption_of(pipeline: str, standing: Standing, given: Mapping[int, int], view: TopicView) -> Adoption:
    """Returns where the pipeline begins: where the reader stands, and at the given offsets in partitions without one.

    Raises `Refusal` unless this is one offset within the log for each partition of the topic.
    """
    reader = standing.reader
    for partition in sorted(given.keys() & standing.offsets.keys()):
        rest = {p: offset for p, offset in given.items() if p not in standing.offsets}
        raise Refusal(
            f"{view.topic}-{partition}: {reader.stands} {standing.offsets[partition]}, and --at says "
            f"{given[partition]}: --at is for partitions that it has no offset in",
            next_command=f"lockstep adopt {pipeline} {_words(reader, rest)}",
        )
    stands = {**standing.offsets, **given}
    for partition in sorted(stands.keys() - view.bounds.keys()):
        raise Refusal(
            f"{view.topic} has no partition {partition}, and {reader.stands} {stands[partition]} there: "
            f"its partitions are {', '.join(map(str, sorted(view.bounds)))}",
            next_command=f"lockstep status {pipeline}",
        )
    missing = {p: bounds for p, bounds in view.bounds.items() if p not in stands}
    for partition, bounds in sorted(missing.items()):
        at = {**given, **{p: each.log_start for p, each in missing.items()}}
        raise Refusal(
            f"{view.topic}-{partition}: {reader.shown} has no offset there, and the log holds "
            f"[{bounds.log_start}, {bounds.stable_end})",
            next_command=f"lockstep adopt {pipeline} {_words(reader, at)}",
        )
    for partition, offset in sorted(stands.items()):
        if offset > view.bounds[partition].stable_end:
            raise Refusal(
                f"{view.topic}-{partition}: {reader.stands} {offset}, past the log's end "
                f"{view.bounds[partition].stable_end}: it has read another log, or a transaction is open",
                next_command=f"lockstep status {pipeline}",
            )
    places = tuple(ReaderPlace(TopicPartition(view.topic, p), at, view.bounds[p]) for p, at in sorted(stands.items()))
    return Adoption(pipeline, reader, view, places, _words(reader, given))


def named_starts(pipeline: str, offsets: Mapping[int, int], view: TopicView) -> dict[int, int]:
    """Returns the offsets that a definition names as its start. Refuses what an adoption of them would refuse."""
    begin = adoption_of(pipeline, IN_DEFINITION, offsets, view)
    begin.require_accepted(())
    return begin.starts


def _words(reader: Reader, given: Mapping[int, int]) -> str:
    """Returns the options of a call that names this reader and these offsets."""
    return " ".join(each for each in (reader.words, f"--at {offsets_text(given)}" if given else "") if each)
