"""Defines `restored`, which a person runs after a failover or a restore, before the pipeline continues."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from lockstep.adapters import folders
from lockstep.cli.options import MaybeReason, Name
from lockstep.cli.output import AsJson, say, show
from lockstep.context.systems import broker, open_ledger, results_elsewhere, typing_person
from lockstep.steps.inspect.lines import format_offsets

LARGEST_TOKEN = 10**15  # a sequence that moves further would soon have no numbers left

PastToken = Annotated[
    int,
    typer.Option(
        "--past-token", help="A token seen in a log or in Airflow: draw past it, too.", min=0, max=LARGEST_TOKEN
    ),
]
ShowOnly = Annotated[bool, typer.Option("--preview", help="Show what was found; change nothing.")]


def restored_command(
    name: Name,
    reason: MaybeReason = None,
    past_token: PastToken = 0,
    preview: ShowOnly = False,
    as_json: AsJson = False,
) -> None:
    """Record that the ledger was restored or failed over: name what is gone, and draw no number twice."""
    from lockstep.steps.changes.restored import restored as compare

    if reason is None and not preview:
        raise typer.BadParameter("a reason in words, please: the ledger keeps it", param_hint="--reason")
    pipeline = folders.load(name).pipeline
    with open_ledger() as conn:
        who = None if preview else typing_person(reason)
        found = compare(conn, broker(), pipeline, results_elsewhere(pipeline), who, past_token=past_token)
    evidence = found.evidence
    document: dict[str, Any] = {
        "pipeline": name,
        "recorded": found.recorded,
        "told": [
            {
                "topic": each.topic_partition.topic,
                "partition": each.topic_partition.partition,
                "from_offset": each.from_offset,
                "until_offset": each.until_offset,
            }
            for each in evidence.told
        ],
        "unknown": [asdict(each) for each in evidence.strange],
        "ahead": [asdict(each) for each in evidence.ahead],
        "past_token": evidence.past_token,
        "needs": list(found.needs),
    }

    def for_people() -> None:
        for gone in document["told"]:
            where = f"{gone['topic']}-{gone['partition']} {format_offsets(gone)}"
            say(f"gone: {where} was shown as committed, and the ledger does not have it")
        for each in document["unknown"]:
            attempt = f", attempt {each['token']}" if each["token"] else ""
            where = f"stream {each['stream_id']} {format_offsets(each)} in the store"
            say(f"unknown: {where} is of batch {each['batch_id']}{attempt}")
        if not evidence.found:
            say(f"{name}: no other place is ahead of the ledger; Airflow's own records cannot be seen from here")
        for need in found.needs:
            say(f"now: {need}")
        done = "recorded; the next numbers lie past all of these"
        say(f"{name}: {done if found.recorded else 'a preview: nothing was changed'}")

    show(document, as_json, for_people)
