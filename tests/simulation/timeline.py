"""Provides timelines as faults: an older copy of the ledger's database takes its place.

This happens after a restore or a lost failover.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import parse_dsn

if TYPE_CHECKING:
    from simulation.world import World

ENDED = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()"


class Timeline:
    """A copy of one database, which can be swapped with it under connected sessions. It needs a superuser."""

    def __init__(self, superuser_dsn: str, dsn: str) -> None:
        self.admin = superuser_dsn
        self.name = parse_dsn(dsn)["dbname"]
        self.copy = f"{self.name}_older"
        self.lost: list[str] = []
        self.is_kept = False

    def keep(self) -> None:
        """Copies the database as it is now, for a later swap to go back to. Ends every session of it.

        `file_copy`: with Postgres's own choice a crash sets the copy's sequences back, and ids are given out again.
        """
        with closing(psycopg2.connect(self.admin)) as conn:
            conn.autocommit = True
            cur = conn.cursor()
            self._drop_copies(cur)
            cur.execute(ENDED, (self.name,))
            owner = sql.Identifier("lockstep")
            cur.execute(
                sql.SQL("create database {} template {} owner {} strategy file_copy").format(
                    sql.Identifier(self.copy), sql.Identifier(self.name), owner
                )
            )
        self.is_kept = True

    def swap(self) -> None:
        """Gives the database's name to the older copy. Connected sessions are cut off and find the copy.

        The lost database is dropped later. A drop waits for every session of the server, and one may stand still in a
        COPY.
        """
        self.lost.append(f"{self.name}_lost{len(self.lost)}")
        with closing(psycopg2.connect(self.admin)) as conn:
            conn.autocommit = True
            cur = conn.cursor()
            cur.execute(sql.SQL("alter database {} allow_connections false").format(sql.Identifier(self.name)))
            cur.execute(ENDED, (self.name,))
            self._rename(cur, self.name, self.lost[-1])
            self._rename(cur, self.copy, self.name)
        self.is_kept = False

    def end(self) -> None:
        """Drops the databases that the swaps left."""
        with closing(psycopg2.connect(self.admin)) as conn:
            conn.autocommit = True
            self._drop_copies(conn.cursor())

    def _drop_copies(self, cur) -> None:
        for name in (self.copy, *self.lost):
            cur.execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name)))
        self.lost = []

    def _rename(self, cur, old: str, new: str) -> None:
        cur.execute(sql.SQL("alter database {} rename to {}").format(sql.Identifier(old), sql.Identifier(new)))


def swapped_under(
    world: World, timeline: Timeline, point: str, *act: Any, is_committed: bool, **named: Any
) -> list[str]:
    """Stops a run at the point, lets the ledger go back in time and others work, and then lets the run continue.

    Returns the promises that this broke. `act` is a run of the live lane unless it is named. `is_committed` says that
    the point lies after the commit. The run was then told the truth of a timeline that is lost.
    """
    world.remember()
    act, named = (act, named) if act else (("once",), {"take_over": True})
    child = world.start(*act, fault=f"{point}=stop", **named)
    if not child.stopped():
        child.wait()
        return [f"{point} was never reached"]
    world.close()
    timeline.swap()
    world.forget()
    world.log.produce(0, 5)
    for _ in range(2):
        world.dying("once", take_over=True)
        world.remember()
    child.go_on()
    outcome = child.wait()
    if outcome.told.get("committed") and not is_committed:
        return [f"swapped at {point}: an attempt of the lost timeline was told that it has committed: {outcome}"]
    return []
