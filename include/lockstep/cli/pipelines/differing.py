"""Finds definitions that differ from their tables and from what was committed, as the ledger's database shows them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lockstep.context.systems import open_ledger
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.folder import PipelineFolder


def differences_of(looked: Sequence[tuple[PipelineFolder, Sequence[Sequence[Column]]]]) -> dict[str, list[str]]:
    """Returns, by pipeline, the differences over which a batch would not be planned, or would be refused.

    Asks the database once, or not at all if it is away. Tables that are missing have no differences yet.
    """
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.steps.changes import evolve
    from lockstep.steps.inspect.committed import changed_since_commit

    found: dict[str, list[str]] = {}
    with suppress(Refusal), open_ledger() as conn:
        for folder, columns in looked:
            with suppress(Refusal):
                name = folder.pipeline.name
                with transaction(conn, READER) as cur:
                    changed = changed_since_commit(cur, folder.pipeline)
                if changed:
                    found[name] = [f"{changed.reason}  Next: {changed.next_command}"]
                    continue
                blocking = evolve.propose(conn, folder.pipeline, columns).blocking
                found[name] = [f"{each}  Next: lockstep migrate {name} --propose" for each in blocking]
    return found
