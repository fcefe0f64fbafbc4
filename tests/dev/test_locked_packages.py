"""Tests that packages are installed by their SHA-256 alone, by uv and by pip."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
LOCKS = sorted(CHECKOUT.glob("requirements*.txt"))
PIP = [sys.executable, "-m", "pip"]
INSTALLERS = {"uv": ["uv", "pip", "install"], "pip": [*PIP, "install"]}


def lines(lock: Path) -> list[str]:
    return re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", lock.read_text(), flags=re.MULTILINE)).splitlines()


def test_there_is_a_lock_for_each_group():
    names = {lock.name for lock in LOCKS}

    assert names == {
        f"requirements{part}.txt"
        for part in ("", "-build", "-dev", "-docs", "-executors", "-images", "-oldest", "-servers")
    }


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_each_locked_package_has_hashes_and_no_address(lock):
    assert "://" not in lock.read_text()
    for line in lines(lock):
        assert re.fullmatch(r"[\w.-]+==[\w.+!-]+( +--hash=sha256:[0-9a-f]{64})+ *", line), line


@pytest.mark.parametrize("name", ["psycopg2-binary", "pyarrow", "confluent-kafka", "numpy", "adbc-driver-manager"])
def test_a_package_with_machine_code_has_the_hashes_of_all_its_files(name):
    """Linux on x86-64 and on ARM and macOS alone are three files of each."""
    found = [line for lock in LOCKS for line in lines(lock) if line.startswith(f"{name}==")]

    assert not found or all(line.count("--hash=") > 6 for line in found)


def test_every_install_from_a_lock_asks_for_hashes():
    files = [CHECKOUT / "Makefile", CHECKOUT / "Dockerfile", *CHECKOUT.glob("docs/*.md"), CHECKOUT / "README.md"]
    files += CHECKOUT.glob("include/lockstep/**/*.py")
    found = [
        (file.name, line)
        for file in files
        for line in file.read_text().replace("\\\n", " ").splitlines()
        if re.search(r"(pip install|\$\(INSTALL).* -r ", line)
    ]

    assert len(found) >= 8
    assert [one for one in found if "--require-hashes" not in one[1] and "INSTALL_LOCKED" not in one[1]] == []


def a_wheel(folder: Path, content: str) -> Path:
    """Makes a package of one module, as a wheel."""
    place = folder / "lockstep_probe-1.0-py3-none-any.whl"
    info = "lockstep_probe-1.0.dist-info"
    with zipfile.ZipFile(place, "w") as made:
        made.writestr("lockstep_probe.py", content)
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: lockstep-probe\nVersion: 1.0\n")
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{info}/RECORD", f"lockstep_probe.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return place


@pytest.mark.parametrize("installer", INSTALLERS)
def test_a_package_with_one_changed_byte_is_refused(installer, tmp_path):
    if installer == "uv" and not shutil.which("uv"):
        pytest.skip("no uv on PATH")
    if installer == "pip" and subprocess.run([*PIP, "--version"], capture_output=True, check=False).returncode:
        pytest.skip("this virtualenv was made by uv, without pip")
    wheel, lock, site = a_wheel(tmp_path, "VALUE = 1\n"), tmp_path / "lock.txt", tmp_path / "site"
    lock.write_text(f"lockstep-probe==1.0 --hash=sha256:{sha256(wheel.read_bytes()).hexdigest()}\n")
    offline = ["--no-index", "--find-links", str(tmp_path), "--no-deps", "--target", str(site), "--quiet"]
    offline += ["--no-cache"] if installer == "uv" else ["--no-cache-dir"]
    command = [*INSTALLERS[installer], *offline, "--require-hashes", "-r", str(lock)]

    first = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (first.returncode, (site / "lockstep_probe.py").read_text()) == (0, "VALUE = 1\n"), first.stderr

    shutil.rmtree(site)
    a_wheel(tmp_path, "VALUE = 2\n")
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert re.search(r"hash", again.stderr, re.IGNORECASE)
    assert not (site / "lockstep_probe.py").exists()
