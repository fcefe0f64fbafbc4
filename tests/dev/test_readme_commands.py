"""Types each command of README.md from top to bottom, in one shell and a fresh clone, with nothing but Python and make."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from support.scenes.clone import environment
from support.scenes.readme_commands import ELSEWHERE, ENDS, commands
from support.scenes.typed import CHECKOUT, write_refunds

MARK = "## typed "


def test_each_command_of_the_readme_has_an_end_or_a_reason():
    found = set(commands())

    assert found - {*ENDS, *ELSEWHERE} == set(), "say in readme_commands.py how it ends"
    assert {*ENDS, *ELSEWHERE} - found == set(), "README has no such command any more"
    assert {*ENDS} & {*ELSEWHERE} == set()


def test_most_commands_are_typed_and_the_stack_is_stopped_last():
    assert len(ELSEWHERE) < len(ENDS) / 4
    assert commands()[0] == "make demo"
    assert commands()[-2:] == ["make down", "make clean"]


@pytest.fixture
def clone(tmp_path):
    """Yields a clone with the working tree's changes and the file that the reader brings along."""
    folder = tmp_path.resolve() / "lockstep"
    subprocess.run(["git", "clone", "--quiet", str(CHECKOUT), str(folder)], check=True)
    changed = ["git", "ls-files", "--modified", "--others", "--exclude-standard", "--deduplicate", "-z"]
    listed = subprocess.run(changed, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (CHECKOUT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
    write_refunds(folder)
    yield folder
    subprocess.run(["make", "clean"], cwd=folder, env=without_uv(), check=False, capture_output=True)


def without_uv() -> dict[str, str]:
    """Returns a new user's environment, in which pip installs everything."""
    kept = environment()
    places = [place for place in kept["PATH"].split(os.pathsep) if not Path(place, "uv").exists()]
    return kept | {"PATH": os.pathsep.join(places)}


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_each_command_of_the_readme_ends_as_it_says(clone):
    typed = [command for command in commands() if command not in ELSEWHERE]
    script = "".join(
        f"echo '{MARK}{n}'\n{{ {ENDS[command].typed or command}\n}} 2>&1\necho \"{MARK}exit $?\"\n"
        for n, command in enumerate(typed)
    )

    out = clone.with_name("printed")  # a file: servers that a failure leaves would hold a pipe open
    with out.open("wb") as printed:
        subprocess.run(["bash", "-c", script], cwd=clone, env=without_uv(), stdout=printed, check=False)

    ends = re.findall(rf"^{MARK}(\d+)\n(.*?)^{MARK}exit (\d+)$", out.read_text(), re.DOTALL | re.MULTILINE)
    assert [typed[int(n)] for n, *_ in ends] == typed
    wrong = [
        (command, int(code), printed[-1500:])
        for command, (_, printed, code) in zip(typed, ends, strict=True)
        if int(code) != ENDS[command].code or ENDS[command].says not in printed
    ]
    assert wrong == []
