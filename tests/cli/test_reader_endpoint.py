"""Tests that each command refuses a database that it could only read, in one line with the next command."""

from __future__ import annotations

import shlex

import pytest
from psycopg2.extensions import make_dsn

import lockstep as public
from cli.test_bad_calls import NAMES, assert_one_line, family, of_another
from lockstep.cli.exits import Exit
from lockstep.core.errors import Unreachable

CALLS = """
migrate
migrate orders
migrate orders --propose
canary orders --transform made.py
promote orders --withdraw --reason r
adopt orders --at 0:1
plan orders
plan orders --dry-run
run orders
run orders --until-idle
replay orders --from 0:0 --until 0:1
fill orders
status
status orders
retention orders
watch orders
batches orders
batch 1
hours orders
lineage orders --partition 0 --offset 0
blame orders --key k
holes orders
rejects orders
rejects orders --redrive
skip orders --to latest --reason r
accept-loss orders --partition 0 --from 1 --until 2 --reason r
retire orders --reason r
hand-over public.orders --from orders --to append --reason r
move orders --to-topic t
erase orders --key k --reason r
recount orders --reason r
restored orders --reason r
pause orders --reason r
unpause orders --reason r
abandon 1 --reason r
forget orders --reason r
rename gone orders --reason r
verify orders
verify orders --deep
reap
"""
# They ask no ledger, or report on one: `doctor` and `metrics` name the standby among their findings.
WITHOUT_LEDGER = {
    "demo",
    "init",
    "new",
    "check",
    "try",
    "doctor",
    "metrics",
    *(n for n in NAMES if n.startswith("dev-")),
}
# They refuse a plain pipeline by its definition, or their arguments, before they ask a ledger.
ASK_LATER = {"files", "upkeep", "windows", "late", "changes", "relay", "clone", "certificate", "archive"}
SAID = "the ledger's database is read-only for this login: default_transaction_read_only is on"


@pytest.fixture
def reading(lockstep, database):
    lockstep.define()
    lockstep.define(
        "append", **of_another("append", ("Upsert(", "Append("), (', key=("id",))', ")"), (", Upsert", ", Append"))
    )
    (lockstep.home / "f.jsonl").write_text("{}\n")
    (lockstep.home / "made.py").write_text("def transform(df):\n    return df\n")
    dsn = make_dsn(database, options="-c default_transaction_read_only=on")
    lockstep.environ(LOCKSTEP_DSN=dsn, LOCKSTEP_KAFKA="127.0.0.1:1")
    return lockstep


def test_every_command_refuses_it(reading):
    calls = [tuple(shlex.split(line)) for line in CALLS.split("\n") if line]
    assert {family(call) for call in calls} == set(NAMES) - WITHOUT_LEDGER - ASK_LATER
    for call in calls:
        assert_one_line(reading(*call), Exit.AWAY, SAID)


def test_python_refuses_it(reading, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(reading.pipelines))
    for call in (public.run, public.status, public.plan):
        with pytest.raises(Unreachable, match=SAID) as refused:
            call("orders")
        assert "the primary" in str(refused.value.next_command)
