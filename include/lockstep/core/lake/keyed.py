"""Defines what a commit into a keyed lake table is prepared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.core.lake.files import LakeFile, Prepared
from lockstep.core.lake.iceberg import lake_places
from lockstep.core.pipeline.targets import Upsert

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lockstep.core.pipeline.targets import Target

HeldRows = dict[tuple[int, int], tuple[int, int]]  # rows and sum of their hashes, by batch and stream


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedKeys(Prepared):
    """A prepared move of a keyed table. `touched` is a local file with the rows that were there of its keys.

    `columns` are those of the table, with their types in the database. `state` tells what publishing has made of the rows.
    `changes` is what the move does to the rows of each batch and stream.
    `kept` are the files with the rows that stay of these keys.
    """

    touched: Path
    columns: tuple[tuple[str, str], ...]
    state: str
    changes: HeldRows
    kept: tuple[LakeFile, ...]


def keyed_places(targets: Sequence[Target]) -> dict[int, Upsert]:
    """Returns the upserted lake tables by their target's place."""
    each = {place: targets[place] for place in lake_places(targets)}
    return {place: target for place, target in each.items() if isinstance(target, Upsert)}


def add_held(held: HeldRows, more: Mapping[tuple[int, int], tuple[int, int]], sign: int = 1) -> None:
    """Adds rows and hashes by batch and stream, or takes them out."""
    for key, (rows, digest) in more.items():
        before = held.get(key, (0, 0))
        held[key] = (before[0] + sign * rows, before[1] + sign * digest)
