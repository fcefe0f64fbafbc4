"""Tests the zip that executors import from: all of our code and no other, and equal for equal code."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from lockstep.engine.shipping import archive


@pytest.fixture
def pipelines(tmp_path, monkeypatch):
    folder = tmp_path / "pipelines"
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / "__init__.py").write_text("")
    (folder / "mine" / "rules.py").write_text("NUMBER = 7\n")
    (folder / "mine" / ".secret").write_text("x")
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(folder))
    return folder


def test_equal_code_has_an_equal_path_and_an_edit_another(pipelines, tmp_path):
    first = archive(tmp_path / "ship")
    assert archive(tmp_path / "ship") == first
    content = Path(first).read_bytes()
    Path(first).unlink()
    assert Path(archive(tmp_path / "ship")).read_bytes() == content

    (pipelines / "mine" / "rules.py").write_text("NUMBER = 8\n")
    assert archive(tmp_path / "ship") != first
    assert len(list((tmp_path / "ship").iterdir())) == 2


@pytest.mark.usefixtures("pipelines")
def test_what_executors_need_is_imported_from_the_zip_alone(tmp_path):
    made = archive(tmp_path / "ship")
    program = (
        "import lockstep.engine.sinks.writer, pipelines.mine.rules as r, sys; print(lockstep.__file__, r.__file__, r.NUMBER);"
        "print(*sorted({'confluent_kafka', 'airflow', 'typer'} & set(sys.modules)))"
    )
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PYTHONPATH": made}
    out = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environ, cwd="/", capture_output=True, text=True, check=True
    ).stdout
    assert out == f"{made}/lockstep/__init__.py {made}/pipelines/mine/rules.py 7\n\n"
    assert not [name for name in zipfile.ZipFile(made).namelist() if ".secret" in name or "__pycache__" in name]


def test_asking_for_the_zip_imports_no_spark():
    program = "import sys, lockstep.engine.shipping; print('pyspark' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out == "False\n"


@pytest.mark.usefixtures("pipelines")
def test_a_folder_that_others_may_write_to_is_not_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = Path(archive()).parent
    assert place == tmp_path / f"lockstep-{os.getuid()}"
    place.chmod(0o777)
    assert Path(archive()).parent != place


def test_a_link_in_the_folder_for_all_users_is_not_followed(tmp_path, monkeypatch):
    """Who has made the link can turn it to another folder after the look, and executors import what lies there."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    (tmp_path / f"lockstep-{os.getuid()}").symlink_to(own)
    made = Path(archive())
    assert made.parent not in {own, tmp_path / f"lockstep-{os.getuid()}"}
    assert not list(own.iterdir())
    (tmp_path / f"lockstep-{os.getuid()}").unlink()
    (tmp_path / f"lockstep-{os.getuid()}").symlink_to(tmp_path / "nowhere")
    assert Path(archive()).is_file()
    (tmp_path / f"lockstep-{os.getuid()}").unlink()
    (tmp_path / f"lockstep-{os.getuid()}").write_text("a file")
    assert Path(archive()).is_file()
