"""Tests that `pip install 'lockstep-kafka[all]'` and `lockstep demo` are enough, in an empty folder and environment."""

from __future__ import annotations

import os
import subprocess
import venv
from typing import TYPE_CHECKING

import pytest

from dev.test_wheel import wheel  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.server, pytest.mark.timeout(1800)]
# Variables of a company's proxy, and of a user's package settings.
KEPT = ("HOME", "PIP_", "SSL_", "HTTP_", "HTTPS_", "NO_PROXY", "http_", "https_", "no_proxy")


def test_the_package_alone_shows_the_demo(wheel, tmp_path):  # noqa: F811 - the fixture
    here, programs = tmp_path / "empty", tmp_path / "venv" / "bin"
    here.mkdir()
    venv.create(tmp_path / "venv", with_pip=True)
    environ = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    environ |= {"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin"}

    def typed(*words: str, cwd: Path = here) -> str:
        done = subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{words}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    typed("pip", "install", "--quiet", f"{wheel}[all]")
    try:
        said = typed("lockstep", "demo")
        verified = typed("lockstep", "verify", "orders", "--deep", cwd=here / "lockstep-demo")
    finally:
        typed("lockstep", "dev", "down", cwd=here / "lockstep-demo")

    assert [place.name for place in here.iterdir()] == ["lockstep-demo"]
    assert "50000 records decoded again and compared" in said
    assert "cd lockstep-demo" in said
    assert "orders: every check holds" in verified
