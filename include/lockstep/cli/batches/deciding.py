"""Defines the commands for decisions, with a reason that the ledger keeps, and `reap`, which tidies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from lockstep.adapters import folders
from lockstep.cli.options import (
    LAST_OFFSET,
    BatchId,
    MaybeReason,
    Name,
    OnePartition,
    OneTopic,
    Partition,
    Reason,
    bound,
)
from lockstep.cli.output import AsJson, print_ranges, say, show
from lockstep.context.systems import broker, open_ledger, typing_person
from lockstep.core.text import cell
from lockstep.steps.inspect.lines import format_offsets, range_document

LostFromOption = Annotated[
    int,
    typer.Option("--from", help="The first lost offset: the position.", min=0, max=LAST_OFFSET, show_default=False),
]
LostUntilOption = Annotated[
    int,
    typer.Option(
        "--until", help="The first offset after the loss: log start.", min=1, max=LAST_OFFSET, show_default=False
    ),
]

StartOf = Annotated[
    str,
    typer.Option("--from", help="Where a truncated log begins anew: truncation, log-start, or an offset."),
]
SkipToOption = Annotated[
    str, typer.Option("--to", help="latest, PARTITION:OFFSET, or an ISO time.", show_default=False)
]


def pause_command(name: Name, reason: MaybeReason = None, as_json: AsJson = False) -> None:
    """Stop new batches. An unfinished one may still end."""
    from lockstep.steps.changes import decisions

    pipeline = folders.load(name).pipeline
    with open_ledger() as conn:
        changed = decisions.pause(conn, pipeline.name, typing_person(reason))
    document = {"pipeline": name, "paused": True, "changed": changed}
    show(document, as_json, lambda: say(f"{name}: {'paused' if changed else 'was paused already'}"))


def unpause_command(name: Name, reason: MaybeReason = None, as_json: AsJson = False) -> None:
    """Allow new batches again."""
    from lockstep.steps.changes import decisions

    pipeline = folders.load(name).pipeline
    with open_ledger() as conn:
        changed = decisions.unpause(conn, pipeline.name, typing_person(reason))
    document = {"pipeline": name, "paused": False, "changed": changed}
    show(document, as_json, lambda: say(f"{name}: {'goes on' if changed else 'was not paused'}"))


def abandon_command(batch_id: BatchId, reason: Reason, as_json: AsJson = False) -> None:
    """End a batch without a commit. Its offsets are free again."""
    from lockstep.steps.changes import decisions

    with open_ledger() as conn:
        changed = decisions.abandon(conn, batch_id, typing_person(reason))
    document = {"batch": batch_id, "state": "abandoned", "changed": changed}
    show(document, as_json, lambda: say(f"batch {batch_id}: {'abandoned' if changed else 'was abandoned already'}"))


def accept_loss_command(
    name: Name,
    partition: Partition,
    from_offset: LostFromOption,
    until_offset: LostUntilOption,
    reason: Reason,
    topic: OneTopic = None,
    as_json: AsJson = False,
) -> None:
    """Record deleted offsets as lost, and continue behind them."""
    from lockstep.core.offsets import OffsetRange, TopicPartition
    from lockstep.steps.changes import decisions

    if from_offset >= until_offset:
        raise typer.BadParameter(f"[{from_offset}, {until_offset}) holds no offset", param_hint="--until")
    pipeline = folders.load(name).pipeline
    topic = pipeline.one_topic(topic)
    lost = OffsetRange(TopicPartition(topic, partition), from_offset, until_offset)
    with open_ledger() as conn:
        loss = decisions.accept_loss(conn, broker(), pipeline, lost, typing_person(reason))
    document: dict[str, Any] = {
        "pipeline": name,
        "topic": topic,
        "partition": partition,
        "from_offset": from_offset,
        "until_offset": until_offset,
        "position": loss.position,
        "abandoned": list(loss.abandoned),
        "changed": loss.changed,
    }

    def for_people() -> None:
        if loss.changed:
            say(
                f"{lost.topic_partition}: {format_offsets(document)} is recorded as lost; the position is {loss.position}"
            )
            _say_abandoned(document["abandoned"])
        else:
            say(f"{lost}: was accepted as lost already")

    show(document, as_json, for_people)


def skip_command(name: Name, to: SkipToOption, reason: Reason, topic: OneTopic = None, as_json: AsJson = False) -> None:
    """Move the live position forward. The skipped offsets can be filled later."""
    from lockstep.steps.changes.skip import skip as move

    pipeline = folders.load(name).pipeline
    goal = None if to == "latest" else bound(to, "--to")
    with open_ledger() as conn:
        done = move(conn, broker(), pipeline, goal, typing_person(reason), datetime.now(UTC), topic)
    document: dict[str, Any] = {
        "pipeline": name,
        "skipped": [range_document(item) for item in done.ranges],
        "abandoned": list(done.abandoned),
        "changed": bool(done.ranges),
    }

    def for_people() -> None:
        print_ranges(document["skipped"])
        say(
            f"{name}: skipped; lockstep fill {name} reads it"
            if done.ranges
            else f"{name}: every position is there already"
        )
        _say_abandoned(document["abandoned"])

    show(document, as_json, for_people)


def retire_command(
    name: Name,
    reason: Reason,
    partition: OnePartition = None,
    topic: OneTopic = None,
    start: StartOf = "truncation",
    as_json: AsJson = False,
) -> None:
    """Close streams of a log that is gone. Begin today's log, or leave a topic of several."""
    from lockstep.steps.changes.retire import retire as close

    begin, pipeline = _start_of(start), folders.load(name).pipeline
    with open_ledger() as conn:
        done = close(conn, broker(), pipeline, partition, typing_person(reason), begin, topic)
    document: dict[str, Any] = {
        "pipeline": name,
        "retired": [
            {"topic": s.topic_partition.topic, "partition": s.partition, "position": s.position, "why": why}
            for s, why in done.retired
        ],
        "opened": [
            {"topic": pipeline.one_topic(topic), "partition": p, "start_offset": o} for p, o in done.opened.items()
        ],
        "abandoned": list(done.abandoned),
    }

    def for_people() -> None:
        for closed in document["retired"]:
            say(f"{closed['topic']}-{closed['partition']}: closed at {closed['position']}: {closed['why']}")
        for begun in document["opened"]:
            say(f"{begun['topic']}-{begun['partition']}: begins anew at {begun['start_offset']}; earlier rows stay")
        _say_abandoned(document["abandoned"])

    show(document, as_json, for_people)


