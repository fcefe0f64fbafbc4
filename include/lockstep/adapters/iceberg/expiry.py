"""Takes old snapshots out of a table's metadata, and says which files no snapshot holds then."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table.update import RemoveSnapshotsUpdate

from lockstep.adapters.iceberg.folder import require_inside
from lockstep.adapters.iceberg.history import LakeTransaction
from lockstep.adapters.iceberg.schema import store_answers
from lockstep.adapters.iceberg.store import lake_place
from lockstep.core.lake.keeping import LakeChange, expired_snapshots
from lockstep.faults import reach

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.snapshots import Snapshot

    from lockstep.adapters.iceberg.table import LakeTable


def due_snapshots(table: LakeTable, before_ms: int) -> list[int]:
    """Returns the snapshots that nobody was led to since this time, in milliseconds, and that no reference names."""
    metadata = table.opened.metadata
    if metadata.properties.get("gc.enabled", "").lower() == "false":
        return []  # the table's owner wants every file kept
    made = {each.snapshot_id: each.timestamp_ms for each in metadata.snapshots}
    shown = [(entry.timestamp_ms, entry.snapshot_id) for entry in metadata.snapshot_log]
    named = {reference.snapshot_id for reference in metadata.refs.values()} | {metadata.current_snapshot_id}
    return expired_snapshots(made, shown, named - {None}, before_ms)


def prepare_expiry(table: LakeTable, commit_uuid: str, expired: Sequence[int]) -> tuple[LakeChange, list[str]]:
    """Writes the metadata without these snapshots. Returns the files that only they hold, too."""
    changing = table.change(commit_uuid, whole=True)
    before = changing.metadata
    with store_answers(table.name), LakeTransaction(changing) as change:
        change._apply((RemoveSnapshotsUpdate(snapshot_ids=list(expired)),))  # noqa: SLF001 - as pyiceberg's own does
    after = str(changing.metadata_location)
    gone = [each for each in before.snapshots if each.snapshot_id in set(expired)]
    kept = changing.metadata
    with store_answers(table.name):
        files = _held_by(gone, changing.io, lost_is_gone=True)
        files |= {each.statistics_path for each in before.statistics} - {
            each.statistics_path for each in kept.statistics
        }
        unheld = _without_held(files, kept.snapshots, changing.io)
    return LakeChange(commit_uuid, table.address, after, kept.current_snapshot_id or 0, (after,)), sorted(unheld)


def unheld_by(table: LakeTable, files: Collection[str]) -> set[str]:
    """Returns those of these files that no snapshot of the table holds."""
    opened = table.opened
    with store_answers(table.name):
        return _without_held(set(files), opened.metadata.snapshots, opened.io) - {table.address}


def delete_files(table: LakeTable, paths: Iterable[str]) -> int:
    """Deletes files, and folders of attempts that are empty then. Returns the number of files that were there."""
    io = table.opened.io
    deleted = 0
    for path in paths:
        require_inside(path, table.location)
        with store_answers(path):
            with suppress(FileNotFoundError):
                io.delete(path)
                deleted += 1
                reach("lake.expired_mid_delete")
            if (folder := lake_place(path).parent).parent.name == "lockstep":
                with suppress(OSError):  # others lie there yet
                    folder.delete_empty()
    return deleted


def _held_by(snapshots: Iterable[Snapshot], io: FileIO, *, lost_is_gone: bool) -> set[str]:
    """Returns every file that these snapshots lead to."""
    found: set[str] = set()
    for manifest in _manifests(snapshots, io, found, lost_is_gone=lost_is_gone):
        with suppress(*((FileNotFoundError,) if lost_is_gone else ())):
            found.update(
                entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io, discard_deleted=False)
            )
    return found


def _without_held(files: set[str], snapshots: Iterable[Snapshot], io: FileIO) -> set[str]:
    """Returns the files without those that these snapshots hold. Reads each of their manifests once."""
    left, seen = set(files), set[str]()
    for manifest in _manifests(snapshots, io, seen, lost_is_gone=False):
        if not left - seen:
            break
        for entry in manifest.fetch_manifest_entry(io, discard_deleted=False):
            if entry.status != ManifestEntryStatus.DELETED:
                left.discard(entry.data_file.file_path)
    return left - seen


def _manifests(
    snapshots: Iterable[Snapshot], io: FileIO, seen: set[str], *, lost_is_gone: bool
) -> Iterator[ManifestFile]:
    """Yields each manifest of the snapshots once. Adds it and their lists to `seen`."""
    for snapshot in snapshots:
        seen.add(snapshot.manifest_list)
        each: list[Any] = []
        with suppress(*((FileNotFoundError,) if lost_is_gone else ())):
            each = snapshot.manifests(io)
        for manifest in each:
            if manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield manifest
