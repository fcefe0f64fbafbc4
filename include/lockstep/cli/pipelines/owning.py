"""Defines `hand-over`, which gives one pipeline's table to another one, with a reason that the ledger keeps."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from lockstep.adapters import folders
from lockstep.cli.options import Reason
from lockstep.cli.output import AsJson, say, show
from lockstep.context.systems import open_ledger, typing_person
from lockstep.core.pipeline.columns import IDENTIFIER

_NAME = "[a-z_][a-z0-9_]{0,62}"
# A table of a lake has its catalog in front.
TABLE = re.compile(rf"^(?:(?:lockstep|[A-Z][A-Z0-9_]{{0,40}})\.)?{_NAME}\.{_NAME}\Z")


def _table(value: str) -> str:
    if not TABLE.match(value):
        raise typer.BadParameter(f"{value!r} is not schema.table in lower case, such as public.orders")
    return value


def _pipeline(value: str) -> str:
    if not IDENTIFIER.match(value):
        raise typer.BadParameter(f"{value!r} is not the name of a pipeline")
    return value


TableName = Annotated[
    str, typer.Argument(help="The table.", metavar="SCHEMA.TABLE", callback=_table, show_default=False)
]
Giver = Annotated[
    str, typer.Option("--from", help="The pipeline that owns it.", callback=_pipeline, show_default=False)
]
Receiver = Annotated[
    str, typer.Option("--to", help="The pipeline that is to own it.", callback=_pipeline, show_default=False)
]


def hand_over_command(
    table: TableName, giver: Giver, receiver: Receiver, reason: Reason, as_json: AsJson = False
) -> None:
    """Give a pipeline's table to another pipeline."""
    from lockstep.steps.changes.hand_over import hand_over as give
    from lockstep.steps.changes.hand_over import hand_over_document

    pipeline = folders.load(receiver).pipeline
    with open_ledger() as conn:
        done = give(conn, table, giver, pipeline, typing_person(reason))

    def for_people() -> None:
        say(f"{done.table}: belongs to {receiver} now; {giver} may write it no longer")
        for partition, position in sorted(done.positions.items()):
            say(f"{pipeline.topic}-{partition}: {receiver} begins at {position}, where {giver} stopped")
        if not done.positions:
            say(f"{receiver}: keeps the positions that it has, or begins where its definition says")
        say(f"Next: lockstep migrate {receiver}, then lockstep run {receiver}")

    show(hand_over_document(done, giver, receiver), as_json, for_people)
