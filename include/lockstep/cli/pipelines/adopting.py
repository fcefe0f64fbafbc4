"""`adopt`: begins a pipeline where a consumer group, a Connect sink or a Structured Streaming checkpoint stands."""

from __future__ import annotations

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.adapters import folders
from lockstep.adapters.kafka.checkpoints import standing_of_checkpoint
from lockstep.cli.options import MaybeReason, Name, OneTopic
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.cli.pipelines.evolving import shown_digest
from lockstep.context.systems import broker, open_ledger, typing_person
from lockstep.core.changes.readers import AT_OFFSETS, Reader, group_of_connector, parse_offsets, parse_partitions
from lockstep.core.errors import Refusal
from lockstep.core.offsets import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.changes.adoption import Adoption
    from lockstep.core.changes.readers import Standing
    from lockstep.core.pipeline.definition import Pipeline

GroupOption = Annotated[
    str | None, typer.Option("--group", help="A consumer group, at rest.", metavar="GROUP", show_default=False)
]
ConnectOption = Annotated[
    Path | None,
    typer.Option("--connect", help="The JSON of a Kafka Connect sink; its group counts.", show_default=False),
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option("--spark-checkpoint", help="The checkpoint's folder of a stopped query.", show_default=False),
]
AtOption = Annotated[
    str | None,
    typer.Option("--at", help="PARTITION:OFFSET or TOPIC-PARTITION:OFFSET,...; of a reader, what it lacks."),
]
JustShow = Annotated[bool, typer.Option("--preview", help="Show where it would begin; it is so without --apply.")]
ApplyShown = Annotated[
    str | None,
    typer.Option("--apply", help="Begin as shown.", metavar="DIGEST", callback=shown_digest, show_default=False),
]
AcceptLoss = Annotated[
    list[str] | None,
    typer.Option(
        "--accept-loss",
        help="A partition whose deleted offsets are lost, or TOPIC-PARTITION.",
        metavar="PARTITION",
        show_default=False,
    ),
]


def adopt_command(
    name: Name,
    group: GroupOption = None,
    connect: ConnectOption = None,
    spark_checkpoint: CheckpointOption = None,
    at: AtOption = None,
    topic: OneTopic = None,
    preview: JustShow = False,
    apply: ApplyShown = None,
    accept_loss: AcceptLoss = None,
    reason: MaybeReason = None,
    as_json: AsJson = False,
) -> None:
    """Begin a pipeline where another reader stands, before its first plan.

    Shows per partition where the reader stands, what Lockstep reads first, and what retention has deleted, with a digest.
    --apply begins at exactly that, and is refused when anything moved. Stop the reader first, for good.
    """
    from lockstep.steps.changes import adopt as steps

    offsets = _given(at, others=[option for option in (group, connect, spark_checkpoint) if option is not None])
    losses = _partitions(accept_loss or ())
    _refuse_odd_decision(apply, reason, accept_loss or (), preview=preview)
    if group is not None and not group.strip():
        raise typer.BadParameter("name the consumer group", param_hint="--group")
    pipeline = folders.load(name).pipeline
    given = {_place(pipeline, each, topic): offset for each, offset in offsets.items()}
    accepted = [_place(pipeline, each, topic) for each in losses]
    reader = _sink(connect, pipeline) if connect is not None else _group(group) if group is not None else None
    at_broker = broker()
    source = steps.Source(_look(pipeline, at_broker, reader, spark_checkpoint), given)
    with open_ledger() as conn:
        if apply is None:
            shown = steps.preview_adoption(conn, at_broker, pipeline, source)
            show(shown.document() | {"next": shown.next_command()}, as_json, lambda: _say_places(shown, preview=True))
            return
        done = steps.adopt(conn, at_broker, pipeline, source, apply, accepted, typing_person(reason))
    document: dict[str, Any] = {"pipeline": name, "digest": apply, "changed": done.changed}
    document |= {"decision": done.decision, "who": done.who, "next": f"lockstep run {name}"}
    document |= {"from": done.shown.document()["from"] if done.shown else []}

    def for_people() -> None:
        if done.shown is None:
            say(f"{name}: nothing to do; {done.who} applied {apply} by decision {done.decision}")
        else:
            _say_places(done.shown, preview=False)
            say(f"{name}: begins there, by decision {done.decision}")
        say(f"Next: lockstep run {name}")

    show(document, as_json, for_people)


def _given(at: str | None, others: Sequence[object]) -> dict[tuple[str, int], int]:
    if len(others) > 1 or not (others or at is not None):
        raise typer.BadParameter(
            "name one reader: a group, a sink of Connect, a checkpoint, or --at its offsets", param_hint="--group"
        )
    if at is None:
        return {}
    try:
        return parse_offsets(at)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--at") from None


def _partitions(texts: Sequence[str]) -> list[tuple[str, int]]:
    try:
        return parse_partitions(texts)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--accept-loss") from None


def _place(pipeline: Pipeline, typed: tuple[str, int], topic: str | None) -> TopicPartition:
    """Returns the partition that was typed, of its own topic, of `--topic`, or of the only one."""
    return TopicPartition(typed[0] or pipeline.one_topic(topic), typed[1])


def _refuse_odd_decision(apply: str | None, reason: str | None, accepted: Sequence[str], *, preview: bool) -> None:
    if apply and preview:
        raise typer.BadParameter("shows, and --apply changes: one of them at a time", param_hint="--preview")
    if apply and reason is None:
        raise typer.BadParameter("--apply is a decision: the ledger keeps its reason", param_hint="--reason")
    for option, value in (("--reason", reason), ("--accept-loss", accepted)):
        if value and not apply:
            raise typer.BadParameter("belongs to --apply", param_hint=option)


def _look(
    pipeline: Pipeline, at: Broker, reader: Reader | None, checkpoint: Path | None
) -> Callable[[Sequence[TopicPartition]], Standing]:
    """Returns the function that asks where the named reader stands."""
    if checkpoint is not None:
        return lambda _: standing_of_checkpoint(checkpoint, pipeline.name, pipeline.topic)
    if reader is None:
        return lambda _: AT_OFFSETS
    from lockstep.adapters.kafka.group import standing_of_group

    return partial(standing_of_group, at, pipeline.name, reader)


def _group(group: str) -> Reader:
    return Reader("group", group, f"--group {shlex.quote(group)}", f"the consumer group {group}", group)


def _sink(file: Path, pipeline: Pipeline) -> Reader:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise Refusal(
            f"{file}: cannot be read: {why}", next_command=f"lockstep adopt {pipeline.name} --connect FILE.json"
        ) from None
    sink, group = group_of_connector(text, str(file), pipeline.name, pipeline.topic)
    return Reader(
        "connect", sink, f"--connect {shlex.quote(str(file))}", f"the consumer group {group} of {sink}", group
    )


def _say_places(shown: Adoption, *, preview: bool) -> None:
    rows = [
        [str(at.topic_partition), at.stands, at.bounds.log_start, at.bounds.stable_end, at.first, at.lost or ""]
        for at in shown.places
    ]
    say_table(["partition", "stands at>", "log start>", "log end>", "first read>", "lost"], rows)
    if preview:
        say(f"digest {shown.digest}; nothing was changed")
        say(f"Next: {shown.next_command()}")
