"""Tests what a user is told of a pipeline into a catalog elsewhere: each command answers, or says why not in one line."""

from __future__ import annotations

import json

import pytest

from elsewhere.conftest import more
from support.scenes.command_line import CommandLine, assert_away, assert_refused

pytestmark = pytest.mark.long


@pytest.fixture
def lockstep(monkeypatch, capsys, tmp_path):
    (tmp_path / "home").mkdir()
    return CommandLine(monkeypatch, capsys, tmp_path / "home")


def test_every_command_answers(elsewhere, lockstep):
    drill = elsewhere()
    drill.server.catalog.drop_table("web.drill")
    assert_refused(lockstep("run", "drill"), "has no table POLARIS.web.drill", "Next: lockstep migrate drill")
    for first in (("migrate", "drill"), ("check", "drill"), ("run", "drill", "--until-idle")):
        said = lockstep(*first)
        assert said.code == 0, said
    assert drill.counted() == (0, 0)
    stream, offset, batch = drill.rows("_stream, _offset, _batch")[0]
    partition = drill.ask("select partition from lockstep.stream where stream_id = %s", stream)[0][0]
    answered: tuple[tuple[str, ...], ...] = (
        ("status", "drill"),
        ("batches", "drill"),
        ("batch", str(batch)),
        ("verify", "drill"),
        ("verify", "drill", "--deep"),
        ("verify", "drill", "--since", str(batch)),
        ("lineage", "drill", "--partition", str(partition), "--offset", str(offset)),
        ("doctor", "drill"),
        ("metrics",),
        ("reap",),
        ("migrate", "drill"),
        ("restored", "drill", "--preview"),
        ("replay", "drill", "--batch", str(batch), "--reason", "a test"),
    )
    for arguments in answered:
        said = lockstep(*arguments)
        assert said.code == 0, (arguments, said)
    assert drill.counted() == (0, 0)
    assert lockstep("verify", "drill", "--deep").code == 0
    batch = drill.rows("_batch")[0][0]
    refused: tuple[tuple[str, ...], ...] = (
        ("replay", "drill", "--batch", str(batch), "--preview"),
        ("files", "drill"),
        ("blame", "drill", "--key", "r1"),
        ("erase", "drill", "--key", "r1", "--column", "id", "--reason", "a test"),
        ("migrate", "drill", "--propose"),
    )
    for arguments in refused:
        said = lockstep(*arguments)
        assert said.code != 0, (arguments, said)
        assert said.err.count("\n") == 1, (arguments, said)
        assert "Traceback" not in said.err


def test_a_catalog_that_is_away_or_refuses_is_one_line_without_its_secret(elsewhere, lockstep, monkeypatch):
    drill = elsewhere()
    monkeypatch.setenv("LOCKSTEP_CATALOG_POLARIS", json.dumps(drill.settle(token="hush-hush")))  # noqa: S106 - nobody's
    drill.server.token = "another"  # noqa: S105 - nobody's
    said = lockstep("run", "drill")
    assert_refused(said, "refuses the login", "Next: correct LOCKSTEP_CATALOG_POLARIS")
    assert "hush" not in said.err
    drill.server.token, drill.server.page = None, (503, b"")
    said = lockstep("run", "drill")
    assert_away(said, "catalog POLARIS")
    assert "hush" not in said.err
    drill.server.page = None
    monkeypatch.delenv("LOCKSTEP_CATALOG_POLARIS")
    assert_refused(lockstep("run", "drill"), "LOCKSTEP_CATALOG_POLARIS is not set", "lockstep_catalog_polaris")
    assert lockstep("status").code == 0
    monkeypatch.setenv("LOCKSTEP_CATALOG_POLARIS", json.dumps(drill.settle()))
    more(drill, "m", 3)
    assert lockstep("run", "drill", "--until-idle").code == 0
    assert len(drill.rows()) == 153
