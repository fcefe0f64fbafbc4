"""Keeps lake tables quick to read: merges small files and manifests, expires snapshots, deletes what nothing holds then.

Each step writes its files first. One transaction then compares and sets the pointer, with a decision beside it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import COMMITTER, READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.lake.iceberg import lake_places
from lockstep.core.lake.keeping import FEWEST_FILES, MANY_MANIFESTS, Kept, cutoff_of, merge_order
from lockstep.core.planning.deletions import forgettable_below
from lockstep.faults import reach
from lockstep.ledger.admin.upkeep import streams_with_logs
from lockstep.ledger.lake import upkeep as ledger
from lockstep.ledger.views.hours import clock
from lockstep.steps.lake.upkeep_step import UpkeepStep
from lockstep.steps.upkeep.busy import left_out

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta

    from psycopg2.extensions import connection

    from lockstep.adapters.iceberg.table import LakeTable
    from lockstep.core.lake.keeping import LakeChange, SmallFile, Upkeep
    from lockstep.core.offsets import TopicView
    from lockstep.core.pipeline.definition import Pipeline

DELETED_PER_TRANSACTION = 10_000


def keep_tables(conn: connection, pipeline: Pipeline, view: Callable[[str], TopicView], wanted: Upkeep) -> list[Kept]:
    """Keeps each lake table of the pipeline. One whose step is refused keeps what the steps before have done."""
    places = lake_places(pipeline.targets)
    if not places:
        raise Refusal(
            f"{pipeline.name}: none of its tables is in the lake", next_command=f"lockstep status {pipeline.name}"
        )
    found = [Kept(str(table)) for table in places.values()]
    log_starts = _log_starts(conn, pipeline, view)
    for (place, table), done in zip(places.items(), found, strict=True):
        step = UpkeepStep(conn, pipeline, place, table, wanted.person, done)
        with left_out(str(table), done.left), step.taken():
            if wanted.dry_run:
                _count(step, wanted, log_starts)
            else:
                step.sweep()
                _delete(step)
                _merge(step, wanted, log_starts)
                _merge_manifests(step)
                _expire(step, wanted.cutoff)
                _delete(step)
    return found


def cutoff_now(conn: connection, keep: timedelta, now: datetime) -> datetime:
    """Returns the time before which snapshots may expire, by the caller's clock and by the database's."""
    with transaction(conn, READER) as cur:
        return cutoff_of(keep, now, clock(cur))


def _log_starts(conn: connection, pipeline: Pipeline, view: Callable[[str], TopicView]) -> dict[int, int]:
    """Returns, per stream, the offset below which no record can be read again. Empty if Kafka does not say."""
    with transaction(conn, READER) as cur:
        streams = streams_with_logs(cur, pipeline.name)
    try:
        views = {topic: view(topic) for topic in {stream.topic for stream in streams}}
    except Refusal:
        return {}
    return {s.stream_id: forgettable_below(s, streams, views[s.topic]) for s in streams}


def _count(step: UpkeepStep, wanted: Upkeep, log_starts: Mapping[int, int]) -> None:
    """Counts what would be done, and changes nothing."""
    from lockstep.adapters.iceberg import expiry, rewrite  # noqa: PLC0415 - few pipelines have a lake table

    table = step.open()
    orders = _to_merge(step, table, wanted, log_starts)
    step.done.merged_files, step.done.into_files = sum(map(len, orders)), len(orders)
    manifests = rewrite.count_manifests(table)
    step.done.manifests = manifests if manifests > MANY_MANIFESTS else 0
    step.done.expired_snapshots = len(expiry.due_snapshots(table, _ms(wanted.cutoff)))


def _to_merge(
    step: UpkeepStep, table: LakeTable, wanted: Upkeep, log_starts: Mapping[int, int]
) -> list[list[SmallFile]]:
    """Returns the small files, in order. Leaves them if another writer's deletes may be of any file: all else goes on."""
    from lockstep.adapters.iceberg import rewrite  # noqa: PLC0415 - as above

    with left_out("merge", step.done.left):
        return merge_order(rewrite.small_files(table, wanted.small_bytes), log_starts)
    return []


def _merge(step: UpkeepStep, wanted: Upkeep, log_starts: Mapping[int, int]) -> None:
    """Merges small files, in as many steps as their rows fill the memory that one may take."""
    from lockstep.adapters.iceberg import rewrite  # noqa: PLC0415 - as above
    from lockstep.adapters.iceberg.folder import make_prefix, settle  # noqa: PLC0415 - as above

    def prepare(uuid: str, gone: Sequence[str], path: str, now: LakeTable) -> tuple[LakeChange, list[str]]:
        return rewrite.prepare_merge(now, uuid, gone, path), []

    table = step.open()
    for order in _to_merge(step, table, wanted, log_starts):
        for files, rows in rewrite.groups_of_files(table, order, wanted.most_bytes, FEWEST_FILES):
            uuid, prefix = step.begin(table, "merge")
            make_prefix(prefix)
            path = f"{prefix}/kept-{uuid}-0.parquet"
            rewrite.write_merged(table, path, rows)
            settle([path])
            reach("lake.upkeep_merged")
            said = {"step": "merge", "files": len(files), "rows": rows.num_rows}
            if step.moved(said, partial(prepare, uuid, [file.path for file in files], path)):
                step.done.merged_files += len(files)
                step.done.into_files += 1


def _merge_manifests(step: UpkeepStep) -> None:
    """Merges manifests where there are many."""
    from lockstep.adapters.iceberg import rewrite  # noqa: PLC0415 - as above

    table = step.open()
    count = rewrite.count_manifests(table)
    if count <= MANY_MANIFESTS:
        return
    uuid, _ = step.begin(table, "manifests")
    said = {"step": "manifests", "manifests": count}
    if step.moved(said, lambda now: (rewrite.prepare_manifests(now, uuid), [])):
        step.done.manifests = count


def _expire(step: UpkeepStep, cutoff: datetime) -> None:
    """Takes snapshots out that no reader was led to since `cutoff`, and records the files that only they held."""
    from lockstep.adapters.iceberg import expiry  # noqa: PLC0415 - as above

    table = step.open()
    expired = expiry.due_snapshots(table, _ms(cutoff))
    if not expired:
        return
    with transaction(step.conn, COMMITTER) as cur:
        metadata = ledger.old_metadata(cur, step.name, cutoff)
    uuid, _ = step.begin(table, "expire")

    def prepare(now: LakeTable) -> tuple[LakeChange, list[str]]:
        due = set(expiry.due_snapshots(now, _ms(cutoff)))
        change, files = expiry.prepare_expiry(now, uuid, [each for each in expired if each in due])
        return change, [*files, *(path for path in metadata if path != now.address)]

    if step.moved({"step": "expire", "snapshots": len(expired)}, prepare):
        step.done.expired_snapshots = len(expired)


def _delete(step: UpkeepStep) -> None:
    """Deletes what decisions have taken out, unless a snapshot of another writer holds it again."""
    from lockstep.adapters.iceberg import expiry  # noqa: PLC0415 - as above

    while True:
        with transaction(step.conn, COMMITTER) as cur:
            paths = ledger.files_to_delete(cur, step.name, DELETED_PER_TRANSACTION)
        if not paths:
            return
        table = step.open()
        step.done.deleted_files += expiry.delete_files(table, sorted(expiry.unheld_by(table, paths)))
        with transaction(step.conn, COMMITTER) as cur:
            ledger.record_deleted(cur, paths)


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
