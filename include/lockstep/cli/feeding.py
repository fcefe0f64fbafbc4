"""Defines `dev topic` and `dev produce`, for topics of the embedded broker and records on them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.output import AsJson, say, say_table, say_warnings, show
from lockstep.cli.pipelines.sharing import definitions_on_disk
from lockstep.context import systems
from lockstep.core.errors import Refusal, quoted
from lockstep.core.offsets import is_topic_name
from lockstep.core.pipeline.formats import key_columns
from lockstep.core.pipeline.names import reads_topic

if TYPE_CHECKING:
    from rich.progress import Progress

    from lockstep.core.pipeline.definition import Pipeline

MOST_PARTITIONS = 1_000
DEFAULT_RECORDS = 1_000

SubjectOption = Annotated[
    str, typer.Argument(help="A pipeline, for its topic; or a topic.", metavar="NAME", show_default=False)
]


def topic_command(
    name: SubjectOption,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", help="How many.", min=1, max=MOST_PARTITIONS, show_default="4"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a topic. Leave an existing one alone."""
    from lockstep.dev.records.topics import make_topic

    pipeline, topic_name = _subject(name)
    bootstrap = systems.kafka()
    made = make_topic(bootstrap, topic_name, partitions)
    document = {
        "topic": made.name,
        "pipeline": pipeline.name if pipeline else None,
        "partitions": made.partitions,
        "created": made.created,
        "kafka": bootstrap,
    }
    how = "made" if made.created else "is there"
    stray = "" if _read_by_any(made.name, pipeline) else "; no pipeline reads it"
    show(document, as_json, lambda: say(f"topic {made.name}: {how}, {_many(made.partitions, 'partition')}{stray}"))


def produce_command(
    name: SubjectOption,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help="A file whose lines are records; - is standard input.", metavar="FILE", show_default=False
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="The JSON column that becomes the Kafka key.", metavar="COLUMN", show_default=False),
    ] = None,
    records: Annotated[
        int | None, typer.Option("--records", min=0, help="How many of the sample.", show_default="1000")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Another seed, other data.", show_default="0")
    ] = None,
    rate: Annotated[float | None, typer.Option("--rate", min=0.1, help="Records a second.", show_default=False)] = None,
    up_to: Annotated[bool, typer.Option("--up-to", help="Only until the topic holds that many.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put a file's lines on a topic, or sample data of a shipped pipeline."""
    if source is None:
        if key is not None:
            raise typer.BadParameter("sample data have keys of their own; --key goes with --from", param_hint="--key")
        _produce_sample(name, DEFAULT_RECORDS if records is None else records, seed or 0, rate, up_to, as_json)
        return
    for option, given in (("--records", records), ("--seed", seed), ("--up-to", up_to or None)):
        if given is not None:
            raise typer.BadParameter("it is for sample data, and not for --from", param_hint=option)
    _produce_lines(name, source, key, rate, as_json)


def _produce_sample(name: str, records: int, seed: int, rate: float | None, up_to: bool, as_json: bool) -> None:
    from lockstep.dev.records.produce import Errand, produce, sample_named

    errand = Errand(sample_named(name), records, seed, rate, up_to)
    bootstrap, began = systems.kafka(), time.monotonic()
    with _progress() as bar:
        task = bar.add_task(errand.sample.topic, total=records)
        produced = produce(bootstrap, errand, lambda count: bar.advance(task, count))
    seconds = round(time.monotonic() - began, 3)
    document = {"pipeline": name, "topic": errand.sample.topic, "produced": produced, "seconds": seconds}
    show(document, as_json, lambda: say(f"{produced} records onto {errand.sample.topic} in {seconds:.1f} s"))


def _produce_lines(name: str, source: str, key: str | None, rate: float | None, as_json: bool) -> None:
    from lockstep.dev.records.lines import open_lines
    from lockstep.dev.records.sending import send
    from lockstep.dev.records.topics import require_topic

    pipeline, topic_name = _subject(name)
    bootstrap, began = systems.kafka(), time.monotonic()
    require_topic(bootstrap, topic_name)
    with _progress() as bar:
        looking = bar.add_task(f"reading {source}", total=None)
        with open_lines(source, key, lambda count: bar.advance(looking, count)) as lines:
            bar.remove_task(looking)
            sending = bar.add_task(topic_name, total=lines.count)
            sent = send(
                bootstrap, topic_name, lines.records(), lambda n: bar.advance(sending, n), rate=rate, counted=True
            )
    seconds, produced = round(time.monotonic() - began, 3), sum(sent.values())
    document = {
        "pipeline": pipeline.name if pipeline else None,
        "topic": topic_name,
        "produced": produced,
        "partitions": sent,
        "seconds": seconds,
    }
    if pipeline and key is None and len(columns := key_columns(pipeline.format)) == 1:
        say_warnings([_without_keys(pipeline, columns[0])])

    def for_people() -> None:
        say(f"{_many(produced, 'record')} onto {topic_name} in {seconds:.1f} s")
        say_table(["  partition", "records>"], [[f"  {topic_name}-{each}", count] for each, count in sent.items()])

    show(document, as_json, for_people)


def _without_keys(pipeline: Pipeline, column: str) -> dict[str, str]:
    return {
        "message": f"{pipeline.name} expects {column} as the Kafka key, and these records were sent without keys",
        "next": f"lockstep dev produce {pipeline.name} --from FILE --key {column}",
    }


def _progress() -> Progress:
    """Returns a progress bar on standard error. It shows nothing if that is no terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    return Progress(console=console, disable=not console.is_terminal, transient=True)


def _subject(name: str) -> tuple[Pipeline | None, str]:
    """Returns the pipeline of that name with its topic, or the topic itself. Refuses a broken definition."""
    if name in folders.pipeline_names():
        pipeline = folders.load(name).pipeline
        return pipeline, pipeline.only_topic
    if not is_topic_name(name):
        raise Refusal(
            f"{quoted(name)} is neither a pipeline nor a legal topic name: letters, digits, '.', '_' and '-'",
            next_command="lockstep dev topic orders.v1",
        )
    if name.startswith("__"):
        raise Refusal(f"topic {name}: names that begin with __ are Kafka's own", next_command="lockstep dev topic NAME")
    return None, name


def _read_by_any(topic_name: str, pipeline: Pipeline | None) -> bool:
    return pipeline is not None or any(reads_topic(each.topic, topic_name) for each in definitions_on_disk())


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
