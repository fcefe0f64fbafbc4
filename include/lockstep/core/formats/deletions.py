"""Decides which targets a deletion reaches, and says what a decoder of one's own returns to delete a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.pipeline.formats import Custom, key_columns
from lockstep.core.pipeline.targets import Keyed
from lockstep.core.records import SOURCE_ORDER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockstep.core.pipeline.formats import Format
    from lockstep.core.pipeline.targets import Target


@dataclass(frozen=True, slots=True)
class Delete:
    """A deletion that a decoder of one's own returns: `Delete({"id": 7})`. It counts as a tombstone does.

    `key` is a dict of exactly the columns of the target's key.
    """

    key: Mapping[str, Any]


def deletion_targets(format_: Format, targets: Sequence[Target]) -> tuple[Keyed, ...]:
    """Returns the targets that a deletion reaches, or none if such a record is a reject.

    A record without a value reaches the keyed targets whose key is the column of the Kafka key. A single one counts
    whatever its key. A `Delete` reaches all keyed targets, which have one key.
    """
    if isinstance(format_, Custom):
        return () if why_no_deletion(format_, targets) else tuple(_keyed(targets))
    several = len(targets) > 1
    named = key_columns(format_)
    keyed = [target for target in _keyed(targets) if target.key == named or not several]
    if not named or any(target.order_by not in {None, SOURCE_ORDER} for target in keyed):
        return ()
    return tuple(keyed)


def why_no_deletion(format_: Custom, targets: Sequence[Target]) -> str | None:
    """Returns why a `Delete` has no meaning for these targets, or None if it has one."""
    keyed = _keyed(targets)
    if not keyed:
        kinds = " and ".join(dict.fromkeys(type(target).__name__ for target in targets))
        return f"the target is {kinds or 'none'}, and only Upsert and History know a row by its key"
    first, names = keyed[0], {column.name for column in format_.columns}
    for target in keyed:
        if target.order_by is not None:
            return f"target.order_by of {target.table} is {target.order_by!r}, and a deletion has no such value"
        if {*target.key} != {*first.key}:
            return f"{first.table} and {target.table} have different keys, and one deletion names one key"
    strange = [name for name in first.key if name not in names]
    return f"the key column {strange[0]} of {first.table} is none of the format's" if strange else None


def _keyed(targets: Sequence[Target]) -> list[Keyed]:
    return [target for target in targets if isinstance(target, Keyed)]
