"""Defines a world whose pipeline upserts into the database and into the lake. What the first holds, the second must."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg2
from hypothesis import strategies as st
from hypothesis.stateful import rule

from lockstep.adapters.iceberg.keyed_values import held_rows
from lockstep.adapters.iceberg.table import LakeTable
from lockstep.adapters.postgres import connect
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.lake.keyed import add_held
from lockstep.core.pipeline.definition import Upsert
from lockstep.ledger.lake.keyed import expected_held
from lockstep.steps.lake.open_tables import make_tables
from simulation import machine
from simulation.machine import Machine
from simulation.pipeline import folder_of
from simulation.proof import looked_at
from simulation.scene import Scene
from simulation.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from lockstep.core.lake.keyed import HeldRows

TABLE = Iceberg("sim.house")
LAKE_POINTS = (
    "lake.prefix_made",
    "lake.registered",
    "lake.prepared_row",
    "lake.rest_written",
    "lake.rehearsed",
    "lake.keys_written",
    "lake.all_metadata_written",
    "lake.one_pointer_moved",
    "lake.account_kept",
)
POINTER = "select metadata_location from lockstep_lake.iceberg_tables where table_name = 'house'"


def folder_of_both(home: Path, **how: Any):
    """Returns the house's pipeline with a second target in the lake, for the same keys."""
    folder = folder_of(home, **how)
    first = folder.pipeline.first
    assert isinstance(first, Upsert)
    return replace(folder, pipeline=replace(folder.pipeline, target=(first, replace(first, table=TABLE))))


class InBoth(World):
    """A world that compares the table of the lake with that of the database, key by key, with all values."""

    folder_of = staticmethod(folder_of_both)

    def __init__(self, dsn: str, home: Path, **how: Any) -> None:
        super().__init__(dsn, home, **how)
        columns = [self.pipeline.columns] * 2
        with closing(connect(dsn)) as conn:
            make_tables(conn, self.pipeline, f"file://{home}/lake", columns)

    def violations(self, *, rest: bool = False, least: int = 0) -> list[str]:
        self.remember()
        found = looked_at(self, "public.house", rest=rest, least=least)
        self.figures.update(found.figures)
        return [*found.violations, *self.apart()]

    def apart(self) -> list[str]:
        """Returns the rows that one of both tables has alone, and what differs from the account of the lake."""
        with closing(psycopg2.connect(self.dsn)) as conn, conn, conn.cursor() as cur:
            conn.set_session(isolation_level="REPEATABLE READ")
            cur.execute(POINTER)
            table = LakeTable(str(TABLE), cur.fetchone()[0])
            names = [name for name, _ in table.postgres_columns]
            cur.execute(f"select {', '.join(names)} from public.house")
            held: HeldRows = {}
            there = []
            for batch in table.read(names):
                there += [tuple(row[name] for name in names) for row in batch.to_pylist()]
                add_held(held, held_rows(batch, table.ids))
        with closing(connect(self.dsn)) as conn, conn, conn.cursor() as named:
            expected = {key: rows for key, rows in expected_held(named, str(TABLE)).items() if rows != (0, 0)}
        self.figures["in lake"] += len(there)
        rows = set(self.ask(f"select {', '.join(names)} from public.house"))
        wrong = [f"in one of both alone: {row}" for row in sorted(rows ^ set(there), key=str)]
        wrong += ["a row stands twice in the lake"] if len(there) != len(set(there)) else []
        return wrong + ([f"the account is {expected}, and {held} is there"] if expected != held else [])

    def _empty(self) -> None:
        super()._empty()
        self.ask("truncate lockstep_lake.iceberg_tables, lockstep_lake.iceberg_namespace_properties")

    def close(self) -> None:
        super().close()
        shutil.rmtree(self.home / "lake", ignore_errors=True)


class SceneInBoth(InBoth, Scene):
    """The same, one step at a time."""


class MachineOfBoth(Machine):
    """A state machine that strikes in the lake, too."""

    made = InBoth

    @rule(point=st.sampled_from(LAKE_POINTS))
    def die_before_the_lake_moves(self, point: str) -> None:
        self._die("once", fault=f"{point}=kill", take_over=True)


def run(database: str, *, kind: str, examples: int, steps: int) -> None:
    """Runs the machine, in a process of its own."""
    machine.run(database, examples=examples, steps=steps, kind=kind, base=MachineOfBoth)
