"""Makes a fresh clone as a newcomer has it, and types commands in it.

The code, the servers and the pages are the clone's. Third-party packages and jars are this environment's, so that none is
downloaded again: `test_nothing_but_python.py` shows that a clone gets them from nothing. `make` checks the jars by SHA-256.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.dev.setup import jars
from support.scenes.typed import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = "## typed: "
NOT_A_NEW_USERS = ("LOCKSTEP_", "AIRFLOW", "SPARK_", "PYSPARK_", "PYTEST_", "PYTHONPATH", "VIRTUAL_ENV")
LOGIN = re.compile(r"Airflow's pages: (\S+)  user (\S+)  password (\S+)")


@contextmanager
def a_clone(folder: Path) -> Iterator[Path]:
    """Yields a clone in this folder. Its servers and all that it has made are gone afterwards."""
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(folder)], check=True)
    lend_packages(folder)
    try:
        yield folder
    finally:
        subprocess.run(["make", "clean"], cwd=folder, env=environment(), check=True, capture_output=True)


def environment() -> dict[str, str]:
    """Returns this environment without what leads to a checkout."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(NOT_A_NEW_USERS)}
    places = [place for place in kept["PATH"].split(os.pathsep) if ".venv" not in place]
    return kept | {"PATH": os.pathsep.join(places)}


def lend_packages(folder: Path) -> None:
    """Makes the clone's environment, as `make` leaves it: its own code, and the packages of this one."""
    ours, theirs = Path(sys.prefix).resolve(), folder / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(theirs)], check=True)
    packages = Path("lib", f"python{sys.version_info.major}.{sys.version_info.minor}", "site-packages")
    # A .pth file that is reached by another one is not read: nothing leads to the code of this checkout.
    (theirs / packages / "lent.pth").write_text(f"{folder / 'include'}\n{ours / packages}\n")
    for program in (ours / "bin").iterdir():
        if program.is_file() and not (theirs / "bin" / program.name).exists():
            made = theirs / "bin" / program.name
            made.write_bytes(program.read_bytes().replace(bytes(ours), bytes(theirs)))
            made.chmod(0o755)
    (theirs / ".made").touch()
    (theirs / ".built").touch()
    (folder / ".lockstep").mkdir()
    (folder / ".lockstep" / "jars").symlink_to(jars.folder().resolve())


def typed_in_one_shell(commands: list[str], folder: Path) -> dict[str, str]:
    """Types the commands one after the other, up to the first that fails. Returns what each has printed."""
    script = "".join(f"echo '{MARK}{command}'\n{command}\n" for command in commands)
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    parts = (part.partition("\n") for part in done.stdout.split(MARK)[1:])
    return {command: printed for command, _, printed in parts}


def login_of(status: str) -> tuple[str, str, str]:
    """Returns address, user and password of Airflow, as `lockstep dev status --password` has printed them."""
    found = LOGIN.search(status)
    assert found, status
    return found[1], found[2], found[3]
