"""Replaces Kafka and Spark in a bench.

Its log has only ends, and its engine stages one record for each range.
"""

from __future__ import annotations

import io
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import psycopg2

from lockstep.core.offsets import Bounds, TopicView
from lockstep.core.planning.routes import Route, Way
from lockstep.core.proof.accounting import Digest, ManifestLine
from lockstep.core.staging import STAGING_SCHEMA

if TYPE_CHECKING:
    from lockstep.adapters.kafka.broker import Broker as AnyBroker
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.staging import StageWork
else:
    AnyBroker = object  # only mypy takes it for one


@dataclass
class StillLog(AnyBroker):
    """A broker's answers: a log from 0 whose partitions end where they are set to."""

    ends: dict[int, int]
    bootstrap: str = "nowhere"

    def view(self, topic: str) -> TopicView:
        """Returns the bounds of today."""
        return TopicView("cluster", topic, "topic", {p: Bounds(0, end) for p, end in self.ends.items()})


class OneRecordEngine:
    """An engine that stages one record for each range, by COPY, as a Spark task would."""

    def __init__(self, dsn: str, columns: tuple[Column, ...]) -> None:
        self._dsn = dsn
        self._columns = columns

    def route(self) -> Route:
        """Returns the only way that there is."""
        return Route(Way.PROCESS, "one record for each range")

    def application(self, _work: Any) -> None:
        """Returns None, because no application reads."""

    def figures(self, _work: Any) -> None:
        """Returns None, because no engine counts."""

    def columns(self, _place: int = 0) -> tuple[Column, ...]:
        """Returns the decoded columns."""
        return self._columns

    def cancel(self) -> None:
        """Does nothing, because a read takes no time here."""

    def read(self, work: StageWork, _sink: Any) -> tuple[ManifestLine, ...]:
        """Stages the first offset of each range as its record."""
        now = datetime.now(UTC)
        fields = "0\t1\t" + now.isoformat() + "\tf" + "\t\\N" * 4 + "\tid"
        rows = io.StringIO("".join(f"{r.stream_id}\t{r.offsets.from_offset}\t{fields}\n" for r in work.ranges))
        with closing(psycopg2.connect(self._dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute("set local role lockstep_stager")
            cur.copy_expert(f"copy {STAGING_SCHEMA}.{work.table} from stdin", rows)
        return tuple(
            ManifestLine(1, r.stream_id, 1, 1, 0, 1, 10, Digest(1, 0, 0), o.from_offset, o.from_offset, now, now)
            for r in work.ranges
            for o in [r.offsets]
        )
