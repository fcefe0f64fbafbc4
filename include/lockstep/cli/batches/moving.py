"""Defines `move`, which lets a pipeline go on in a copy of its topic."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.adapters import folders
from lockstep.cli.options import MaybeReason, Name
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.cli.pipelines.evolving import shown_digest
from lockstep.context.systems import broker, broker_elsewhere, open_ledger, typing_person
from lockstep.core.errors import quoted
from lockstep.core.offsets import is_topic_name

if TYPE_CHECKING:
    from lockstep.core.changes.moving import Move
    from lockstep.core.pipeline.definition import Pipeline

ToTopic = Annotated[str, typer.Option("--to-topic", help="The copy to go on in.", metavar="TOPIC", show_default=False)]
KafkaOption = Annotated[
    str | None,
    typer.Option("--kafka", help="The other cluster's bootstrap servers.", metavar="SERVERS", show_default=False),
]
KafkaConfigOption = Annotated[
    str | None,
    typer.Option("--kafka-config", help="A file with its client options, as JSON.", metavar="FILE", show_default=False),
]
ShowMove = Annotated[bool, typer.Option("--preview", help="Show where it would go on; it is so without --apply.")]
ApplyMove = Annotated[
    str | None,
    typer.Option("--apply", help="Go on as shown.", metavar="DIGEST", callback=shown_digest, show_default=False),
]


def move_command(
    name: Name,
    to_topic: ToTopic,
    kafka: KafkaOption = None,
    kafka_config: KafkaConfigOption = None,
    preview: ShowMove = False,
    apply: ApplyMove = None,
    reason: MaybeReason = None,
    as_json: AsJson = False,
) -> None:
    """Let a pipeline go on in a copy of its topic, at other offsets.

    Looks in the copy for the last records that were read. Shows per partition where it goes on, with a digest.
    --apply goes on at exactly that, and is refused when anything moved. Then name the copy in the definition.
    """
    from lockstep.steps.changes.move import move, preview_move
    from lockstep.steps.topics.copied import CopiedTopic

    _refuse_odd_decision(apply, reason, preview=preview)
    _refuse_odd_place(to_topic, kafka, kafka_config)
    pipeline = folders.load(name).pipeline
    given = (("--to-topic", to_topic), ("--kafka", kafka), ("--kafka-config", kafka_config))
    words = " ".join(f"{option} {shlex.quote(value)}" for option, value in given if value)
    there = broker_elsewhere(kafka, kafka_config or "") if kafka else broker()
    copied = CopiedTopic(to_topic, there, words)
    with open_ledger() as conn:
        if apply is None:
            shown = preview_move(conn, broker(), pipeline, copied)
            show(shown.document() | {"next": shown.next_command()}, as_json, lambda: _say_places(shown, preview=True))
            return
        done = move(conn, broker(), pipeline, copied, apply, typing_person(reason))
    then = _then(pipeline, to_topic, kafka)
    document: dict[str, Any] = {"pipeline": name, "digest": apply, "changed": done.shown is not None}
    document |= {"decision": done.decision, "who": done.who, "next": then}
    document |= {"moved": done.shown.document()["moved"] if done.shown else []}

    def for_people() -> None:
        if done.shown is None:
            say(f"{name}: nothing to do; {done.who} applied {apply} by decision {done.decision}")
        else:
            _say_places(done.shown, preview=False)
            say(f"{name}: goes on there, by decision {done.decision}")
        say(f"Next: {then}")

    show(document, as_json, for_people)


def _refuse_odd_decision(apply: str | None, reason: str | None, *, preview: bool) -> None:
    if apply and preview:
        raise typer.BadParameter("shows, and --apply changes: one of them at a time", param_hint="--preview")
    if apply and reason is None:
        raise typer.BadParameter("--apply is a decision: the ledger keeps its reason", param_hint="--reason")
    if reason and not apply:
        raise typer.BadParameter("belongs to --apply", param_hint="--reason")


def _refuse_odd_place(to_topic: str, kafka: str | None, kafka_config: str | None) -> None:
    if kafka_config and not kafka:
        raise typer.BadParameter("belongs to --kafka", param_hint="--kafka-config")
    if kafka_config and not Path(kafka_config).is_file():
        # It is not repeated, because it may be the options themselves, with a password.
        raise typer.BadParameter("takes the path of a file, and there is none", param_hint="--kafka-config")
    if not is_topic_name(to_topic):
        raise typer.BadParameter(f"{quoted(to_topic)} is no legal topic name", param_hint="--to-topic")
    if kafka is not None and not kafka.strip():
        raise typer.BadParameter("name the bootstrap servers", param_hint="--kafka")


def _then(pipeline: Pipeline, to_topic: str, kafka: str | None) -> str:
    """Returns what is left to do: environment and definition must lead to the copy."""
    left = [f"let LOCKSTEP_KAFKA lead to {kafka}"] if kafka else []
    left += [f"say topic={to_topic!r} in its definition"] if pipeline.topic != to_topic else []
    return ", ".join([*left, f"then lockstep run {pipeline.name}" if left else f"lockstep run {pipeline.name}"])


def _say_places(shown: Move, *, preview: bool) -> None:
    rows = [
        [
            str(each.stream.topic_partition),
            each.stream.position,
            f"{shown.view.topic}-{each.stream.partition}",
            each.offset,
            each.matched,
            each.waiting,
        ]
        for each in shown.moved
    ]
    say_table(["partition", "position>", "goes on in", "at>", "matched>", "waiting>"], rows)
    if preview and shown.skipped:
        fill = f"lockstep fill {shown.pipeline}"
        say(
            f"{shown.skipped} offsets were skipped, and nothing can fill them after the move: first {fill}, or leave them out"
        )
    if preview:
        say(f"digest {shown.digest}; nothing was changed")
        say(f"Next: {shown.next_command()}")
