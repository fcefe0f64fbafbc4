"""Looks after archived files: reads each again, and drops old ones by a decision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.adapters.archive.store import ArchiveStore
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.kafka_options import KafkaOptions
from lockstep.engine.archived_ranges import ArchivedRanges
from lockstep.faults import reach
from lockstep.ledger.batch import archived as ledger
from lockstep.ledger.changes import decisions
from lockstep.steps.changes.decisions import deciding
from lockstep.steps.upkeep.archive import archive_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from psycopg2.extensions import connection

    from lockstep.core.changes.person import Person
    from lockstep.core.pipeline.definition import Pipeline


@dataclass(frozen=True, slots=True)
class Checked:
    """The number of files that are as written, what is wrong with the others, and files that count for nothing.

    `strays` lie in the pipeline's folder without a row: of a try that was killed, or of another ledger.
    """

    well: int
    damaged: tuple[str, ...]
    strays: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DroppedFiles:
    """The files that a decision dropped, those that it left, each with the reason, and how many were removed."""

    paths: tuple[str, ...]
    left: tuple[str, ...]
    removed: int


def check_files(conn: connection, pipeline: Pipeline, go_on: Callable[[], None] = lambda: None) -> Checked:
    """Reads every archived file of today's rows again. Compares its bytes and offsets with the ledger's."""
    store = ArchiveStore(archive_place(pipeline).place)
    with transaction(conn, READER) as cur:
        files, dropped = ledger.every_file(cur, pipeline.name), ledger.dropped_paths(cur, pipeline.name)
    reader, damaged = ArchivedRanges("", KafkaOptions(), pipeline=pipeline.name, store=store), []
    for file in files:
        go_on()
        try:
            reader.read_file(file)
        except Refusal as refusal:
            damaged.append(refusal.message)
    known = {file.path for file in files} | set(dropped)
    strays = _paths(store, pipeline, known) - known
    return Checked(len(files) - len(damaged), tuple(damaged), tuple(sorted(strays)))


def drop_before(conn: connection, pipeline: Pipeline, moment: datetime, person: Person) -> DroppedFiles:
    """Drops, by one decision, the files whose newest record is older than a moment.

    Leaves files with records that are not committed, and those that a batch reads. The decision is committed before a
    file is removed, so a file that counts is never missing. A later call removes what a killed one left.
    """
    store = ArchiveStore(archive_place(pipeline).place)
    with deciding(conn, pipeline.name) as cur:
        found = ledger.droppable(cur, pipeline.name, moment)
        gone = [row for row in found if not (row.is_unread or row.is_claimed)]
        if gone:
            detail = {"before": moment.isoformat(), "files": [_told(row) for row in gone]}
            decision_id = decisions.record(cur, pipeline.name, "drop-archived", person, detail)
            ledger.insert_drops(cur, decision_id, [row.archived_id for row in gone])
    reach("archive.drop_decided")
    with transaction(conn, READER) as cur:
        dropped = set(ledger.dropped_paths(cur, pipeline.name))
    there = dropped & _paths(store, pipeline, dropped)
    removed = sum(store.remove(path) for path in sorted(there))
    left = [f"{_where(row)}: {_why_not(row)}" for row in found if row.is_unread or row.is_claimed]
    return DroppedFiles(tuple(row.path for row in gone), tuple(left), removed)


def _paths(store: ArchiveStore, pipeline: Pipeline, known: Iterable[str]) -> set[str]:
    """Returns what is in the pipeline's folder, and in those of its former names."""
    folders = {pipeline.name, *(path.partition("/")[0] for path in known)}
    return {path for folder in sorted(folders) for path in store.paths(folder)}


def _told(row: Any) -> dict[str, Any]:
    where = {"topic": row.topic, "partition": row.partition, "path": row.path}
    return where | {"from_offset": row.from_offset, "until_offset": row.until_offset}


def _where(row: Any) -> str:
    return f"{row.topic}-{row.partition} [{row.from_offset}, {row.until_offset})"


def _why_not(row: Any) -> str:
    return "records of it are not committed" if row.is_unread else "a batch under way reads it"
