"""Tests that the ledger records the user of database and machine, beside the given name."""

from __future__ import annotations

import os
import pwd
import socket
from typing import Any

import pytest

from lockstep.adapters.os_user import os_user
from lockstep.adapters.postgres import PLANNER, transaction
from lockstep.ledger.views import reading
from support.fakes.ledger_rows import read

FORGED = """insert into lockstep.{table} (pipeline, {kind}who, why, login, client, program, os_user{more})
    values ('orders', {a_kind}'ceo@bank', 'fine', 'ceo', '10.0.0.1', 'bank', 'ceo@bank'{values})
    returning login, host(client), program, os_user"""
TABLES: dict[str, Any] = {
    "decision": {"kind": "kind, ", "a_kind": "'pause', ", "more": "", "values": ""},
    "request": {"kind": "lane, ", "a_kind": "'fill', ", "more": ", token", "values": ", 1"},
}


@pytest.mark.parametrize("table", TABLES)
def test_a_forged_identity_is_overwritten_by_the_servers_knowledge(ledger, conn, table):
    ledger.stream(0)
    with transaction(conn, PLANNER) as cur:
        cur.execute(FORGED.format(table=table, **TABLES[table]))
        assert tuple(cur.fetchone()) == ("lockstep", "127.0.0.1", "lockstep", os_user())


def test_the_environment_does_not_name_the_user(monkeypatch):
    os_user.cache_clear()
    monkeypatch.setenv("LOGNAME", "ceo")
    monkeypatch.setenv("USER", "ceo")
    assert os_user() == f"{pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}"


def test_another_identity_is_shown_beside_the_name(ledger, conn):
    stream = ledger.stream(0)
    ledger.covered(stream, 0, 10, "loss")
    with transaction(conn, PLANNER) as cur:
        cur.execute(
            "insert into lockstep.decision (pipeline, kind, who, why, detail) values"
            " ('orders', 'accept-loss', 'ceo@bank', 'fine',"
            f' \'{{"stream_id": {stream}, "from_offset": 0, "until_offset": 10}}\')'
        )
    (hole,) = [h for h in read(conn, reading.read_holes, "orders", {}) if h["kind"] == "loss"]
    assert hole["why"] == f"ceo@bank ({os_user()}, login lockstep from 127.0.0.1): fine"
