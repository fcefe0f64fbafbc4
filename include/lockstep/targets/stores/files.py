"""Keeps results as Parquet files, one per batch and stream.

A file's name is its natural key. A file exists complete or not at all.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.adapters.archive.disk import put_whole, to_disk
from lockstep.core.changes.restored import SeenBatch
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.pipeline.definition import AtLeastOnce, AtMostOnce
from lockstep.core.states import Lane
from lockstep.faults import reach
from lockstep.targets.stores import parquet
from lockstep.targets.stores.delivery import NewerArrival
from lockstep.targets.stores.parts import ResultFile, parts_of, parts_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.targets.stores.delivery import Delivery, FoundDelivery, Range

LOCK, LOCK_SECONDS = ".lock", 60.0


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of files: `pipeline/stream/from-until.parquet`. Names that begin with a dot are not results.

    A replay's new file and the replaced ones exist together only between its rename and their removal. A reader never
    sees a hole. A reader that must not see a record twice takes the later of two overlapping files.
    """

    path: Path

    def require_fit(self, pipeline: Pipeline, columns: Sequence[Column]) -> None:  # noqa: ARG002 - a file takes any columns
        """Refuses a folder that does not exist or cannot be written."""
        place = self.path / pipeline.name
        if not place.is_dir():
            raise Refusal(f"{pipeline.name}: {place} is no folder", next_command=f"lockstep migrate {pipeline.name}")
        if not os.access(place, os.W_OK | os.X_OK | os.R_OK):
            raise Refusal(f"{pipeline.name}: {place} cannot be written by this user", next_command=f"ls -ld {place}")

    def make(self, folder: PipelineFolder) -> str:
        """Makes the pipeline's folder. There is no table, so target.sql is not needed."""
        place = self.path / folder.pipeline.name
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Refusal(
                f"{folder.pipeline.name}: {place} cannot be made: {error.strerror}",
                next_command=f"ls -ld {self.path.parent}",
            ) from None
        return str(place)

    def take(self, cur: cursor, delivery: Delivery) -> None:
        """Writes the staged rows to Parquet files in the spool, one for each stream."""
        parquet.write_parquet(cur, delivery)

    def bring(self, delivery: Delivery) -> dict[str, int]:
        """Puts each stream's file in its place. Refuses if a newer delivery of the same offsets has come."""
        place = self.path / delivery.pipeline.name
        try:
            with _alone(place):
                return _put(place, delivery)
        except OSError as error:
            raise Unreachable(f"files in {place}: {error.strerror or error}", next_command=f"ls -ld {place}") from None

    def seen(self, pipeline: Pipeline) -> tuple[SeenBatch, ...]:
        """Returns one entry for each file."""
        parts = parts_of(self.path / pipeline.name)
        return tuple(SeenBatch(part.stream, part.begin, part.end, part.batch_id, part.token) for part in parts)

    def counts(self, pipeline: Pipeline, ranges: Sequence[Range]) -> dict[Range, FoundDelivery]:
        """Returns rows, offsets and digest of each range, by reading the files that lie on it."""
        found = {}
        for stream, begin, end in ranges:
            offsets = [o for part in self._parts(pipeline, stream, begin, end) for o in parquet.row_offsets(part.path)]
            inside = [o for o in offsets if begin <= o < end]
            distances = [o - begin for o in set(inside)]
            found[stream, begin, end] = (len(inside), len(distances), sum(distances), sum(d * d for d in distances))
        return found

    def stranger(self, pipeline: Pipeline, owners: Sequence[tuple[int, int, int, int]]) -> str | None:
        """Returns the first file of a batch that does not own its offsets."""
        known = set(owners)
        for part in parts_of(self.path / pipeline.name):
            if (part.batch_id, part.stream, part.begin, part.end) not in known:
                return f"{part.path.name} of stream {part.stream} names batch {part.batch_id}"
        return None

    def offsets(self, pipeline: Pipeline, stream_id: int) -> Iterator[int]:
        """Yields offsets file by file, in the order of their ranges. Reads overlapping files together."""
        waiting: list[int] = []
        end = 0
        for part in sorted(parts_of(self.path / pipeline.name, stream_id)):
            if part.begin >= end:
                yield from sorted(waiting)
                waiting = []
            waiting += parquet.row_offsets(part.path)
            end = max(end, part.end)
        yield from sorted(waiting)

    def rows_of_offset(self, pipeline: Pipeline, stream_id: int, offset: int) -> list[dict[str, Any]]:
        """Returns the rows of one record."""
        return [
            row
            for part in self._parts(pipeline, stream_id, offset, offset + 1)
            for row in parquet.rows_of_offset(part.path, offset)
        ]

    def _parts(self, pipeline: Pipeline, stream: int, begin: int, end: int) -> list[ResultFile]:
        return parts_on(self.path / pipeline.name, (stream, begin, end))


def _put(place: Path, delivery: Delivery) -> dict[str, int]:
    """Gives every new file its name first, then removes the files that they replace.

    If the process dies in between, the next delivery completes it.
    """
    new = [ResultFile.of(place, delivery, item) for item in delivery.ranges]
    there = [_there(place, delivery, part) for part in new]
    written = sum(part.path.exists() for part in new)
    for part in new:
        part.path.parent.mkdir(exist_ok=True)
        half = part.path.with_name(f".{part.path.name}.{delivery.attempt.token}")
        put_whole(delivery.spool / parquet.spooled(part.stream), part.path, half)
    reach("deliver.written")
    old = [part for parts in there for part in parts if part.path not in {each.path for each in new}]
    if not isinstance(delivery.pipeline.guarantee, AtLeastOnce) or delivery.lane == Lane.REPLAY:
        for part in old:
            part.path.unlink(missing_ok=True)
            to_disk(part.path.parent)
    return {"files": len(new), "inserted": delivery.count, "written_again": written}


def _there(place: Path, delivery: Delivery, new: ResultFile) -> list[ResultFile]:
    """Returns the files on a range's offsets, and removes incomplete files of dead deliveries.

    Refuses if a newer delivery has come. A live batch or a fill may find a file there. An abandoned batch has brought
    it, because no other owns its offsets.
    """
    for half in (place / str(new.stream)).glob(".*.parquet.*"):
        half.unlink(missing_ok=True)
    found = parts_on(place, (new.stream, new.begin, new.end))
    least = delivery.attempt.token + (0 if isinstance(delivery.pipeline.guarantee, AtMostOnce) else 1)
    for part in found:
        if part.token >= least and not isinstance(delivery.pipeline.guarantee, AtLeastOnce):
            raise NewerArrival(
                f"batch {new.batch_id}: {part.path.name} of stream {part.stream} is what attempt {part.token} of batch "
                f"{part.batch_id} brought",
                part.batch_id,
                part.token,
            )
        if delivery.lane == Lane.REPLAY and not (new.begin <= part.begin and part.end <= new.end):
            raise Refusal(
                f"{delivery.pipeline.name}: {part.path} holds more than the replayed offsets [{new.begin}, {new.end}) of "
                f"stream {new.stream}: a batch that was given up after its delivery has left it",
                next_command=f"lockstep replay {delivery.pipeline.name} --from P:{part.begin} --until P:{part.end}",
            )
    return found


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Allows one delivery at a time in this folder. Waits for another one, at most `LOCK_SECONDS`."""
    until = time.monotonic() + LOCK_SECONDS
    with (place / LOCK).open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise Unreachable(
                        f"files in {place}: another delivery has held {LOCK} for {LOCK_SECONDS:.0f} s",
                        next_command=f"fuser {place / LOCK}",
                    ) from None
            time.sleep(0.1)
        yield
