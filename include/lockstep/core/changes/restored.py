"""Compares a restored ledger with the places that remember more. Says what each guarantee then needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.core.offsets import OffsetRange
from lockstep.core.pipeline.definition import AtLeastOnce, AtMostOnce, Files
from lockstep.core.pipeline.guarantees import Delivered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from lockstep.core.feed.relaying import RelayLook
    from lockstep.core.offsets import Stream, TopicPartition
    from lockstep.core.pipeline.definition import Pipeline


@dataclass(frozen=True, slots=True, order=True)
class SeenBatch:
    """One batch and stream as a store holds it. `token` is None if only rows show it."""

    stream_id: int
    from_offset: int
    until_offset: int
    batch_id: int
    token: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence that the ledger went back in time.

    `told` are offsets past the position that the consumer group was shown as committed. `strange` lists batches and
    attempts of the store that the ledger does not know. `ahead` lists contents of the store at or past the position.
    The records of these offsets are read again.
    """

    told: tuple[OffsetRange, ...]
    strange: tuple[SeenBatch, ...]
    ahead: tuple[SeenBatch, ...]
    past_token: int
    past_batch: int
    past_stream: int

    @property
    def found(self) -> bool:
        """Returns True if any other place is ahead of the ledger."""
        return bool(self.told or self.strange)


def ahead_of(streams: Iterable[Stream], seen: Sequence[SeenBatch]) -> tuple[SeenBatch, ...]:
    """Returns what a store holds at or past the position of its stream."""
    positions = {stream.stream_id: stream.position for stream in streams}
    return tuple(sorted(each for each in seen if each.until_offset > positions.get(each.stream_id, each.until_offset)))


def told_beyond(streams: Iterable[Stream], group: Mapping[TopicPartition, int]) -> tuple[OffsetRange, ...]:
    """Returns the offsets between each position and the offset that the consumer group was shown."""
    return tuple(
        OffsetRange(stream.topic_partition, stream.position, group[stream.topic_partition])
        for stream in sorted(streams)
        if group.get(stream.topic_partition, 0) > stream.position
    )


def needs(pipeline: Pipeline, evidence: Evidence, beside: Iterable[str] = ()) -> tuple[str, ...]:
    """Returns what the guarantee needs now, one sentence for each thing.

    `beside` are those of relays, windows and lake tables, and come after those of the rows.
    """
    run = f"lockstep run {pipeline.name} reads these records again"
    last = run if evidence.told else f"lockstep run {pipeline.name} goes on at the ledger's positions"
    if not isinstance(pipeline.guarantee, Delivered) or pipeline.store is None:
        return (
            f"rows and offsets went back together, so nothing is to be mended: {last}",
            *_of_feeds(pipeline),
            *beside,
        )
    said = [_of_ahead(pipeline, each, run) for each in evidence.ahead]
    said += [
        f"{_where(each)} holds results of batch {each.batch_id}, which this ledger does not know: "
        f"lockstep replay {pipeline.name} over these offsets brings its own"
        for each in evidence.strange
        if each not in evidence.ahead
    ]
    return tuple(said) or (f"the store holds nothing past the position: {last}",)


def _of_feeds(pipeline: Pipeline) -> tuple[str, ...]:
    return tuple(
        f"numbers of the feed of {target.table} are given again, in another timeline, so a reader by SQL begins anew: "
        f"lockstep changes {pipeline.name} --target {target.table} --snapshot --json"
        for target in pipeline.targets
        if target.feed is not None
    )


def relay_need(pipeline: str, table: str, look: RelayLook, next_number: int) -> str:
    """Returns what a feed's topic has and the ledger does not know, with the command that leads the relay on.

    Changes below both numbers are the same ones in the topic and in the ledger.
    """
    relay = f"lockstep relay {pipeline}"
    if look.unknown or look.topic is None:
        return f"what the topic of {table} has is not known ({look.unknown}): {relay} looks at it"
    if look.blocked is None:
        return f"{look.topic} has no change of {table} that the ledger does not know: {relay} goes on"
    if look.cursor is None or not look.is_ahead:
        return f"{look.blocked.reason}: {look.blocked.next_command}"
    number = min(look.cursor, next_number)
    return (
        f"{look.topic} has the changes of {table} below number {look.cursor}, and the ledger those below {next_number}: "
        f"{relay} --target {table} --restart-at {number} --reason WHY, and numbers from {number} on are sent again"
    )


def windows_need(pipeline: str, table: str, watermark: datetime | None) -> str:
    """Returns which windows are shown again, and by which command."""
    at = "before the first window" if watermark is None else f"at {watermark:%Y-%m-%dT%H:%M:%SZ}"
    return (
        f"the watermark of {table} is {at} again, and each _revision beyond it is given again: lockstep run {pipeline} shows "
        f"these windows, and a reader that keeps revisions reads {table} anew"
    )


def lost_table_need(pipeline: str, table: str, found: str) -> str:
    """Returns how a lake table is led on whose pointer names files that upkeep has deleted since the backup."""
    return (
        f"{table} cannot be read: {found}: the backup is older than LOCKSTEP_LAKE_KEEP. Put these files back from the "
        f"versions or a backup of the store, or restore a younger backup, then lockstep restored {pipeline} --preview; or "
        f"let another pipeline read the records anew: lockstep clone {pipeline} --to ANOTHER_NAME, then lockstep migrate "
        "ANOTHER_NAME, lockstep run ANOTHER_NAME --until-idle, lockstep verify ANOTHER_NAME --deep"
    )


def _of_ahead(pipeline: Pipeline, each: SeenBatch, run: str) -> str:
    if isinstance(pipeline.guarantee, AtLeastOnce):
        place = pipeline.store.path if isinstance(pipeline.store, Files) else pipeline.first.table
        return f"{_where(each)} will stand twice in {place}: {run}; remove what is there first, or accept the doubles"
    if isinstance(pipeline.guarantee, AtMostOnce):
        return f"{_where(each)} is there already: {run}, and its delivery takes these rows out before it brings them"
    return f"{_where(each)} is written again over itself: {run}"


def _where(each: SeenBatch) -> str:
    return f"stream {each.stream_id} [{each.from_offset}, {each.until_offset})"
