"""Defines the facts of lake files and of a prepared move. Says which files a replay touches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lockstep.core.lake.lake_options import LakeOptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ROWS_PER_FILE = 2_000_000
MAX_RANGES_SIZE = 32 * 2**10  # characters of a snapshot's summary. More ranges are only counted
BoundsOfFiles = Mapping[str, Mapping[int, tuple[int, int]]]  # first and last offset, by path and stream
NOTHING_TOLD: BoundsOfFiles = MappingProxyType({})
OffsetSums = tuple[int, int, int, int, int]  # rows, sum of offsets, sum of their squares, first, last


@dataclass(frozen=True, slots=True, order=True)
class Replaced:
    """Offsets `[begin, end)` of a stream whose rows make room for those of a replay."""

    stream: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class LakeFile:
    """A closed data file, as it was read back from the store. `streams` has the sums of its offsets by stream.

    `digests` has those of the values in these `columns`, where a task has written the file.
    """

    path: str
    rows: int
    bytes: int
    streams: dict[str, OffsetSums]
    digests: dict[str, int] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    @classmethod
    def told(cls, facts: Mapping[str, Any]) -> LakeFile:
        """Returns a file from its fields, as JSON has them."""
        streams: dict[str, Any] = {stream: tuple(sums) for stream, sums in facts["streams"].items()}
        return cls(**{**facts, "streams": streams, "columns": tuple(facts["columns"])})

    @property
    def of_task(self) -> bool:
        """Returns True if a task has written the file, and its rows were never staged."""
        return bool(self.digests)


@dataclass(frozen=True, slots=True)
class LakeWork:
    """The files of the target at this place: below this prefix, with this schema in Arrow's bytes.

    The digest of their values covers these columns. `options` hold the keys of an object store.
    """

    prefix: str
    schema: bytes
    columns: tuple[str, ...]
    options: LakeOptions = field(default_factory=LakeOptions, repr=False)
    place: int = 0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A written metadata file that no reader sees yet. Its table shows it once the pointer moves to `after`.

    `withdrawn` are rows that the move takes out. `sequence` is the order of its snapshot among all of the table.
    `files` are all that was written for it.
    """

    commit_uuid: str
    table_uuid: str
    before: str
    after: str
    snapshot_id: int
    added: int
    removed: int
    rewritten: int
    withdrawn: int
    sequence: int | None = None
    files: tuple[str, ...] = ()


def prefix_of(location: str, batch_id: int, token: int) -> str:
    """Returns the folder of an attempt's files, below its table's."""
    return f"{location.rstrip('/')}/data/lockstep/{batch_id}.{token}"


def add_sums(one: OffsetSums | None, other: OffsetSums) -> OffsetSums:
    """Returns the sums of both sets of offsets together."""
    if one is None:
        return other
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2], min(one[3], other[3]), max(one[4], other[4]))


def sums_of_files(files: Iterable[LakeFile]) -> dict[int, OffsetSums]:
    """Returns the sums of all files together, by stream."""
    found: dict[int, OffsetSums] = {}
    for file in files:
        for stream, sums in file.streams.items():
            found[int(stream)] = add_sums(found.get(int(stream)), sums)
    return found


def sharing_offsets(files: Sequence[LakeFile]) -> list[LakeFile]:
    """Returns the files that may hold an offset of another one, by their bounds of each stream."""
    bounds = sorted(
        (stream, *its[3:], place) for place, file in enumerate(files) for stream, its in file.streams.items()
    )
    found: set[int] = set()
    before = ("", 0, 0)  # the stream, the furthest offset so far and its file
    for stream, first, last, place in bounds:
        if stream == before[0] and first <= before[1]:
            found |= {before[2], place}
        if stream != before[0] or last > before[1]:
            before = (stream, last, place)
    return [files[place] for place in sorted(found)]


def digests_of_files(files: Iterable[LakeFile]) -> dict[int, int]:
    """Returns the digests of all files together, by stream."""
    found: dict[int, int] = {}
    for file in files:
        for stream, digest in file.digests.items():
            found[int(stream)] = found.get(int(stream), 0) + digest
    return found


def holds_replaced_alone(replaced: Sequence[Replaced], stream: tuple[int, int], offset: tuple[int, int]) -> bool:
    """Returns True if a file with these bounds holds replaced rows alone: one stream, and all offsets in one range."""
    if stream[0] != stream[1]:
        return False
    return any(r.stream == stream[0] and r.begin <= offset[0] and offset[1] < r.end for r in replaced)


def are_all_replaced(replaced: Sequence[Replaced], streams: Mapping[int, tuple[int, int]]) -> bool:
    """Returns True if a file with these first and last offsets by stream holds replaced rows alone."""
    return bool(streams) and all(
        any(r.stream == stream and r.begin <= first and last < r.end for r in replaced)
        for stream, (first, last) in streams.items()
    )


def is_touched(replaced: Sequence[Replaced], stream: tuple[int, int], offset: tuple[int, int]) -> bool:
    """Returns True if a file with these bounds may hold a replaced row."""
    return any(stream[0] <= r.stream <= stream[1] and r.begin <= offset[1] and offset[0] < r.end for r in replaced)
