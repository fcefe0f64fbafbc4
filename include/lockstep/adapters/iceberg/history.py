"""Keeps a table's older snapshots out of pyiceberg's way. Compares them with what was committed, and files with manifests.

pyiceberg copies all metadata a dozen times for each new snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableResponse, Table, Transaction
from pyiceberg.table.update import AddSnapshotUpdate, update_table_metadata

if TYPE_CHECKING:
    from uuid import UUID

    from lockstep.adapters.iceberg.table import LakeTable


def without_history(metadata: Any) -> Any:
    """Returns the metadata with the snapshots that a branch or a tag leads to, and no log of those before."""
    led_to = {ref.snapshot_id for ref in metadata.refs.values()} | {metadata.current_snapshot_id}
    heads = [each for each in metadata.snapshots if each.snapshot_id in led_to]
    return metadata.model_copy(update={"snapshots": heads, "snapshot_log": []})


def with_history(changed: Any, whole: Any) -> Any:
    """Returns changed metadata with the snapshots and the log of the whole, and what was added to both.

    Without a whole, nothing was kept out of the change.
    """
    if whole is None:
        return changed
    known = {each.snapshot_id for each in whole.snapshots}
    added = [each for each in changed.snapshots if each.snapshot_id not in known]
    return changed.model_copy(
        update={
            "snapshots": [*whole.snapshots, *added],
            "snapshot_log": [*whole.snapshot_log, *changed.snapshot_log],
        }
    )


def newest_time(metadata: Any) -> int:
    """Returns the newest time that a table tells, in milliseconds."""
    return int(max([metadata.last_updated_ms, *(entry.timestamp_ms for entry in metadata.snapshot_log)]))


def in_order_of_time(updates: Any, metadata: Any) -> tuple[Any, ...]:
    """Returns updates whose new snapshots are younger than all that the table tells.

    Readers in Java refuse a log that goes back by a minute. Clocks of two machines may differ by more.
    """
    newest = newest_time(metadata)
    return tuple(
        update.model_copy(update={"snapshot": update.snapshot.model_copy(update={"timestamp_ms": newest + 1})})
        if isinstance(update, AddSnapshotUpdate) and update.snapshot.timestamp_ms <= newest
        else update
        for update in updates
    )


class LakeTransaction(Transaction):
    """A transaction that computes its metadata once for the same updates."""

    _known: tuple[Any, Any] = (None, None)  # updates and their metadata

    @property
    def table_metadata(self) -> Any:
        """Returns the metadata as the updates so far leave it."""
        if self._known[0] is not self._updates:
            self._known = (self._updates, super().table_metadata)
        return self._known[1]


class Preparing(NoopCatalog):
    """A catalog whose commit writes the metadata file and moves nothing. Older snapshots of `whole` come back into it."""

    def __init__(self, commit_uuid: UUID, whole: Any) -> None:
        super().__init__("lockstep")
        self._uuid = commit_uuid
        self._whole = whole

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        """Writes the next metadata file."""
        for requirement in requirements:
            requirement.validate(table.metadata)
        base, address = table.metadata, str(table.metadata_location)
        later = in_order_of_time(updates, self._whole or base)
        metadata = with_history(update_table_metadata(base, later, metadata_location=address), self._whole)
        last = max(newest_time(self._whole or base), metadata.last_updated_ms)
        metadata = metadata.model_copy(update={"last_updated_ms": last})
        number = address.rpartition("/")[2].partition("-")[0]
        version = int(number) + 1 if number.isdecimal() else 0
        after = table.location_provider().new_metadata_location(f"{version:05d}-{self._uuid}.metadata.json")
        ToOutputFile.table_metadata(metadata, table.io.new_output(after))
        return CommitTableResponse(metadata=metadata, metadata_location=after)

    @staticmethod
    def _delete_old_metadata(io: Any, base: Any, metadata: Any) -> None:
        """Deletes nothing. pyiceberg asks for it at once, and the pointer may never move."""


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
