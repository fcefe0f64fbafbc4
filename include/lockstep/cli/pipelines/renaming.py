"""`rename`: the ledger's name of a pipeline follows the folder's new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.options import Reason
from lockstep.cli.output import AsJson, say, show
from lockstep.context.systems import open_ledger, typing_person
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.pipeline.columns import IDENTIFIER
from lockstep.core.pipeline.names import good_name, refuse_bad_name

if TYPE_CHECKING:
    from lockstep.core.pipeline.definition import Pipeline


def _pipeline(value: str) -> str:
    if not IDENTIFIER.match(value):
        raise typer.BadParameter(f"{value!r} is not the name of a pipeline")
    return value


Old = Annotated[str, typer.Argument(help="The name so far.", metavar="OLD", callback=_pipeline, show_default=False)]
New = Annotated[
    str, typer.Argument(help="The folder's new name.", metavar="NEW", callback=_pipeline, show_default=False)
]


def rename_command(old: Old, new: New, reason: Reason, as_json: AsJson = False) -> None:
    """Rename a pipeline, with all of its history.

    Rename its folder first, and the name in its definition and DAG file. Refused while a batch of it is unfinished. Links
    of the chain keep the name that they were made under. The old name leads to the new one for good.
    """
    from lockstep.steps.changes.rename import rename as give

    _refuse_bad_name(old, new)
    pipeline = _moved(old, new)
    with open_ledger() as conn:
        changed = give(conn, old, pipeline, typing_person(reason))
    answer = {"pipeline": new, "former": old, "changed": changed, "next": [f"lockstep run {new}"]}

    def for_people() -> None:
        if not changed:
            say(f"{old}: was renamed to {new} already")
            return
        say(f"{old}: is {new} now; its history came along")
        say(f"In Airflow the DAG {new} goes on; runs of the DAG {old} stay under its id")
        say(f"Next: lockstep run {new}")

    show(answer, as_json, for_people)


def _refuse_bad_name(old: str, new: str) -> None:
    try:
        refuse_bad_name(new)
    except BadDefinition as fault:
        raise BadDefinition(
            fault.message, next_command=f"lockstep rename {old} {good_name(new)} --reason ..."
        ) from None


def _moved(old: str, new: str) -> Pipeline:
    """Loads the definition under its new name. Refuses a folder that was not renamed yet, or was copied."""
    before, after = folders.root() / old, folders.root() / new
    paths = f"{folders.shown_path(before)} {folders.shown_path(after)}"
    move = f"mv {paths}, with name={new!r} in its definition and in the DAG file"
    if before.is_dir() and not after.is_dir():
        raise Refusal(f"{new}: it has no folder yet, and {old} has one", next_command=move)
    if before.is_dir() and old != new:
        raise Refusal(
            f"{folders.shown_path(before)} is still there, beside {folders.shown_path(after)}: a copy is no rename",
            next_command=f"rm -r {folders.shown_path(before)}",
        )
    return folders.load(new).pipeline
