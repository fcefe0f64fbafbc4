"""Says in one line why a target does not take the rows of a batch."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import COMMITTER, PARTITION_ROLE
from lockstep.adapters.postgres_errors import NotAllowed, StatementRefused, server_refusals
from lockstep.core.errors import BadData, Refusal, RowsRefused
from lockstep.core.pipeline.guarantees import commit_unit
from lockstep.core.states import CommitUnit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.staging import AttemptId


@contextmanager
def refused_by_target(pipeline: Pipeline, attempt: AttemptId, table: str) -> Iterator[None]:
    """Turns the database's refusal of rows into `RowsRefused`, in one line that names table and constraint.

    A right that is missing is no fault of the rows, and becomes `Refusal`.
    """
    try:
        with server_refusals():
            yield
    except BadData as error:
        error.next_command = error.next_command or f"lockstep batch {attempt.batch_id}"
        raise
    except NotAllowed as refused:
        role = PARTITION_ROLE if commit_unit(pipeline.guarantee) == CommitUnit.STREAM else COMMITTER
        raise Refusal(
            f"{pipeline.name}: batch {attempt.batch_id}: {table} may not be written: {refused.logged}",
            next_command=f"grant that to {role}, then lockstep run {pipeline.name}",
        ) from None
    except StatementRefused as refused:
        first = f"; the first such record is {refused.place}" if refused.place else ""
        why = f"refuses the rows{refused.by_constraint}: {refused.logged}{first}"
        raise RowsRefused(
            f"{pipeline.name}: batch {attempt.batch_id}: {table} {why}",
            next_command=f"lockstep batch {attempt.batch_id}",
            values=refused.values,
            table=table,
        ) from None
