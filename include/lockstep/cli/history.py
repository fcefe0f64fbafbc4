"""Finds a pipeline for commands that only read, by its folder or by the ledger alone."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.adapters import folders
from lockstep.context.systems import open_ledger
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.pipeline.columns import IDENTIFIER
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.core.text import cell, printable_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.core.pipeline.definition import Pipeline


@dataclass(frozen=True, slots=True)
class OfLedger:
    """A pipeline without a folder here: its last definition, and the decision that has forgotten it, if there is one."""

    name: str
    definition: Mapping[str, Any] | None
    forgetting: Any | None

    @property
    def folder(self) -> PipelineFolder:
        """Returns the definition of the newest attempt. Refuses a pipeline that never began one."""
        if self.definition is None:
            raise Refusal(
                f"{self.name}: its folder is gone, and the ledger has no definition of it: no attempt was opened",
                next_command=f"lockstep batches {self.name}",
            )
        texts: dict[str, Any] = {part: self.definition.get(part) for part in ("transform", "expectations", "decode")}
        return PipelineFolder(pipeline_of_document(self.definition), Path(), target_sql=None, **texts)

    def __str__(self) -> str:
        ended = self.forgetting
        by = f", forgotten by {ended.who} at {cell(ended.at)}: {ended.why}" if ended else ""
        return f"{self.name} has no folder here{by}; read from the ledger alone"


def known_pipeline(name: str) -> PipelineFolder | OfLedger:
    """Returns the pipeline's folder, or what the ledger knows of it where there is none.

    Says on standard error which of the two it is not. Refuses a name that neither has, and a broken definition.
    """
    try:
        return folders.load(name)
    except BadDefinition:
        raise
    except Refusal:
        found = of_ledger(name) if IDENTIFIER.match(name) else None
        if found is None:
            raise
        sys.stderr.write(printable_line(str(found)) + "\n")
        return found


def refuse_unknown(name: str) -> None:
    """Refuses a name that has neither a folder here nor a record in the ledger. Runs no code of an author's."""
    if not IDENTIFIER.match(name) or name not in folders.pipeline_names():
        known_pipeline(name)


def pipeline_as_run(name: str) -> Pipeline:
    """Returns the definition of the pipeline's newest attempt, else the folder's.

    Reading what batches have written needs no code of an author's.
    """
    found = of_ledger(name) if IDENTIFIER.match(name) and name in folders.pipeline_names() else None
    return found.folder.pipeline if found and found.definition else pipeline_of(name)


def pipeline_of(name: str) -> Pipeline:
    """Returns the pipeline by its folder, or by the ledger's last definition."""
    found = known_pipeline(name)
    return found.pipeline if isinstance(found, PipelineFolder) else found.folder.pipeline


def refuse_ended(name: str) -> None:
    """Refuses a new pipeline under a name that the ledger has forgotten, or that leads to another pipeline."""
    found = of_ledger(name)
    if found and found.forgetting:
        ended = found.forgetting
        raise Refusal(
            f"{name} was forgotten by {ended.who} at {cell(ended.at)}: {ended.why}",
            next_command=f"lockstep forget {name} --undo --reason ..., or lockstep new ANOTHER_NAME --topic TOPIC",
        )


def of_ledger(name: str) -> OfLedger | None:
    """Returns the ledger's facts about a pipeline, or None if it knows none or cannot be asked.

    Refuses a former name, with the one that the pipeline has now.
    """
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.changes import forgotten
    from lockstep.ledger.views import overview

    try:
        with open_ledger() as conn, transaction(conn, READER) as cur:
            if name in forgotten.names_in_ledger(cur):
                return OfLedger(name, overview.newest_definition(cur, name), forgotten.forgetting(cur, name))
            moved = forgotten.renamed(cur, name)
    except Refusal:
        return None
    if moved is None:
        return None
    raise Refusal(
        f"{name} was renamed to {moved.pipeline} by {moved.who} at {cell(moved.at)}: {moved.why}",
        next_command=f"the same with {moved.pipeline}",
    )
