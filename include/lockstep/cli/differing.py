"""Finds tables that differ from their definitions, as the ledger's database shows them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lockstep.cli.surroundings import ledger
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.columns import Column
    from lockstep.core.folder import PipelineFolder


def differences_of(looked: Sequence[tuple[PipelineFolder, Sequence[Sequence[Column]]]]) -> dict[str, list[str]]:
    """Returns, by pipeline, the differences over which a batch would be refused.

    Asks the database once, or not at all if it is away. Tables that are missing have no differences yet.
    """
    from lockstep.steps import evolve

    found: dict[str, list[str]] = {}
    with suppress(Refusal), ledger() as conn:
        for folder, columns in looked:
            with suppress(Refusal):
                name = folder.pipeline.name
                blocking = evolve.propose(conn, folder.pipeline, columns).blocking
                found[name] = [f"{each}  Next: lockstep migrate {name} --propose" for each in blocking]
    return found