def _start_of(start: str) -> Any:
    if start in {"truncation", "log-start"}:
        return start
    if not start.isdecimal() or int(start) > LAST_OFFSET:
        raise typer.BadParameter(f"{start} is neither truncation, log-start nor an offset", param_hint="--from")
    return int(start)


def reap_command(as_json: AsJson = False) -> None:
    """Drop what dead attempts and replays left. Merge, empty, trim and fold what is older than it is kept."""
    from lockstep.steps.lake.sweep import sweep_lake
    from lockstep.steps.upkeep.coverage import upkeep
    from lockstep.steps.upkeep.merge_parts import merge_parts
    from lockstep.steps.upkeep.reap import drop_empty_partitions
    from lockstep.steps.upkeep.reap import reap as drop

    with open_ledger() as conn:
        done = drop(conn)
        emptied = drop_empty_partitions(conn)
        whole, in_parts = merge_parts(conn)
        swept = sweep_lake(conn)
        kept = upkeep(conn, lambda topic: broker().view(topic))

    def for_people() -> None:
        say(f"dropped: {cell(done.dropped)}")
        if done.held:
            say(f"still held by a connection, for the next reap: {cell(done.held)}")
        if emptied.dropped:
            say(f"dropped, for replays have emptied them: {cell(emptied.dropped)}")
        if emptied.held:
            say(f"empty partitions that a reader holds, for the next reap: {cell(emptied.held)}")
        if whole:
            say(f"partitions whose parts are merged: {cell(tuple(whole))}")
        for count, words in (
            (kept.merged, f"merged below log start: {kept.merged} rows of coverage less, in {kept.streams} streams"),
            (kept.forgotten, f"deletions below log start: {kept.forgotten} forgotten"),
            (kept.emptied, f"rejects older than their pipeline keeps them: {kept.emptied} emptied"),
            (kept.trimmed, f"changes older than their feed keeps them: {kept.trimmed} trimmed"),
            (swept, f"files of dead attempts in the lake: {swept} deleted"),
            (kept.folded, f"contributions to closed windows, below log start: {kept.folded} folded"),
        ):
            if count:
                say(words)
        for reason in (*in_parts, *kept.left):
            say(f"not merged: {reason}")

    document: dict[str, Any] = {"dropped": list(done.dropped), "held": list(done.held)}
    document |= {"emptied": list(emptied.dropped), "emptied_held": list(emptied.held)}
    document |= {"merged": kept.merged, "forgotten_deletions": kept.forgotten, "not_merged": [*in_parts, *kept.left]}
    document |= {"emptied_rejects": kept.emptied, "trimmed_changes": kept.trimmed}
    document |= {"merged_partitions": whole}
    document |= {"folded_contributions": kept.folded, "swept_lake_files": swept}
    show(document, as_json, for_people)


def _say_abandoned(batches: list[int]) -> None:
    if batches:
        say(f"abandoned: batch {cell(batches)}")
