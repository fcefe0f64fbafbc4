"""Tests overtaken attempts, and the promises of the other guarantees, with a table elsewhere."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest

from elsewhere.conftest import more
from lockstep.adapters.folders import load
from lockstep.context.systems import results_elsewhere
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.ledger.proof.verify import ROWS_OWNED
from lockstep.steps.batch.run import run
from lockstep.steps.changes.hand_over import hand_over
from lockstep.steps.changes.rename import rename
from lockstep.steps.proof.verify import verify
from support.fakes.plain_engine import PlainEngine
from support.scenes.here import ME, Here

pytestmark = pytest.mark.long
VALUES = "_stream, _offset, n, _batch"


@pytest.mark.parametrize("point", ["deliver.taken", "deliver.files_written", "deliver.prepared"])
@pytest.mark.parametrize("expired", [False, True])
def test_a_zombie_behind_a_newer_attempt_changes_nothing(elsewhere, point, expired):
    drill = elsewhere()
    zombie = drill.fork(f"{point}=stop")
    assert zombie.stopped()
    here = Here(drill)
    here.code = lambda value: {"id": value["id"], "n": 1_000}
    assert here.run(take_over=True).went_on
    if expired:
        drill.expire()
    after = drill.rows(VALUES)

    zombie.go_on()
    outcome = zombie.wait()

    assert outcome.told["superseded"], outcome
    assert {n for _, _, n, _ in after} == {1_000}
    assert drill.rows(VALUES) == after
    assert drill.counted() == (0, 0)


@pytest.mark.parametrize("expired", [False, True])
def test_at_most_once_a_zombie_that_wakes_after_a_replay_doubles_nothing(elsewhere, expired):
    drill = elsewhere("AtMostOnce()")
    zombie = drill.fork("commit.done_unacknowledged=stop")
    assert zombie.stopped()
    Here(drill).replay("1", "1")
    assert drill.counted() == (0, 0)
    if expired:
        drill.expire()
    after = drill.rows(VALUES)

    zombie.go_on()
    outcome = zombie.wait()

    assert outcome.kind == "refused"
    assert "its results may be lost" in outcome.told["error"]
    assert drill.rows(VALUES) == after


def test_at_most_once_a_crash_between_the_moves_loses_doubles_nothing_and_names_what_is_lost(elsewhere):
    drill = elsewhere("AtMostOnce()")
    drill.dies_at("commit.done_unacknowledged")
    drill.finishes()
    assert drill.counted() == (150, 0)
    (batch, _), *_ = drill.committed()
    ok, detail = drill.verified()["what may be lost is named"]
    assert ok
    assert detail.count(f"batch {batch} ") == 3, detail

    Here(drill).replay("1", "1")

    assert drill.counted() == (0, 0)
    assert drill.verified()["what may be lost is named"] == (True, "every delivery was confirmed")


@pytest.mark.parametrize("fault", ["drop-before", "drop-after", "overtaken"])
def test_at_most_once_an_answer_that_is_lost_loses_and_doubles_nothing(elsewhere, fault):
    drill = elsewhere("AtMostOnce()")
    drill.server.faults = [fault]

    drill.finishes()

    assert drill.counted() == (0, 0)
    assert drill.verified()["what may be lost is named"] == (True, "every delivery was confirmed")


def test_at_least_once_a_crash_doubles_loses_nothing_and_a_replay_mends_it(elsewhere):
    drill = elsewhere("AtLeastOnce()")
    drill.dies_at("deliver.done")
    drill.finishes()
    assert drill.counted() == (0, 150)
    checks = drill.verified()
    assert all(ok for ok, _ in checks.values()), checks
    assert "150 rows more than records" in checks["rows are all there"][1]

    Here(drill).replay("1", "1")

    assert drill.counted() == (0, 0)


def test_rows_that_somebody_has_deleted_are_named_by_verify(elsewhere):
    drill = elsewhere()
    drill.finishes()
    drill.table.delete("_offset = 3")

    checks = drill.verified(deep=False)

    assert [name for name, (ok, _) in checks.items() if not ok] == ["rows are all there"]


def test_a_pipeline_whose_deliveries_are_told_by_its_name_is_not_renamed(elsewhere):
    drill = elsewhere()
    drill.finishes()
    folder = (drill.home / "drill").rename(drill.home / "shop")
    file = folder / "__init__.py"
    file.write_text(file.read_text().replace('name="drill"', 'name="shop"'))

    with pytest.raises(Refusal, match="its results are told by its name in a table of another catalog") as refused:
        rename(Here(drill).at.conn, "drill", load("shop").pipeline, ME)

    assert refused.value.next_command == f"lockstep new shop --topic {drill.topic}"


def test_a_new_owner_of_the_table_proves_the_rows_of_the_former_one_too(elsewhere):
    drill = elsewhere()
    drill.finishes()
    shutil.copytree(drill.home / "drill", drill.home / "shop")
    file = drill.home / "shop" / "__init__.py"
    file.write_text(file.read_text().replace('name="drill"', 'name="shop"'))
    here, shop = Here(drill), load("shop")
    hand_over(here.at.conn, "POLARIS.web.drill", "drill", shop.pipeline, ME)
    drill.table.transaction().remove_properties("lockstep.drill").commit_transaction()  # as the next command says
    more(drill, "m", 3)
    assert run(here.at, PlainEngine(shop, drill.kafka, drill.dsn), shop, Caller("me")).went_on
    assert len(drill.rows()) == 153

    def failed() -> list[str]:
        checks = verify(here.at.conn, here.at.broker, shop, deep=True, results=results_elsewhere(shop.pipeline))
        return [check.name for check in checks if not check.ok]

    assert failed() == []
    strange = drill.table.scan().to_arrow().slice(0, 1)
    place = strange.schema.get_field_index("_batch")
    drill.table.append(
        strange.set_column(place, strange.schema.field(place), pa.array([99], strange.schema.types[place]))
    )
    assert ROWS_OWNED in failed()
    here.at.close()
