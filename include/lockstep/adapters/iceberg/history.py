"""Compares the history of a table with what was committed into it, and its files with what its manifests say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import ValidationError

if TYPE_CHECKING:
    from lockstep.adapters.iceberg.table import LakeTable


def was_taken_back(table: LakeTable, snapshot_id: int, sequence: int | None) -> bool:
    """Returns True if readers see a state that this snapshot of an earlier commit has not led to.

    An ancestor that is as old, and is not it, proves that. Nothing does if older ancestors have expired.
    """
    if snapshot_id in table.snapshots:
        return False
    if table.keeps(snapshot_id) or not table.snapshots:
        return True
    known = {each.snapshot_id: each.sequence_number or 0 for each in table.opened.metadata.snapshots}
    return sequence is not None and any(known[each] <= sequence for each in table.snapshots)


def damaged_files(table: LakeTable) -> dict[str, str]:
    """Returns the data files that the store does not give as the table has them, each with the reason."""
    found: dict[str, str] = {}
    opened = table.opened
    for path, _, size in table.files():
        try:
            there = len(opened.io.new_input(path))
        except FileNotFoundError:
            found[path] = "it is missing"
        except (OSError, ValidationError) as error:
            found[path] = f"it cannot be read: {str(error).splitlines()[0]}"
        else:
            if there != size:
                found[path] = f"it has {there:,} bytes, and {size:,} were written"
    return found
