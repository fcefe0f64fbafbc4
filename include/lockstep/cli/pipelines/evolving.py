"""Defines `migrate NAME --propose` and `--apply`, which change tables to their definitions.

A person sees each change first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.cli.output import say, show
from lockstep.cli.pipelines.checking import columns_reaching_targets, trial_engine
from lockstep.context.systems import configured_registry, open_ledger, typing_person
from lockstep.core.changes.evolution import DIGEST
from lockstep.core.pipeline.columns import IDENTIFIER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg2.extensions import connection

    from lockstep.core.changes.evolution import Proposal
    from lockstep.core.pipeline.folder import PipelineFolder


def shown_digest(value: str | None) -> str | None:
    """Returns the digest of a proposal or a preview. Any other text is a wrong call."""
    if value is not None and not DIGEST.match(value):
        raise typer.BadParameter(f"{value!r} is not a digest that was shown: 64 letters of 0-9 and a-f")
    return value


def _columns(values: list[str] | None) -> list[str] | None:
    for value in values or ():
        if not IDENTIFIER.match(value):
            raise typer.BadParameter(f"{value!r} is not the name of a column")
    return values


Propose = Annotated[bool, typer.Option("--propose", help="Show how the table differs; change nothing.")]
Apply = Annotated[
    str | None,
    typer.Option(
        "--apply", help="Run what --propose showed.", metavar="DIGEST", callback=shown_digest, show_default=False
    ),
]
OnlyColumns = Annotated[
    list[str] | None,
    typer.Option("--column", help="Only changes of this column.", callback=_columns, show_default=False),
]


def refuse_odd_call(
    name: str | None, *, propose: bool, apply: str | None, why: str | None, only: list[str] | None
) -> None:
    """Refuses options of `migrate` that do not go together."""
    if propose and apply:
        raise typer.BadParameter("shows, and --apply changes: one of them at a time", param_hint="--propose")
    if (propose or apply) and name is None:
        raise typer.BadParameter("name the pipeline", param_hint="NAME")
    if apply and why is None:
        raise typer.BadParameter("--apply is a decision: the ledger keeps its reason", param_hint="--reason")
    if why is not None and not apply:
        raise typer.BadParameter("belongs to --apply", param_hint="--reason")
    if only and not (propose or apply):
        raise typer.BadParameter("belongs to --propose and --apply", param_hint="--column")


def show_proposal(folder: PipelineFolder, only: Sequence[str], *, as_json: bool) -> None:
    """Shows how a pipeline's tables differ from its definition."""
    from lockstep.steps.changes import evolve
    from lockstep.steps.inspect.registry import shift_document, words_of_shift

    with open_ledger() as conn:
        found = evolve.propose(conn, folder.pipeline, _decoded(folder), tuple(only))
    registry = shift_document(folder.pipeline, configured_registry)

    def for_people() -> None:
        for line in words_of_shift(folder.pipeline.name, registry):
            say(line)
        _say_proposal(found, only)

    show(found.document() | {"registry": registry}, as_json, for_people)


def apply_evolution(folder: PipelineFolder, digest: str, why: str, only: Sequence[str], *, as_json: bool) -> None:
    """Runs the changes of a digest, and prints the lines for target.sql."""
    from lockstep.steps.changes import evolve

    name = folder.pipeline.name
    with open_ledger() as conn:
        done = evolve.apply(conn, folder.pipeline, _decoded(folder), digest, typing_person(why), tuple(only))
    lines = [f"{statement};" for statement in done.statements]
    document: dict[str, Any] = {
        "pipeline": name,
        "digest": digest,
        "statements": list(done.statements),
        "changed": done.changed,
        "by": done.by,
        "target_sql": lines,
    }

    def for_people() -> None:
        if not done.changed:
            say(f"{name}: nothing to do; {done.by} ran {digest}")
            return
        for statement in done.statements:
            say(f"{name}: {statement}")
        say(f"Append to {name}/target.sql, so that a new database gets the same table:")
        for line in lines:
            say(f"  {line}")
        old = f"; old rows hold null in a new column until lockstep replay {name} fills them" if done.adds else ""
        say(f"Next: lockstep run {name}{old}")

    show(document, as_json, for_people)


def compare_with_ledger(conn: connection, folder: PipelineFolder) -> Proposal | None:
    """Returns the difference between a definition and its tables in the ledger's database.

    Returns None if Spark must be asked.
    """
    from lockstep.steps.changes import evolve

    pipeline = folder.pipeline
    if pipeline.store is not None or folder.transforms:
        return None
    return evolve.propose(conn, pipeline, [pipeline.columns for _ in pipeline.targets])


def say_differences(proposal: Proposal) -> None:
    """Prints the differences, with the command that shows the changes."""
    for each in proposal.differences:
        say(f"{proposal.pipeline}: {each}")
    if proposal.differences:
        say(f"Next: lockstep migrate {proposal.pipeline} --propose")


def _say_proposal(proposal: Proposal, only: Sequence[str]) -> None:
    name = proposal.pipeline
    for change in proposal.changes:
        say(f"{name}: {change}")
        say(f"  {change.statement};")
    for each in proposal.unsafe:
        say(f"{name}: {each}")
    if not proposal.changes:
        say(f"{name}: no safe change is left to propose")
        return
    columns = "".join(f" --column {column}" for column in only)
    say(f"digest {proposal.digest}")
    say(f"Next: lockstep migrate {name} --apply {proposal.digest}{columns} --reason ...")


def _decoded(folder: PipelineFolder) -> Sequence[Sequence[Any]]:
    """Returns the columns that reach each target. A transform runs on a Spark of our own."""
    return columns_reaching_targets(folder, trial_engine(folder))
