"""Defines the faults of the storm with real parts.

A log loses its end, a folder is deployed under a run, or a ledger goes back in time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from support.scenes.drill import ask

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

DEFINITION = """
from lockstep.core.pipeline.definition import Append, Json, Limits, Pipeline
P = Pipeline(
    name="drill", topic="{topic}", format=Json("id string, n int, code int"), target=Append("public.drill"),
    limits=Limits(records=200),
)
"""
TARGET = """
create table if not exists public.drill (id text, n int, code int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));
"""
TRANSFORM = """
from pyspark.sql.functions import lit
def transform(records):
    return records.withColumn("code", lit({code}))
"""
STREAMS = 'select stream_id, partition, "position", retired_at is not null from lockstep.stream'
COMMITTED = "select distinct batch_id from lockstep.commit"
CODES = "select distinct _batch, code from public.drill where not _batch = any(%s) order by 1"
MIXED = "select _batch from public.drill group by 1 having count(distinct coalesce(code, 0)) > 1"


@dataclass
class Contents:
    """The content of each partition's log today, and of the log that each stream was opened on, by offset."""

    logs: dict[int, dict[int, tuple]] = field(default_factory=dict)
    streams: dict[int, dict[int, tuple]] = field(default_factory=dict)

    def add(self, records: Iterable[tuple[int, int, str, str]]) -> None:
        """Adds records that a broker has acknowledged: partition, offset, key, value."""
        for partition, offset, key, value in records:
            self.logs.setdefault(partition, {})[offset] = (key.encode(), value.encode())

    def cut(self, partition: int, end: int) -> None:
        """Continues the log from here with other records. Streams that were opened keep what they have read."""
        self.logs[partition] = {o: record for o, record in self.logs[partition].items() if o < end}

    def remember(self, streams: Iterable[tuple[int, int, int, bool]]) -> None:
        """Lets each new stream read the current log."""
        for stream, partition, _, _ in streams:
            self.streams.setdefault(stream, self.logs.setdefault(partition, {}))

    def go_back(self, kept: dict[int, dict[int, tuple]], streams: Iterable[tuple[int, int, int, bool]]) -> None:
        """Lets the ledger know these streams alone.

        A stream reads on in today's log if that holds what it has read.
        """
        self.streams = {}
        for stream, partition, position, is_retired in streams:
            was, now = kept[stream], self.logs[partition]
            ends_behind = position <= 1 + max(now, default=-1)
            is_whole = ends_behind and all(now.get(o) == record for o, record in was.items() if o < position)
            self.streams[stream] = now if is_whole and not is_retired else was

    def visible(self, stream: int, covered: list[tuple[int, int]]) -> dict[int, tuple]:
        """Returns the records of a stream's covered offsets."""
        return {o: r for o, r in self.streams[stream].items() if any(low <= o < high for low, high in covered)}

    @property
    def records(self) -> int:
        """Returns how many records the logs hold today."""
        return sum(len(log) for log in self.logs.values())


class Deployments:
    """A folder whose transform marks each row with its number.

    A batch must have one number, that of the folder at its time.
    """

    def __init__(self, folder: Path, dsn: str) -> None:
        self.transform, self.dsn = folder / "transform.py", dsn
        self.code: int | None = None
        self.before: list[int] | None = None

    def deploy(self, code: int | None) -> None:
        """Puts another transform, or none, into the folder from now on."""
        self.code = code
        self.before = [batch for (batch,) in ask(self.dsn, COMMITTED)]
        if code is None:
            self.transform.unlink(missing_ok=True)
        else:
            self.transform.write_text(TRANSFORM.format(code=code))

    def violations(self) -> list[str]:
        """Names batches that mix two folders, or have rows of an older folder than the one at their commit."""
        mixed = [f"batch {batch} has rows of two folders" for (batch,) in ask(self.dsn, MIXED)]
        if self.before is None:
            return mixed
        late = ask(self.dsn, CODES, self.before)
        return mixed + [
            f"batch {batch} was committed with code {code}, deployed was {self.code}"
            for batch, code in late
            if code != self.code
        ]
