"""Tests that no step changes an attempt of another pipeline, whatever XCom says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lockstep.airflow.steps import announce_attempt
from lockstep.core.errors import Refusal, Superseded
from lockstep.core.staging import AttemptId
from lockstep.steps.batch.commit import commit
from lockstep.steps.batch.validate import validate


def announce(at, pipeline, attempt) -> None:
    announce_attempt(at, pipeline, [], attempt)


SEEN = "select state, error, closed_at, lease_until from lockstep.attempt order by token"


@pytest.mark.parametrize("act", [validate, commit, announce])
def test_another_pipelines_attempt_is_neither_closed_nor_held_nor_announced(contents, act):
    here = contents()
    attempt = here.staged() if act is validate else here.validated()
    pipeline = replace(here.folder.pipeline, name="another")
    given = pipeline if act is announce else replace(here.folder, pipeline=pipeline)
    before = here.sql(SEEN)

    with pytest.raises(Refusal) as refused:
        act(here.at, given, attempt)

    assert f"batch {attempt.batch_id} is of the pipeline drill, not of another: plan again" in str(refused.value)
    assert here.sql(SEEN) == before
    here.finish(attempt, "stage" if act is validate else "validate")
    assert here.drill.ask("select count(*) from lockstep.commit") != [(0,)]


def test_an_attempt_of_no_batch_is_refused_by_name(contents):
    here = contents()
    with pytest.raises(Superseded, match="batch 77 is not in the ledger: plan again"):
        commit(here.at, here.folder, AttemptId(77, 1, None))
