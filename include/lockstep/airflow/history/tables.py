"""Shows and makes the changes of a pipeline's tables, for a history run that somebody approves."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lockstep.adapters.airflow.names import AirflowSkipException
from lockstep.airflow.history import showing
from lockstep.core.planning.requests import Decided

if TYPE_CHECKING:
    from lockstep.core.changes.person import Person
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.planning.history import RequestForm
    from lockstep.steps.context import Context

log = logging.getLogger(__name__)


def show_proposed(at: Context, folder: PipelineFolder, asked: RequestForm) -> str:
    """Returns what the changes would be. Skips the run if there are none, and refuses another digest than theirs."""
    from lockstep.context.systems import configured_registry
    from lockstep.steps.changes import evolve
    from lockstep.steps.inspect.registry import shift_document, words_of_shift

    if asked.digest is not None:
        found = evolve.require_proposed(at.conn, folder, asked.digest)
    else:
        found = evolve.propose_plainly(at.conn, folder)
    shift = shift_document(folder.pipeline, configured_registry)
    shown = showing.format_proposal(found, words_of_shift(folder.pipeline.name, shift))
    log.info("%s", shown)
    if not (found.changes or found.unsafe or (shift and shift["fields"])):
        raise AirflowSkipException(f"{folder.pipeline.name}: table and definition agree")
    return shown


def apply_approved(at: Context, folder: PipelineFolder, asked: RequestForm, person: Person) -> Decided:
    """Runs the changes that were approved, and returns a line on each."""
    from lockstep.steps.changes import evolve

    done = evolve.apply_plainly(at.conn, folder, asked.digest or "", person)
    name = folder.pipeline.name
    lines = [f"{name}: {each}" for each in done.statements] or [f"{name}: nothing to do; {done.by} ran {done.digest}"]
    if done.statements:
        lines.append(f"append these lines to {name}/target.sql, so that a new database gets the same table")
    return Decided(lines, done.changed)
