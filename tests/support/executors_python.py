"""Makes a Python with the packages that executors on other machines have, and no others."""

from __future__ import annotations

import re
import sysconfig
import venv
from importlib.metadata import files as files_of
from pathlib import Path

from lockstep.installed import CHECKOUT

SITE = Path(sysconfig.get_path("purelib"))


def link_packages(folder: Path) -> Path:
    """Links the packages of requirements-executors.txt into this new folder, and returns it."""
    folder.mkdir()
    lock = (CHECKOUT / "requirements-executors.txt").read_text()
    for name in re.findall(r"^([\w.-]+)==", lock, flags=re.MULTILINE):
        for top in {file.parts[0] for file in files_of(name) or () if not file.parts[0].startswith("..")}:
            if not (folder / top).exists():
                (folder / top).symlink_to(SITE / top)
    return folder


def executors_python(folder: Path) -> str:
    """Returns a Python in this folder that has these packages alone."""
    venv.create(folder)
    packages = link_packages(folder / "packages")
    (next((folder / "lib").glob("python*")) / "site-packages" / "packages.pth").write_text(str(packages))
    return str(folder / "bin" / "python")
