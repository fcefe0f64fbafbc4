"""`forget` ends a pipeline, with a reason that the ledger keeps. `forget --undo` lets it go on."""

from __future__ import annotations

from typing import Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.options import Name, Reason
from lockstep.cli.output import AsJson, say, show
from lockstep.context.systems import open_ledger, typing_person
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.columns import IDENTIFIER
from lockstep.core.text import cell

Undo = Annotated[bool, typer.Option("--undo", help="Let a forgotten pipeline go on where it stopped.")]


def forget_command(name: Name, reason: Reason, undo: Undo = False, as_json: AsJson = False) -> None:
    """End a pipeline. Its tables are free, its history stays.

    For a pipeline whose folder is gone, or is to go. Refused while a batch of it is unfinished. Nothing of its history is
    deleted, and no row of its tables. Its batches, rejects, holes, hours and lineage are still shown, verified and
    certified. Nothing is planned or decided for it any more, until --undo.
    """
    from lockstep.steps.changes.forget import forget as end
    from lockstep.steps.changes.forget import forget_document, remember

    if not IDENTIFIER.match(name):
        raise typer.BadParameter(f"{name!r} is not the name of a pipeline", param_hint="NAME")
    with open_ledger() as conn:
        if undo:
            changed = remember(conn, name, typing_person(reason))
            answer = {"pipeline": name, "forgotten": False, "changed": changed}
            words = f"goes on where it stopped.  Next: lockstep run {name}" if changed else "was not forgotten"
            show(answer, as_json, lambda: say(f"{name}: {words}"))
            return
        done = end(conn, name, typing_person(reason))
    left = _left(name)

    def for_people() -> None:
        if not done.changed:
            say(f"{name}: was forgotten already by {done.by}")
            return
        say(f"{name}: forgotten; its history stays.  lockstep batches {name}")
        for table in done.tables:
            say(f"{table}: free for another pipeline; its rows stay")
        for at in done.positions:
            say(f"{at.topic}-{at.partition}: stopped at {at.position}")
        if done.requests:
            say(f"closed: request {cell(list(done.requests))}")
        if left:
            say(
                f"still there: {', '.join(left)}.  Next: remove them, or Airflow goes on to start runs that are refused"
            )

    show(forget_document(done, name) | {"files": left}, as_json, for_people)


def _left(name: str) -> list[str]:
    """Lists what of the pipeline is still among the files: its folder, and DAG files of its name."""
    try:
        places, dags = [folders.root() / name], folders.dags()
    except Refusal:  # no pipelines here at all
        return []
    places += [dags / f"{name}.py"] if dags else []
    return [folders.shown_path(place) for place in places if place.exists()]
