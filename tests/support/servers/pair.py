"""Runs two Postgres servers for a test: a primary and the standby that streams from it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import psycopg2

from lockstep.adapters.postgres import connect
from lockstep.dev.servers import cluster, postgres, processes, programs
from lockstep.ledger.migrate import migrate

if TYPE_CHECKING:
    from pathlib import Path

STREAMS = "host replication all 127.0.0.1/32 scram-sha-256\n"
SENDERS = "select pid from pg_stat_replication where state = 'streaming'"


class Pair:
    """A primary and a standby. `promote` makes the standby a second primary, and the old one stays alive."""

    def __init__(self, home: Path) -> None:
        self.primary_home, self.standby_home = home / "primary", home / "standby"
        self.frozen: list[int] = []
        self.primary = postgres.start(self.primary_home)
        with (self.primary.data / "pg_hba.conf").open("a") as access:
            access.write(STREAMS)
        self.set_primary("alter system set fsync = off")  # no machine crashes here, and a pair is made for each test
        self.set_primary("select pg_reload_conf()")
        with closing(connect(self.primary.dsn)) as conn:
            migrate(conn)
        folder = self.standby_home.resolve() / "postgres"
        folder.mkdir(parents=True)
        shutil.copy(self.primary_home.resolve() / "postgres" / "secret.json", folder / "secret.json")
        self._copy(folder)
        self.standby = postgres.start(self.standby_home)
        self._until(self.primary, SENDERS, "the standby never streamed")

    @property
    def dsn(self) -> str:
        """Returns a DSN of both servers. It leads to the one that can be written, the primary first."""
        ports = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return re.sub(r"@[^/]+/", f"@{ports}/", self.primary.dsn) + "?target_session_attrs=read-write"

    def synchronous(self, *, names: str = "*", on: str = "on") -> None:
        self.set_primary(f"alter system set synchronous_commit = '{on}'")
        self.set_primary(f"alter system set synchronous_standby_names = '{names}'")
        self.set_primary("select pg_reload_conf()")
        if names == "*":
            synchronous = "select 1 from pg_stat_replication where sync_state = 'sync' having count(*) = 1"
            self._until(self.primary, synchronous, "the standby never became synchronous")

    def fail_over(self, *, dies_first: bool) -> None:
        """Ends the primary and promotes the standby, in either order. What it had acknowledged, the survivor has."""
        if dies_first:
            self.kill_primary()
        self.promote()
        if not dies_first:
            self.kill_primary()

    def rebuild(self) -> None:
        """Makes the dead primary a standby of the survivor, at its old port, and lets the two change names."""
        port, folder = self.primary.port, self.primary_home.resolve() / "postgres"
        self.primary, self.standby = self.standby, self.primary
        self.primary_home, self.standby_home = self.standby_home, self.primary_home
        shutil.rmtree(cluster.site(folder, cluster.account()) / "data")
        self._copy(folder)
        self.standby = postgres.start(self.standby_home, port)
        self._until(self.primary, SENDERS, "the standby never streamed")

    def commit_waits(self, databases: int = 1) -> None:
        """Waits until a COMMIT in each of so many databases of the primary waits for the standby."""
        waiting = "select 1 from pg_stat_activity where wait_event = 'SyncRep' having count(distinct datname) >= "
        self._until(self.primary, f"{waiting}{databases}", f"fewer than {databases} COMMITs ever waited")

    def freeze(self) -> None:
        """Stops the stream to the standby. From here on, commits are on the primary alone."""
        for (pid,) in self.ask(self.primary, SENDERS):
            os.kill(pid, signal.SIGSTOP)
            self.frozen.append(pid)

    def thaw(self) -> None:
        for pid in self.frozen:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.frozen.clear()

    def caught_up(self) -> None:
        """Waits until the standby has replayed all that the primary wrote."""
        self._until(self.standby, self._has("replay"), "the standby fell behind")

    def received(self) -> None:
        """Waits until the standby has on its disk all that the primary wrote."""
        self._until(self.standby, self._has("receive"), "the standby fell behind")

    def promote(self) -> str:
        """Makes the standby a primary. Returns its DSN."""
        self.ask(self.standby, "select pg_promote(true, 60)")
        return self.standby.dsn

    def kill_primary(self) -> None:
        self.thaw()
        postgres.stop(self.primary, postgres.Mode.IMMEDIATE)

    def set_primary(self, statement: str) -> None:
        with closing(psycopg2.connect(self.primary.superuser_dsn)) as conn:
            conn.autocommit = True
            conn.cursor().execute(statement)

    def ask(self, server: postgres.Server, query: str) -> list[tuple]:
        with closing(psycopg2.connect(server.superuser_dsn)) as conn:
            conn.autocommit = True
            cur = conn.cursor()
            cur.execute(query)
            return cur.fetchall()

    def end(self) -> None:
        self.thaw()
        for home in (self.primary_home, self.standby_home):
            postgres.remove_server(home)

    def _has(self, what: str) -> str:
        (end,) = self.ask(self.primary, "select pg_current_wal_lsn()")[0]
        return f"select 1 where pg_last_wal_{what}_lsn() >= '{end}'"

    def _until(self, server: postgres.Server, query: str, otherwise: str) -> None:
        until = time.monotonic() + 30
        while not self.ask(server, query):
            assert time.monotonic() < until, otherwise
            time.sleep(0.02)

    def _copy(self, folder: Path) -> None:
        """Copies the standby's data with pg_basebackup to where the dev server looks for its own."""
        owner = cluster.account()
        place = cluster.site(folder, owner)
        binaries = programs.within_reach(programs.find_postgres(os.environ, None), place, owner)
        secret = cluster.secret(folder).superuser
        where = f"host=127.0.0.1 port={self.primary.port} user=postgres password={secret} application_name=standby"
        command = [
            str(binaries / "pg_basebackup"),
            "-D",
            str(place / "data"),
            "-R",
            "--no-sync",
            "-X",
            "stream",
            "-c",
            "fast",
            "-d",
            where,
        ]
        log = folder / "basebackup.log"
        assert processes.run_program(command, log=log, account=owner), log.read_text()
