"""Tests logins whose password a command gives: on the ledger, while staging, beside Spark's driver, and through a change."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import closing
from dataclasses import replace

import psycopg2
import pytest
from psycopg2.extensions import parse_dsn

import lockstep
from lockstep.adapters.connection import password as asked
from lockstep.adapters.connection.dsn import staging_dsn, with_password_command
from lockstep.adapters.connection.password import PasswordCommands
from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.core.errors import Refusal, Unreachable
from lockstep.engine.sinks.session import staging_session
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.attempt.judge import judge_beside

FIRST, SECOND = "f1rst-c4n4ry", "s3cond-c4n4ry"
SUITE = {
    "name": "drill",
    "expectations": [
        {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}, "severity": "critical"}
    ],
}


@pytest.fixture
def token(drill, postgres, tmp_path, monkeypatch):
    """Yields the drill under a login that is told its password by a command, and `rotate`, which gives it another."""
    login, file = f"token_{re.sub(r'[^a-z0-9]', '_', drill.topic)}", tmp_path / "token"
    monkeypatch.setattr("lockstep.adapters.connection.opened.PASSWORDS", PasswordCommands())
    with closing(psycopg2.connect(postgres)) as admin:
        admin.autocommit = True
        cur = admin.cursor()
        cur.execute(f"create role {login} login noinherit")
        cur.execute(
            "grant lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader"
            f" to {login}"
        )

        def rotate(password: str) -> None:
            cur.execute(f"alter role {login} password '{password}'")
            file.write_text(f"{password}\n")

        rotate(FIRST)
        yield re.sub(r"//[^@]+@", f"//{login}@", drill.dsn), shlex.join(["cat", str(file)]), rotate


def session(dsn: str) -> str:
    """Returns who a staging session is and was, or why there is none."""
    try:
        with staging_session(staging_dsn(dsn, "lockstep test")) as cur:
            cur.execute("select concat_ws(' ', current_user, session_user, current_setting('statement_timeout'))")
            return str(cur.fetchone()[0])
    except ConnectionError as error:
        return str(error)


def test_a_password_that_changed_is_asked_for_anew_by_ledger_and_stagers(token, monkeypatch):
    plain, command, rotate = token
    dsn, login = with_password_command(plain, command), str(parse_dsn(plain)["user"])
    monkeypatch.setattr(asked, "SECONDS_BETWEEN_PASSWORDS", 0.0)
    with pytest.raises(Unreachable, match="no password supplied"):
        connect(plain)
    with closing(connect(dsn)) as conn:
        assert conn.info.user == login

    rotate(SECOND)

    assert session(dsn) == f"lockstep_stager {login} 10min"
    with closing(connect(dsn)) as conn:
        assert conn.info.user == login


def test_a_password_that_no_server_takes_is_one_line_without_it(token):
    plain, _, _ = token
    wrong = with_password_command(plain, f"echo {SECOND}")
    with pytest.raises(Unreachable, match="password authentication failed") as refused:
        connect(wrong)
    assert SECOND not in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(Refusal, match="cannot be started: No such file"):
        connect(with_password_command(plain, "/nowhere"))
    assert "password authentication failed" in session(wrong)


def test_a_whole_run_works_by_it_and_shows_it_nowhere(token, drill, monkeypatch, capfd):
    plain, command, _ = token
    (drill.home / "drill" / "expectations.json").write_text(json.dumps(SUITE))
    monkeypatch.setenv("LOCKSTEP_DSN", plain)
    monkeypatch.setenv("LOCKSTEP_DSN_PASSWORD_COMMAND", command)
    monkeypatch.setenv("LOCKSTEP_KAFKA", drill.kafka)

    done = lockstep.run("drill", until_idle=True)
    judge_beside().end()

    assert done.written == 150
    assert drill.ask("select count(*), sum(n) from public.drill") == [(150, sum(range(150)))]
    assert drill.ask("select distinct success from lockstep.verdict") == [(True,)]
    assert drill.violations(rest=True) == []
    assert FIRST not in repr(done) + "".join(capfd.readouterr())
    assert FIRST not in "".join(str(row) for row in drill.ask("select v from lockstep.attempt v, lockstep.batch b"))


@pytest.mark.long
@pytest.mark.parametrize("guarantee", ["PerBatch", "PerPartition"])
def test_tasks_of_spark_ask_for_it_themselves(token, drill, guarantee):
    plain, command, _ = token
    if guarantee == "PerPartition":
        file = drill.home / "drill" / "__init__.py"
        text = file.read_text().replace("import Append,", "import PerPartition, Append,")
        file.write_text(text.replace("limits=", "guarantee=PerPartition(), limits="))
        with closing(connect(drill.dsn)) as conn:
            migrate_target(conn, load("drill"))
    there = replace(drill, dsn=with_password_command(plain, command))

    assert (said := there.run("--spark")).get("committed"), said

    assert drill.ask("select count(*), sum(n) from public.drill") == [(150, sum(range(150)))]
    assert drill.violations(rest=True) == []
