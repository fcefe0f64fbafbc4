"""Creates a Postgres cluster on disk: its owner, its place, and its first contents."""

from __future__ import annotations

import json
import os
import pwd
import secrets
import shutil
import tempfile
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from string import Template

from lockstep.core.errors import Refusal
from lockstep.dev.private import write_privately
from lockstep.dev.servers import processes
from lockstep.dev.servers.processes import Account

_SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''        # a socket's path may have 107 bytes, a clone's path more
max_connections = 200
timezone = 'UTC'
log_timezone = 'UTC'
"""
_ACCESS = "host all all 127.0.0.1/32 scram-sha-256\n"


@dataclass(frozen=True, slots=True)
class Secret:
    """The passwords of the cluster's two logins, drawn once."""

    superuser: str = field(repr=False)
    lockstep: str = field(repr=False)


def account() -> Account | None:
    """Returns the account for Postgres, or None for our own. Postgres refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise Refusal(
        "Postgres does not run as root, and there is no user postgres or nobody.", next_command="adduser postgres"
    )


def find_cluster(folder: Path) -> Path | None:
    """Returns the real path of the data directory below the folder, or None if there is no complete one."""
    data = (folder / "cluster" / "data").resolve()
    return data if (data / "PG_VERSION").is_file() else None


def create_cluster(folder: Path, programs: Path, owner: Account | None, log: Path) -> Path:
    """Creates a data directory with its logins and its database. An interrupted creation leaves none."""
    place = site(folder, owner)
    fresh = place / "data.new"
    shutil.rmtree(fresh, ignore_errors=True)
    initdb = [str(programs / "initdb"), "-D", str(fresh), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]
    _do(initdb, log, owner)
    with (fresh / "postgresql.conf").open("a") as settings:
        settings.write(_SETTINGS)
    (fresh / "pg_hba.conf").write_text(_ACCESS)
    # No client can connect before the passwords are set, because single-user mode listens nowhere.
    _do([str(programs / "postgres"), "--single", "-D", str(fresh), "postgres"], log, owner, _birth(secret(folder)))
    return fresh.rename(place / "data").resolve()


def secret(folder: Path) -> Secret:
    """Returns the passwords in the folder. Draws and writes them, for the owner alone, if there are none yet."""
    file = folder / "secret.json"
    if not file.exists():
        drawn = {"superuser": secrets.token_hex(16), "lockstep": secrets.token_hex(16)}
        write_privately(file, json.dumps(drawn))
    return Secret(**json.loads(file.read_text()))


def remove_cluster(folder: Path) -> None:
    """Deletes the cluster and its passwords, wherever the data are."""
    shutil.rmtree((folder / "cluster").resolve(), ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def site(folder: Path, owner: Account | None) -> Path:
    """Returns the folder for the data: `cluster`, or the target of a link of that name.

    Creates a folder elsewhere, with a link, if the owner could not reach it.
    """
    place = folder / "cluster"
    if place.is_symlink() and not place.exists():
        place.unlink()
    if place.is_symlink():
        return place.resolve()
    place.mkdir(mode=0o700, exist_ok=True)
    if owner:
        os.chown(place, owner.uid, owner.gid)
    if owner and not _reaches(owner, place):
        # A clone in root's own home is closed to the account that Postgres runs as.
        elsewhere = Path(tempfile.mkdtemp(prefix="lockstep-postgres-", dir="/var/tmp"))
        os.chown(elsewhere, owner.uid, owner.gid)
        shutil.rmtree(place)
        place.symlink_to(elsewhere)
    return place.resolve()


def _reaches(owner: Account, place: Path) -> bool:
    return processes.run_program(["/bin/sh", "-c", 'test -w "$0"', str(place)], log=Path(os.devnull), account=owner)


def _birth(passwords: Secret) -> str:
    """Returns the statements of cluster.sql for single-user mode: one a line, without comments."""
    # Its input is no session, so there are no parameters to bind. The passwords are our own hexadecimal digits.
    text = Template(files("lockstep.dev.servers").joinpath("cluster.sql").read_text())
    filled = text.substitute(superuser=passwords.superuser, lockstep=passwords.lockstep)
    return "".join(f"{line}\n" for line in filled.splitlines() if not line.startswith("--"))


def _do(command: list[str], log: Path, owner: Account | None, text: str = "") -> None:
    begin = log.stat().st_size if log.exists() else 0
    succeeded = processes.run_program(command, log=log, account=owner, text=text)
    # Single-user mode exits 0 even when a statement failed, and only its output tells.
    said = log.read_bytes()[begin:]
    if not succeeded or b"ERROR:" in said:
        raise Refusal(f"{Path(command[0]).name} failed: {processes.last_log_line(log)}", next_command=f"less {log}")
