"""Finds the files of a pipeline's results, by their names and contents."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockstep.core.pipeline.definition import AtLeastOnce
from lockstep.targets.stores import parquet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lockstep.targets.stores.delivery import Delivery, Range

_NAME = re.compile(r"^(\d{20})-(\d{20})(?:\.(\d+))?\.parquet\Z")


@dataclass(frozen=True, slots=True, order=True)
class ResultFile:
    """One stream's results of one batch. The name has its offsets, the file its batch and attempt."""

    stream: int
    begin: int
    end: int
    batch_id: int
    token: int
    path: Path = field(compare=False)

    @classmethod
    def of(cls, place: Path, delivery: Delivery, item: Range) -> ResultFile:
        """Returns the place of a delivery's rows of one range.

        At least once has a name for each attempt, and so keeps them all.
        """
        stream, begin, end = item
        token = delivery.attempt.token
        again = f".{token}" if isinstance(delivery.pipeline.guarantee, AtLeastOnce) else ""
        path = place / str(stream) / f"{begin:020}-{end:020}{again}.parquet"
        return cls(stream, begin, end, delivery.attempt.batch_id, token, path)


def parts_on(place: Path, item: Range) -> list[ResultFile]:
    """Returns the files that lie on these offsets of a stream, in order. Does not read the others."""
    stream, begin, end = item
    return sorted(parts_of(place, stream, begin, end))


def parts_of(place: Path, stream: int | None = None, begin: int = 0, end: int = 2**63) -> Iterator[ResultFile]:
    """Yields the existing files on these offsets, of one stream or of all."""
    for path in sorted(place.glob(f"{'*' if stream is None else stream}/*.parquet")):
        match = _NAME.match(path.name)
        if match and path.parent.name.isdigit() and int(match[1]) < end and begin < int(match[2]):
            batch_id, token = parquet.origin(path)
            yield ResultFile(int(path.parent.name), int(match[1]), int(match[2]), batch_id, token, path)
