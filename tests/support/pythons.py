"""Makes Pythons that have some packages and no others, such as those of executors on other machines."""

from __future__ import annotations

import re
import sysconfig
import venv
from importlib.metadata import files as files_of
from pathlib import Path

from lockstep.installed import CHECKOUT

SITE = Path(sysconfig.get_path("purelib"))  # the packages of the tests


def make_python(folder: Path, *packages: Path | str) -> str:
    """Makes a Python in this folder that has what lies in these folders of packages, and returns its program."""
    venv.create(folder)
    site = next((folder / "lib").glob("python*")) / "site-packages"
    (site / "others.pth").write_text("\n".join(map(str, packages)))
    return str(folder / "bin" / "python")


def link_packages(folder: Path) -> Path:
    """Links the packages of requirements-executors.txt into this new folder, and returns it."""
    folder.mkdir(parents=True)
    lock = (CHECKOUT / "requirements-executors.txt").read_text()
    for name in re.findall(r"^([\w.-]+)==", lock, flags=re.MULTILINE):
        for top in {file.parts[0] for file in files_of(name) or () if not file.parts[0].startswith("..")}:
            if not (folder / top).exists():
                (folder / top).symlink_to(SITE / top)
    return folder


def executors_python(folder: Path) -> str:
    """Makes a Python in this folder that has the packages of executors alone, and returns its program."""
    return make_python(folder, link_packages(folder / "packages"))
