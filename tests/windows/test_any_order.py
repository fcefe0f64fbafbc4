"""Tests windows under random disorder, skips, fills, replays under the same and other code, and rolled back commits."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import datetime, timedelta

import pytest

from lockstep.steps.proof.verify import verify
from simulation.scene import told
from support.oracles.folded import not_folded

SIZE, EVERY = timedelta(seconds=60), timedelta(seconds=30)
COUNTED = """select (select coalesce(sum(records), 0) from lockstep.contribution),
    (select count(*) from lockstep.late), (select coalesce(sum(r.written), 0) from lockstep.segment g
        join lockstep.result r using (batch_id, token, stream_id))"""
REVISIONS = """select i.window_start, i.id, i._revision from lockstep_feed.public_house i
    join lockstep.change_set s on s.change_set_id = i._change_set where i._change in ('insert', 'after')
    order by s.first_number + i._ordinal_in_set"""
CHANGES = "select kind, changes from lockstep.change_set where target = 'public.house' order by seq"
ROWS = "select window_start, id, records, total, uids from public.house"


class Disorder:
    """Acts drawn from a seed, on a scene whose records come late, very late, and from the future."""

    def __init__(self, scene, seed: int) -> None:
        self.scene = scene
        self.random = random.Random(seed)  # noqa: S311 - a seed that can be told is the point

    def acts(self, steps: int) -> None:
        for step in range(steps):
            act = self.random.choice([self.produce] * 3 + [self.live] * 4 + [self.emit, self.skip, self.fill, self.replay,
                                      self.other_code, self.roll_back, self.preview])  # fmt: skip
            act()
            if step % 6 == 5:
                self.look()

    def produce(self) -> None:
        for partition in self.random.sample(range(3), 2):
            kind = self.random.choice(["data"] * 8 + ["garbage", "deletion", "committed", "aborted"])
            self.scene.log.produce(partition, self.random.randint(1, 12), kind=kind)

    def live(self) -> None:
        self.scene.on(self.scene.plan())

    def emit(self) -> None:
        self.scene.emit()

    def skip(self) -> None:
        if self.random.random() < 0.5:
            told(lambda: self.scene.skip(None))

    def fill(self) -> None:
        self.scene.redo("fill", None, None)

    def replay(self) -> None:
        partition = self.random.randrange(3)
        position = self.scene.positions().get(partition, 0)
        if position:
            begin = self.random.randrange(position)
            told(
                lambda: self.scene.redo(
                    "replay", {partition: begin}, {partition: self.random.randint(begin + 1, position)}
                )
            )

    def other_code(self) -> None:
        self.scene.factor = self.random.randint(1, 3)

    def preview(self) -> None:
        before = self.facts()
        told(lambda: self.scene.preview({0: 0}))
        assert self.facts() == before

    def roll_back(self) -> None:
        """Lets a commit's connection be lost behind everything but the COMMIT. The next try does it."""
        planned = self.scene.plan()
        if "Start" in repr(planned.decision):
            self.scene.validated(planned)
            self.scene.leases_run_out()

    def facts(self) -> tuple:
        return (
            self.scene.ask(f"{ROWS} order by 1, 2"),
            self.scene.late(),
            self.scene.ask("select key, revision from lockstep.window_state order by 1"),
            self.scene.ask("select stream_id, lower(offsets) from lockstep.judged order by 1, 2"),
            self.scene.ask(CHANGES),
        )

    def look(self) -> None:
        """Compares with the oracle, folds the feed, counts each row in each of its windows, and lets no revision come twice."""
        scene = self.scene
        assert scene.violations() == []
        assert not_folded(scene.ask, "public.house") == []
        ((counted, late, written),) = scene.ask(COUNTED)
        assert counted + late == 2 * written
        newest: dict[tuple, int] = {}
        for *key, revision in scene.ask(REVISIONS):
            assert revision > newest.get(tuple(key), 0), key
            newest[tuple(key)] = revision


def clean_pass(scene, watermark: datetime) -> dict:
    """Returns the windows that the watermark has passed, added up from the log alone in one pass."""
    found = defaultdict(list)
    for part in scene.log.parts:
        for record in part.records.values():
            try:
                content = json.loads(record.value)
            except (AttributeError, TypeError, ValueError):
                continue  # a marker, a deletion, or garbage
            moment = datetime.fromisoformat(content["at"])
            newest = moment.replace(second=moment.second // 30 * 30, microsecond=0)
            for start in (newest, newest - EVERY):
                if start + SIZE <= watermark:
                    found[start, content["id"]].append(content)
    return {
        key: (
            len(each),
            sum(n for one in each if (n := one["n"]) is not None)
            if any(one["n"] is not None for one in each)
            else None,
            sum(one["uid"] for one in each),
        )
        for key, each in found.items()
    }


@pytest.mark.parametrize(
    "seed",
    [1, pytest.param(2, marks=pytest.mark.long), pytest.param(random.SystemRandom().randrange(10**6), id="drawn")],
)
@pytest.mark.timeout(300)
def test_whatever_comes_in_whatever_order_each_row_counts_or_is_late_and_the_end_is_one_clean_pass(timed, seed):
    scene = timed()
    disorder = Disorder(scene, seed)
    for partition in range(3):
        scene.log.produce(partition, 20)
    scene.run()
    disorder.acts(45)

    # The same code, replayed twice: the second time nothing changes, and nothing becomes late.
    scene.leases_run_out()
    scene.factor = 1
    scene.run()
    scene.end_requests()
    scene.redo("fill", None, None)
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    disorder.look()
    late, sets = scene.late(), len(scene.ask(CHANGES))
    scene.redo("replay", {0: 0, 1: 0, 2: 0}, None)
    assert scene.late() == late, f"seed {seed}"
    assert {changes for _, changes in scene.ask(CHANGES)[sets:]} == {0}, f"seed {seed}"
    assert late, f"seed {seed}: nothing was late"

    # After everything is admitted and the last windows are shown, the table is one clean pass over the log.
    scene.admit()
    assert scene.late() == []
    for partition in range(3):
        scene.log.made += 100_000
        scene.log.produce(partition, 1)
    scene.run()
    disorder.look()
    ((watermark,),) = scene.ask("select watermark from lockstep.event_time")
    rows = {(start, key): (records, total, uids) for start, key, records, total, uids in scene.ask(ROWS)}
    assert rows == clean_pass(scene, watermark), f"seed {seed}"
    deep = verify(scene.at.conn, scene.at.broker, scene.folder, deep=True)
    assert [f"{check.name}: {check.detail}" for check in deep if not check.ok] == [], f"seed {seed}"
    assert len(rows) > 50
