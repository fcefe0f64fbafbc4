"""Tests one delivery into a table elsewhere, sent again by the attempt that has sent it before. Needs no ledger."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lockstep import Append, Iceberg, Idempotent, Json, Pipeline
from lockstep.adapters.iceberg.schema import new_schema
from lockstep.core.errors import BadData, Unreachable
from lockstep.core.lake.catalogs import Catalog, CatalogSettings
from lockstep.core.staging import AttemptId
from lockstep.core.states import Lane
from lockstep.targets.stores import elsewhere
from lockstep.targets.stores.delivery import Delivery, NewerArrival
from lockstep.targets.stores.elsewhere import LakeElsewhere

COUNT = 5
STAGED = (("id", "text"), ("n", "integer"))
PIPELINE = Pipeline(
    name="drill",
    topic="t",
    format=Json("id string, n int"),
    target=Append(Iceberg("web.drill", catalog="POLARIS")),
    guarantee=Idempotent(),
)


class Scene:
    """A table behind the server, and deliveries of five rows, of offsets 0 to 4 of stream 1."""

    def __init__(self, server, home) -> None:
        self.server, self.home = server, home
        server.catalog.create_namespace("web")
        server.catalog.create_table(("web", "drill"), new_schema(PIPELINE.columns))
        self.store = self.patient(3.0)

    @property
    def table(self):
        return self.server.catalog.load_table(("web", "drill"))

    def patient(self, seconds: float, **more: str) -> LakeElsewhere:
        return LakeElsewhere(CatalogSettings(Catalog("POLARIS").name, {"uri": self.server.uri, **more}, seconds))

    def delivery(self, batch: int, token: int, factor: int = 1, *, twice: bool = False) -> Delivery:
        named = {
            "id": pa.array([f"r{i}" for i in range(COUNT)]),
            "n": pa.array([i * factor for i in range(COUNT)], pa.int32()),
            "_stream": pa.array([1] * COUNT, pa.int32()),
            "_offset": pa.array([0, 1, 2, 3, 3] if twice else range(COUNT), pa.int64()),
            "_ordinal": pa.array([0] * COUNT, pa.int32()),
            "_batch": pa.array([batch] * COUNT, pa.int64()),
        }
        pq.write_table(pa.table(named), self.home / "1.parquet")
        attempt = AttemptId(batch, token)
        return Delivery(PIPELINE, attempt, Lane.LIVE, ((1, 0, COUNT),), {1: 0}, STAGED, COUNT, self.home)

    def rows(self) -> list[tuple]:
        found = self.table.scan().to_arrow().to_pylist()
        return sorted((row["_offset"], row["_ordinal"], row["id"], row["n"], row["_batch"]) for row in found)


@pytest.fixture(name="scene")
def made_scene(server, tmp_path):
    return Scene(server, tmp_path)


def test_a_delivery_that_is_sent_again_is_found_and_an_earlier_one_is_turned_away(scene):
    assert scene.store.bring(scene.delivery(7, 20)) == {"inserted": 5, "withdrawn": 0, "files": 1}
    once = scene.rows()
    assert once == [(i, 0, f"r{i}", i, 7) for i in range(COUNT)]

    assert scene.store.bring(scene.delivery(7, 20)) == {"inserted": 5, "found": 1}
    with pytest.raises(NewerArrival) as turned:
        scene.store.bring(scene.delivery(7, 19))

    assert (turned.value.batch_id, turned.value.token) == (7, 20)
    assert scene.rows() == once
    assert len(scene.server.commits) == 1


def test_a_later_delivery_takes_the_place_of_what_lies_on_its_offsets(scene):
    scene.store.bring(scene.delivery(7, 20))

    assert scene.store.bring(scene.delivery(8, 21, factor=-1))["withdrawn"] == 5

    assert scene.rows() == [(i, 0, f"r{i}", -i, 8) for i in range(COUNT)]
    assert scene.store.counts(PIPELINE, [(1, 0, 5), (1, 5, 9)]) == {(1, 0, 5): (5, 5, 10, 30), (1, 5, 9): (0, 0, 0, 0)}
    assert scene.store.stranger(PIPELINE, [(8, 1, 0, 5)]) is None
    assert scene.store.stranger(PIPELINE, [(8, 1, 0, 4)]) == "stream 1 offset 4 names batch 8"
    assert [(each.batch_id, each.token) for each in scene.store.seen(PIPELINE)] == [(8, 21), (7, 20)]


def test_where_only_the_property_tells_of_a_delivery_its_rows_are_counted(scene):
    scene.table.append(scene.table.scan().to_arrow())
    before = scene.table.metadata.current_snapshot_id
    scene.store.bring(scene.delivery(7, 20))
    scene.table.manage_snapshots().rollback_to_snapshot(before).commit()
    assert (scene.rows(), scene.table.properties["lockstep.drill"]) == ([], "7:20")

    scene.store.bring(scene.delivery(7, 20))

    assert len(scene.rows()) == 5


def test_two_rows_with_one_key_are_refused_by_name_and_nothing_is_sent(scene):
    with pytest.raises(BadData, match="stream 1 offset 3 has two rows with _ordinal 0"):
        scene.store.bring(scene.delivery(7, 20, twice=True))
    assert scene.server.commits == []


def test_a_delivery_that_is_looked_for_late_is_still_found(scene, monkeypatch):
    ticks = count(0, 10)  # each look at the clock is ten seconds after the last one, and patience is three
    clock = SimpleNamespace(sleep=lambda _seconds: None, monotonic=lambda: next(ticks))
    monkeypatch.setattr(elsewhere, "time", clock)
    scene.server.faults = ["drop-after"]

    assert scene.store.bring(scene.delivery(7, 20)) == {"inserted": 5, "found": 1}

    assert scene.rows() == [(i, 0, f"r{i}", i, 7) for i in range(COUNT)]
    assert scene.server.commits == [("drop-after", 200)]


def test_a_delivery_without_an_answer_goes_on_for_as_long_as_its_patience(scene, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(elsewhere, "time", clock)
    monkeypatch.setattr(scene.server, "commit", lambda *_: setattr(scene.server, "page", (503, b"")))
    scene.store = scene.patient(60.0)

    with pytest.raises(Unreachable, match="is not known, and the next run looks for it"):
        scene.store.bring(scene.delivery(7, 20))

    assert clock.now > 60


class Clock:
    """A clock on which each pause is a second and a half, and nothing else takes time."""

    now = 0.0

    def sleep(self, _seconds: float) -> None:
        self.now += 1.5

    def monotonic(self) -> float:
        return self.now
