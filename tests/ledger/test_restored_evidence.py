"""Tests the evidence that `restored` takes from a store: its own pipeline's results, and unknown attempts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from lockstep.core.changes.restored import SeenBatch
from lockstep.core.pipeline.definition import Idempotent, Postgres
from lockstep.steps.changes.restored import restored
from support.fakes.ledger_rows import LedgerRows
from support.scenes.here import ME, Here


@dataclass
class Holding:
    """A store that holds these results and knows their pipeline only by stream."""

    results: tuple[SeenBatch, ...]

    def seen(self, _pipeline) -> tuple[SeenBatch, ...]:
        return self.results


@pytest.fixture
def here(drill):
    here = Here(drill)
    here.drain()
    yield here
    here.at.close()


def found(here: Here, *results: SeenBatch, person=None):
    pipeline = replace(here.folder.pipeline, guarantee=Idempotent(), store=Postgres("SHARED"))
    return restored(here.at.conn, here.at.broker, pipeline, Holding(results), person).evidence  # type: ignore[arg-type]


def committed(here: Here) -> list[SeenBatch]:
    """Returns the results that the ledger knows, as a store would report them."""
    rows = here.drill.ask(
        "select r.stream_id, lower(r.offsets), upper(r.offsets), r.batch_id, c.token from lockstep.batch_range r"
        " join lockstep.commit c using (batch_id, stream_id) order by 1"
    )
    return [SeenBatch(*row) for row in rows]


def test_results_of_another_pipeline_in_a_shared_store_are_no_evidence(here):
    other = LedgerRows(here.at.conn, "orders").stream(0)
    ours = committed(here)

    evidence = found(here, *ours, SeenBatch(other, 0, 1_000, 7_000, 9_000))

    assert (evidence.strange, evidence.ahead) == ((), ())
    assert evidence.past_batch == max(each.batch_id for each in ours)
    assert evidence.past_token == max(each.token for each in ours)


def test_an_attempt_that_the_ledger_never_opened_is_told_though_its_batch_is_known(here):
    ours = committed(here)
    strange = replace(ours[0], token=ours[0].token + 5_000)

    evidence = found(here, *ours, strange)

    assert evidence.strange == (strange,)


def test_what_is_drawn_next_lies_past_the_token_that_the_store_has_seen(here):
    strange = replace(committed(here)[0], token=7_000)

    found(here, strange, person=ME)

    drawn = here.drill.ask("select set_config('role', 'lockstep_stager', false), nextval('lockstep.token_seq')")
    assert drawn[0][1] > 8_000
