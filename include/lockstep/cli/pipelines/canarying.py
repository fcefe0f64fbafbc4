"""`canary`: what another transform would make of committed batches, beside the live one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.adapters import folders
from lockstep.cli.exits import Exit
from lockstep.cli.options import Name
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.cli.progress import shown_progress
from lockstep.core.changes.canary import CANARY_WORDS, MOST_BATCHES, MOST_OFFSETS, summed
from lockstep.core.errors import BadDefinition
from lockstep.core.text import cell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.pipeline.folder import PipelineFolder

ROWS_PER_TABLE = 5  # rows of each table; --json has more
CandidateOption = Annotated[
    Path, typer.Option("--transform", help="The file to try, with the functions of transform.py.", show_default=False)
]
Batches = Annotated[
    int,
    typer.Option(
        help=f"So many of the newest committed batches, of at most {MOST_OFFSETS:,} offsets.", min=1, max=MOST_BATCHES
    ),
]


def canary_command(name: Name, transform: CandidateOption, batches: Batches = 1, as_json: AsJson = False) -> None:
    """Try a transform beside the live one on committed batches: which rows differ. Nothing is written."""
    from contextlib import closing

    from lockstep.context.systems import configured_registry, open_context
    from lockstep.dev.canary import compare_batches
    from lockstep.steps.changes.canary import newest_batches

    live = folders.load(name)
    again = f"lockstep canary {name} --transform {folders.shown_path(transform)}"
    other = with_functions(live, transform, again)
    with closing(open_context()) as at, shown_progress("looking back") as tell:
        past = newest_batches(at, other, batches)
        try:
            found = [each.document() for each in compare_batches(at, live, other, past, configured_registry(), tell)]
        except BadDefinition as error:
            raise BadDefinition(error.message, next_command=error.next_command or again) from None
    found.reverse()  # the oldest first, as in `batches`
    document = {
        "pipeline": name,
        "transform": str(other.transform_file),
        "definitions": {"live": live.content_hash(), "canary": other.content_hash()},
        "ok": all(each["verdict"]["canary"]["ok"] for each in found),
        "targets": {
            target.table: summed(each["targets"][target.table] for each in found if target.table in each["targets"])
            for target in live.pipeline.targets
        },
        "rejects": summed(each["rejects"] for each in found),
        "batches": found,
    }
    show(document, as_json, lambda: _print(document))
    if not document["ok"]:
        raise typer.Exit(Exit.DATA)


def with_functions(live: PipelineFolder, file: Path, again: str) -> PipelineFolder:
    """Returns the pipeline with this file's transform. Refuses a file without a function that a target needs."""
    from lockstep.engine.transforms import Transforms

    folder = folders.with_transform(live, file, again)
    transforms = Transforms(folder)
    try:
        for target in folder.pipeline.targets:
            transforms.function(target)
    except BadDefinition as error:
        raise BadDefinition(error.message, next_command=again) from None
    return folder


def _print(document: dict[str, Any]) -> None:
    """Prints the counts of each table, the first rows that differ, and the verdicts."""
    found = document["batches"]
    numbers = [each["batch"] for each in found]
    which = f"batch {numbers[0]}" if len(numbers) == 1 else f"batches {', '.join(map(str, numbers))}"
    offsets = sum(each["until_offset"] - each["from_offset"] for batch in found for each in batch["ranges"])
    say(f"{document['pipeline']}: {document['transform']} beside the live transform, {which}, {offsets:,} offsets")
    several = len({each["topic"] for batch in found for each in batch["ranges"]}) > 1
    for table, counts in document["targets"].items():
        said = (
            ", ".join(f"{counts[kind]:,} {word}" for kind, word in CANARY_WORDS.items()) if counts else "not compared"
        )
        say(f"\n{table}: {said}")
        samples = [each for batch in found for each in batch["samples"] if each["target"] == table][:ROWS_PER_TABLE]
        if samples:
            columns = ["  batch>", "record", "row", "column", "live", "canary"]
            say_table(columns, [row for each in samples for row in _lines(each, named=several)])
    rejects = document["rejects"]
    say("\nrejects: " + ", ".join(f"{rejects.get(side, '-')} {side}" for side in ("live", "canary")))
    for batch in found:
        for side, verdict in batch["verdict"].items():
            for refusal in verdict["refusals"]:
                say(f"{side}: batch {batch['batch']} would be refused: {refusal}")
    say("the canary's rows would be committed" if document["ok"] else "the canary's rows would not be committed")
    say("nothing was changed")


def _lines(sample: dict[str, Any], *, named: bool) -> Iterator[list[Any]]:
    """Yields a line for each column that differs, or one for a row that only one side has. `named` is with its topic."""
    where = f"{sample['partition']}:{sample['offset']}"
    if named:
        where = f"{sample['topic']}-{where}"
    key = " ".join(f"{name}={cell(value)}" for name, value in sample["key"].items())
    first = [sample["batch"], where, " ".join(part for part in (CANARY_WORDS[sample["kind"]], key) if part)]
    if sample["kind"] == "changed":
        for name in sample["differs"]:
            yield [*first, name, cell(sample["live"][name]), cell(sample["canary"][name])]
            first = ["", "", ""]
    else:
        row = sample["live"] or sample["canary"]
        values = ", ".join(f"{k}={cell(v)}" for k, v in row.items() if not k.startswith("_"))
        yield [*first, "-", *((values, None) if sample["live"] else (None, values))]
