"""Tests the logins of docs/postgres.md on a server without a superuser: what the page says is typed here."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from lockstep.dev.servers import postgres
from support.oracles.checker import check
from support.scenes.command_line import DEFINITION, TARGET

PAGE = Path(__file__).parents[2] / "docs" / "postgres.md"
STATEMENTS = dict(re.findall(r"<!-- (\w+) -->\n```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))


@pytest.fixture
def server(tmp_path):
    yield postgres.start(tmp_path / "managed")
    postgres.remove_server(tmp_path / "managed")


@pytest.mark.long
def test_a_login_without_superuser_migrates_and_another_one_runs(lockstep, server, kafka, topic, produce):
    def of(login: str, database: str = "shop") -> str:
        return f"postgresql://{login}@127.0.0.1:{server.port}/{database}"

    def typed(dsn: str, text: str) -> None:
        with closing(psycopg2.connect(dsn)) as conn:
            conn.autocommit = True
            for statement in filter(str.strip, text.split(";")):
                conn.cursor().execute(statement)

    def ask(dsn: str, query: str) -> list[tuple]:
        with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
            cur.execute(query)
            return cur.fetchall()

    def ok(*arguments: str):
        said = lockstep(*arguments, "--json")
        assert said.code == 0, said
        return said.document

    typed(server.superuser_dsn, "create role master login createrole createdb password 'm'")
    typed(of("master:m", "postgres"), STATEMENTS["administrator"])
    name = topic(partitions=2)
    produce(name, [(f"k{n}", json.dumps({"id": f"k{n}", "n": n})) for n in range(50)])
    lockstep.define(init=DEFINITION.replace("orders.v1", name), target=TARGET)
    lockstep.environ(LOCKSTEP_DSN=of("lockstep_admin:first-secret"), LOCKSTEP_KAFKA=kafka)
    ok("migrate")
    ok("migrate", "orders")

    typed(of("lockstep_admin:first-secret"), STATEMENTS["lockstep_admin"])
    lockstep.environ(LOCKSTEP_DSN=of("lockstep_runs:second-secret"))

    ok("run", "orders", "--until-idle")
    ok("replay", "orders", "--from", "0:0", "--until", "0:5")
    produce(name, [("k0", json.dumps({"id": "k0", "n": 100}))])
    ok("run", "orders", "--until-idle")
    ok("pause", "orders", "--reason", "r")
    ok("unpause", "orders", "--reason", "r")
    ok("replay", "orders", "--from", "0:0", "--until", "0:5", "--preview")
    ok("verify", "orders", "--deep")
    ok("reap")
    assert ask(of("analyst:third-secret"), "select count(*), sum(n) from public.orders") == [(50, sum(range(50)) + 100)]
    assert check(of("lockstep_admin:first-secret"), kafka, "orders", table="public.orders", key="id", rest=True) == []
    ok("erase", "orders", "--key", "k1", "--reason", "r")
    refused = lockstep("migrate")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "this login may not migrate" in refused.err
    supers = ask(server.superuser_dsn, "select rolname from pg_roles where rolsuper")
    assert supers == [("postgres",)]
