from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lockstep.adapters.postgres import connect
from lockstep.core.pipeline.definition import EventTime, Feed
from lockstep.steps.windows.emit import emit
from simulation.log import Record, sealed
from simulation.scene import Scene
from support.fakes.ledger_rows import LedgerRows

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Timed(Scene):
    """A scene with windows of a minute, another one each half minute, that are open for records 40 seconds late.

    `put` adds a record whose event happened so many seconds after noon.
    """

    feed = Feed()

    def __init__(self, dsn, home, *, idle: str | None = None, **options: object) -> None:
        super().__init__(dsn, home, kind="windowed")
        if idle or options:
            target = replace(self.pipeline.first, **options)
            pipeline = replace(self.pipeline, target=target, event_time=EventTime("at", delay="10 seconds", idle=idle))
            self.folder = replace(self.folder, pipeline=pipeline)
            self.pipeline = pipeline

    def put(self, partition: int, *seconds: float | str, key: str | None = "a") -> None:
        part = self.log.parts[partition]
        for second in seconds:
            self.log.made += 1
            at = second if isinstance(second, str) else (NOON + timedelta(seconds=second)).isoformat()
            content = {"uid": self.log.made, "id": key, "n": self.log.made, "at": at, "factor": 1}
            part.records[part.end] = Record((key or "").encode(), sealed(content), NOON)
            part.end += 1
        part.stable_end = part.end

    def emit(self) -> dict[str, int]:
        return dict(emit(self.at.conn, self.at.broker, self.pipeline).emitted)

    def watermark(self) -> float | str:
        """Returns the watermark in seconds after noon."""
        ((found,),) = self.ask("select nullif(watermark, '-infinity') from lockstep.event_time")
        return "nothing" if found is None else (found - NOON).total_seconds()

    def shown(self) -> dict[tuple[float, str], tuple[int, int]]:
        """Returns the records and the revision of each window that has a row, by its start after noon and key."""
        rows = self.ask("select window_start, id, records, _revision from public.house")
        return {((start - NOON).total_seconds(), key): (records, revision) for start, key, records, revision in rows}

    def late(self) -> list[tuple[int, int, float]]:
        """Returns partition, offset and window of what is late."""
        rows = self.ask("""select s.partition, l."offset", l.window_start from lockstep.late l
            join lockstep.stream s using (stream_id) order by 1, 2, 3""")
        return [(partition, offset, (start - NOON).total_seconds()) for partition, offset, start in rows]


@pytest.fixture
def timed(database, tmp_path):
    """Returns `timed(**options)`: a scene with windows, in whose table nothing stands yet."""
    made = []

    def make(**options: Any) -> Timed:
        made.append(Timed(database, tmp_path, **options))
        return made[-1]

    yield make
    for each in made:
        each.end()


@pytest.fixture
def scene(timed):
    """Returns windows of which two are shown, two are due and two are open, and one record that is late in two windows."""
    scene = timed()
    for partition in range(3):
        scene.put(partition, 0, 80)
    scene.done()
    scene.emit()
    for partition in range(3):
        scene.put(partition, 500)
    scene.done()
    scene.put(0, 0, 900)
    scene.done()
    assert scene.late() == [(0, 3, -30), (0, 3, 0)]
    assert scene.shown() == {(-30, "a"): (3, 1), (0, "a"): (3, 1)}
    return scene


@pytest.fixture
def ledger(database):
    with closing(connect(database)) as conn:
        yield LedgerRows(conn)
