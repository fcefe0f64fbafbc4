"""Tests that a test which starts a server is red where such tests are left out, as in `make test-fast`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.servers import no_server

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("program", sorted(no_server.PROGRAMS))
def test_a_server_is_not_started(tmp_path, program):
    fake = tmp_path / program
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    fake.chmod(0o755)

    with no_server.refused(), pytest.raises(no_server.StartedError, match=program):
        subprocess.run([str(fake), "-D", "data"], check=False)

    assert not (tmp_path / "started").exists()


def test_other_programs_and_servers_that_are_asked_for_their_version_are_started(tmp_path):
    fake = tmp_path / "java"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\n")
    fake.chmod(0o755)

    with no_server.refused():
        subprocess.run([str(fake), "-version"], check=True)
        assert subprocess.run([sys.executable, "-c", "print(7)"], check=True, capture_output=True).stdout == b"7\n"

    assert (tmp_path / "asked").exists()


def test_what_make_test_fast_leaves_out_is_what_the_guard_goes_by():
    recipe = re.search(r"^test-fast:.*\n\t@(.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    assert '-m "not long and not server"' in recipe[1]


def test_a_test_that_asks_for_a_database_is_marked_and_another_is_not(request):
    marked = {item.name: item.get_closest_marker("server") is not None for item in request.session.items}
    assert marked[request.node.name] is False
    assert all(marked[item.name] for item in request.session.items if "database" in item.fixturenames)
