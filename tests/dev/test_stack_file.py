"""Tests the state file: its place, its readers, and the effect of a broken one."""

from __future__ import annotations

import json
import os
import stat

import pytest

from lockstep.core.errors import Refusal
from lockstep.dev.servers import cluster, processes, stack
from lockstep.dev.servers.stack import ServerState, Stack
from lockstep.dev.setup import jars

NOTHING_SET: dict[str, str] = {}


@pytest.fixture
def clone(tmp_path):
    (tmp_path / "clone" / ".git").mkdir(parents=True)
    (tmp_path / "clone" / "include" / "deep").mkdir(parents=True)
    return tmp_path / "clone"


def written(home) -> Stack:
    home.mkdir(parents=True, exist_ok=True)
    us = processes.observe(os.getpid())
    known = Stack(
        home,
        "postgresql://lockstep:secret@127.0.0.1:1/lockstep",
        "127.0.0.1:2",
        ServerState(1, us),
        ServerState(2, None),
    )
    stack.write_stack(known)
    return known


def test_the_state_belongs_to_the_nearest_project_above(clone):
    assert stack.home_of(clone / "include" / "deep", NOTHING_SET) == clone / ".lockstep"


def test_the_environment_says_otherwise(clone, tmp_path):
    assert stack.home_of(clone, {"LOCKSTEP_HOME": str(tmp_path / "other")}) == tmp_path / "other"


def test_a_clone_inside_a_clone_does_not_find_the_outer_stack(clone):
    written(clone / ".lockstep")
    inner = clone / "include" / "inner"
    (inner / ".git").mkdir(parents=True)

    assert stack.find_stack(clone / "include", NOTHING_SET) is not None
    assert stack.find_stack(inner, NOTHING_SET) is None


def test_what_is_written_is_read_again(clone):
    known = written(clone / ".lockstep")

    assert stack.find_stack(clone / "include" / "deep", NOTHING_SET) == known


def test_only_its_owner_reads_the_state_file(clone):
    written(clone / ".lockstep")

    assert stat.S_IMODE((clone / ".lockstep" / "stack.json").stat().st_mode) == 0o600


def test_the_password_is_not_in_what_is_logged(clone):
    assert "secret" not in repr(written(clone / ".lockstep"))


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"dsn": 1}', '{"dsn": "", "kafka": "", "postgres": 5, "broker": 5}']
)
def test_a_broken_state_file_is_as_good_as_none(clone, text):
    written(clone / ".lockstep")
    (clone / ".lockstep" / "stack.json").write_text(text)

    assert stack.find_stack(clone, NOTHING_SET) is None


def test_a_part_lives_only_as_the_very_process_that_was_written_down(clone):
    known = written(clone / ".lockstep")
    kept = json.loads((clone / ".lockstep" / "stack.json").read_text())
    kept["postgres"]["started"] = "an earlier boot:1"
    (clone / ".lockstep" / "stack.json").write_text(json.dumps(kept))
    recycled = stack.read(clone / ".lockstep")

    assert known.postgres.lives
    assert not recycled.postgres.lives
    assert not recycled.broker.lives


def test_passwords_are_drawn_once_and_kept_from_others(tmp_path):
    drawn = cluster.secret(tmp_path)

    assert cluster.secret(tmp_path) == drawn
    assert drawn.lockstep != drawn.superuser
    assert stat.S_IMODE((tmp_path / "secret.json").stat().st_mode) == 0o600
    assert drawn.lockstep not in repr(drawn)


def test_missing_jars_are_refused_with_the_command_that_brings_them(tmp_path):
    with pytest.raises(Refusal, match="Next: lockstep dev jars"):
        jars.broker_jars({"LOCKSTEP_JARS": str(tmp_path)})
