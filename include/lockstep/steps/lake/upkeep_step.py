"""Moves the pointer of one table to what a step of upkeep has prepared. Sweeps steps without an end."""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lockstep.adapters.postgres import COMMITTER, transaction
from lockstep.core.errors import LakeMoved, Refusal
from lockstep.core.lake.within import is_below
from lockstep.faults import reach
from lockstep.ledger.lake import upkeep as ledger
from lockstep.steps.lake.open_tables import open_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from psycopg2.extensions import connection

    from lockstep.adapters.iceberg.table import LakeTable
    from lockstep.core.changes.person import Person
    from lockstep.core.lake.iceberg import Iceberg
    from lockstep.core.lake.keeping import Kept, LakeChange
    from lockstep.core.pipeline.definition import Pipeline

UPKEEP_LOCK_SECONDS = 10
UPKEEP_TRIES = 20
UPKEEP_PAUSE_SECONDS = 0.2  # at most, before the second try. It grows by as much with every try


class UpkeepStep:
    """One table under upkeep. `done` counts what its steps have done."""

    def __init__(
        self, conn: connection, pipeline: Pipeline, place: int, table: Iceberg, person: Person, done: Kept
    ) -> None:
        self.conn = conn
        self.name = table
        self.done = done
        self._pipeline = pipeline
        self._place = place
        self._person = person

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Holds the table for this upkeep alone, so that steps of others without an end are dead ones."""
        with transaction(self.conn, COMMITTER) as cur:
            if not ledger.lock_table(cur, self.name):
                raise Refusal("another upkeep of it is under way")
        try:
            yield
        finally:
            if not self.conn.closed:
                with transaction(self.conn, COMMITTER) as cur:
                    ledger.unlock_table(cur, self.name)

    def open(self) -> LakeTable:
        """Returns the table as its pointer shows it now. Raises `Refusal` if it was made again, or taken back."""
        return open_tables(self.conn, self._pipeline)[self._place]

    def begin(self, table: LakeTable, step: str) -> tuple[str, str]:
        """Records a step before its first file. Returns its id, and the folder of its files."""
        uuid = str(uuid4())
        prefix = f"{table.location.rstrip('/')}/data/lockstep/upkeep.{uuid}"
        with transaction(self.conn, COMMITTER) as cur:
            ledger.begin_step(cur, self.name, uuid, step, table.address, prefix)
        reach("lake.upkeep_begun")
        return uuid, prefix

    def moved(
        self,
        said: dict[str, Any],
        prepare: Callable[[LakeTable], tuple[LakeChange, Sequence[str]]],
    ) -> bool:
        """Moves the pointer to what `prepare` writes, and prepares again while others move it. `said` names the step.

        `prepare` returns the files, too, that nothing holds behind the move. Returns False if it gives up.
        """
        from lockstep.adapters.iceberg.expiry import delete_files  # noqa: PLC0415 - few pipelines have a lake table
        from lockstep.adapters.iceberg.folder import settle  # noqa: PLC0415 - as above

        why = ""
        for number in range(UPKEEP_TRIES):
            table = self.open()
            try:
                change, gone = prepare(table)
            except LakeMoved as moved:
                why = moved.message
                break
            settle(change.files)
            gone = [path for path in gone if is_below(path, table.location)]  # another writer's places are left alone
            reach("lake.upkeep_prepared")
            try:
                with transaction(self.conn, COMMITTER, lock_seconds=UPKEEP_LOCK_SECONDS) as cur:
                    ledger.move_by_decision(cur, self._pipeline.name, self.name, change, self._person, said, gone)
                    reach("lake.upkeep_moved")
            except LakeMoved as moved:
                why = moved.message
                delete_files(table, change.files)
                time.sleep(random.uniform(0, UPKEEP_PAUSE_SECONDS * (number + 1)))  # noqa: S311 - it keeps writers apart
            else:
                reach("lake.upkeep_swapped")
                return True
        self.done.left.append(f"{said['step']}: {why}")
        self.sweep()
        return False

    def sweep(self) -> None:
        """Deletes what steps without an end have left. They can move no pointer from here on."""
        from lockstep.adapters.iceberg.folder import sweep_prefix, sweep_preparation  # noqa: PLC0415 - as above

        with transaction(self.conn, COMMITTER, lock_seconds=UPKEEP_LOCK_SECONDS) as cur:
            for row in ledger.dead_steps(cur, self.name):
                ledger.end_step(cur, row.commit_uuid)
            dead = ledger.dead_steps(cur, self.name)  # without one whose COMMIT was on its way
        for row in dead:
            self.done.swept_files += sweep_preparation(row.before, row.prefix, row.commit_uuid, row.folder)
            self.done.swept_files += sweep_prefix(row.prefix, row.folder)
            reach("lake.upkeep_swept")
            with transaction(self.conn, COMMITTER) as cur:
                ledger.swept_step(cur, row.commit_uuid)
