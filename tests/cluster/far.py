"""Runs an Airflow whose drivers run on a cluster, and says what its runs must leave there and what they must not."""

from __future__ import annotations

import json
import re
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import psycopg2

from support.oracles.canary import CommandLines, files_holding, tables_holding
from support.servers.scheduled import House, Scheduled, an_airflow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STAGER, BY_A_PERSON = "canary-of-executors", "its task in Airflow was ended"


@contextmanager
def a_house_far_away(servers, home: Path, file: Path, more: dict[str, str]) -> Iterator[House]:
    """Yields an Airflow, with the file that drivers on the cluster read. Executors have a login of their own."""
    with (
        an_airflow(servers, home, more=more) as made,
        closing(psycopg2.connect(servers.postgres().superuser_dsn)) as admin,
    ):
        admin.autocommit = True
        login = made.place.metadata.replace("airflow", "stages")
        admin.cursor().execute(f"create role {login} login password '{STAGER}'; grant lockstep_executor to {login}")
        known = {"LOCKSTEP_DSN": made.place.dsn, "LOCKSTEP_KAFKA": made.place.kafka}
        known |= {"LOCKSTEP_PIPELINES": str(made.place.pipelines)}
        known |= {"LOCKSTEP_STAGER_DSN": re.sub(r"//[^@]+@", f"//{login}:{STAGER}@", made.place.dsn)}
        file.write_text(json.dumps(known))
        file.chmod(0o600)
        yield made
        admin.cursor().execute(f"drop role {login}")


def committed_once(drill: Scheduled, run_id: str, tries: int | None = None) -> None:
    """Waits for the run's end. Its batch is committed, after so many attempts, and the table has each record once."""
    assert drill.over(run_id, seconds=1200) == "success"
    ((state, attempts),) = drill.batches()
    assert state == "committed"
    assert tries in (None, attempts)
    rows = drill.ask(f"select count(*), count(distinct id), sum(n)::int from public.{drill.name}")
    assert rows == [(150, 150, 11175)]
    assert drill.violations() == []


def committed_nothing(drill: Scheduled, why: str) -> None:
    """Asserts that the pipeline's one attempt is closed for this reason, that its batch waits, and that no row is there."""
    assert drill.ask(
        "select attempt.state, error from lockstep.attempt join lockstep.batch using (batch_id) where pipeline = %s",
        drill.name,
    ) == [("failed", why)]
    assert drill.batches() == [("planned", 1)]
    assert drill.ask(f"select count(*) from public.{drill.name}") == [(0,)]


def no_password_is_left(house: House, lines: CommandLines, folder: Path, shown: str) -> None:
    """Asserts that neither the ledger's password nor that of executors is in arguments, folders, logs, tables or pages."""
    logs = [path for path in (house.airflow.folder / "logs").rglob("*") if path.is_file()]
    for secret in (house.place.dsn.split(":")[2].split("@")[0], STAGER):
        assert lines.holding(secret) == []
        assert files_holding(secret, folder) == []
        assert [path for path in logs if secret in path.read_text(errors="replace")] == []
        assert tables_holding(secret, house.place.dsn, "public", "lockstep", "lockstep_staging") == []
        assert secret not in shown
