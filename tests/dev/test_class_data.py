"""Tests that Spark's class archive is used if it fits, and does no harm otherwise."""

from __future__ import annotations

import os
import subprocess

import pytest

from lockstep.adapters import java
from lockstep.dev.setup import class_data, jars, spark_submit
from lockstep.engine.spark import jvm


def environ(folder):
    return dict(os.environ) | {"LOCKSTEP_JARS": str(folder)}


def launched(*options: str) -> subprocess.CompletedProcess[str]:
    """Runs Spark's own launcher, whose JVM prints its version and ends."""
    given = " ".join(["-Xshare:auto", jvm.NOT_A_WORD, *options])
    environ = dict(os.environ) | java.exports() | {"SPARK_SUBMIT_OPTS": given}
    return subprocess.run(
        [str(spark_submit.PROGRAM), "--version"], env=environ, capture_output=True, text=True, check=False
    )


def test_an_archive_in_the_folder_of_the_jars_is_taken(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given, nearest = tmp_path / "given", tmp_path / ".lockstep" / "jars"
    for folder in (nearest, given):
        assert str(folder) not in jvm.driver_options(environ(given))
        folder.mkdir(parents=True)
        place = folder / jvm.archive_name()
        place.touch()
        assert f"-XX:SharedArchiveFile={place} " in jvm.driver_options(environ(given))


def test_another_java_has_another_archive(tmp_path):
    home = tmp_path / "java" / "bin"
    home.mkdir(parents=True)
    (home / "java").write_text("#!/bin/sh\necho 'openjdk version \"17\"' >&2\n")
    (home / "java").chmod(0o755)
    assert jvm.archive_name(dict(os.environ) | {"JAVA_HOME": str(home.parent)}) != jvm.archive_name()


def test_where_there_is_no_archive_the_driver_is_told_nothing_of_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "SharedArchiveFile" not in jvm.driver_options({"PATH": os.environ["PATH"]})


@pytest.mark.server
def test_what_was_kept_spares_a_jvm_the_loading(tmp_path):
    place = jars.folder() / jvm.archive_name()
    if not place.is_file():
        pytest.skip(f"this Java keeps no classes, or make jars has not run: {place} is not there")
    log = tmp_path / "loaded"
    said = launched(f"-XX:SharedArchiveFile={place}", f"-Xlog:class+load:file={log}")
    assert said.returncode == 0, said.stderr
    shared = [line for line in log.read_text().splitlines() if "org.apache.spark" in line and "(top)" in line]
    assert len(shared) > 10


@pytest.mark.server
def test_an_archive_that_is_none_is_left_alone_without_a_word(tmp_path):
    (tmp_path / "broken.jsa").write_text("not an archive")
    said = launched(f"-XX:SharedArchiveFile={tmp_path / 'broken.jsa'}")
    assert said.returncode == 0, said.stderr
    assert "[warning]" not in said.stdout + said.stderr


def test_what_is_there_is_not_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_JARS", str(tmp_path))
    place = tmp_path / jvm.archive_name(dict(os.environ) | java.exports())
    place.write_text("made before")
    said: list[str] = []
    class_data.ensure_class_data(said.append)
    assert said == []
    assert place.read_text() == "made before"


def test_a_spark_that_cannot_keep_its_classes_ends_no_build(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_JARS", str(tmp_path))
    (tmp_path / "spark-0.1-of-old.jsa").touch()
    monkeypatch.setattr(spark_submit, "PROGRAM", "/bin/false")
    assert class_data.main() == 0
    assert [place.name for place in tmp_path.glob("*.jsa")] == []
    assert [place.name for place in tmp_path.glob("*.new")] == []
