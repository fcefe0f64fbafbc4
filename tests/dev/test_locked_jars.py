"""Tests that jars are fetched and used by their SHA-256 alone."""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from lockstep.adapters import jar_lock
from lockstep.core.errors import Refusal
from lockstep.dev.servers import kafka, processes
from lockstep.dev.setup import jars, lock_jars
from lockstep.installed import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server  # needs the jars
VICTIM = next(jar.path for jar in jar_lock.read_lock() if jar.path.startswith("broker/kafka-clients-"))


@pytest.fixture
def place(tmp_path):
    """Returns a copy of the jars of this checkout, which a test may spoil."""
    shutil.copytree(jars.broker_jars(), tmp_path / "jars" / "broker")
    return tmp_path / "jars"


def change_one_byte(jar: Path) -> None:
    content = bytearray(jar.read_bytes())
    content[len(content) // 2] ^= 1
    jar.write_bytes(content)


def test_a_jar_with_one_changed_byte_is_refused_by_name_with_the_next_command(place):
    environ = {"LOCKSTEP_JARS": str(place)}
    assert jars.broker_jars(environ) == place / "broker"
    assert jars.complete(place)
    change_one_byte(place / VICTIM)

    with pytest.raises(Refusal) as refused:
        jars.broker_jars(environ)

    said = str(refused.value)
    assert said.startswith(f"{VICTIM} in {place} has the SHA-256 {jar_lock.sha256(place / VICTIM)}")
    assert said.endswith("Next: lockstep dev jars")
    assert "\n" not in said
    assert not jars.complete(place)


def test_a_broker_is_not_started_from_a_changed_jar(place, tmp_path, monkeypatch):
    change_one_byte(place / VICTIM)
    monkeypatch.setenv("LOCKSTEP_JARS", str(place))

    with pytest.raises(Refusal, match=re.escape(VICTIM)):
        kafka.start(tmp_path / "home")


def test_a_jar_that_no_lock_names_is_refused(place):
    (place / "broker" / "a-shadow-1.0.jar").write_bytes(b"PK")

    with pytest.raises(Refusal, match=r"broker/a-shadow-1.0.jar in .* is not among the jars.*Next: lockstep dev jars"):
        jars.broker_jars({"LOCKSTEP_JARS": str(place)})
    assert not jars.complete(place)


def test_a_jar_that_is_missing_is_refused(place):
    (place / VICTIM).unlink()

    with pytest.raises(Refusal, match=rf"{re.escape(VICTIM)} is missing in .*Next: lockstep dev jars"):
        jars.broker_jars({"LOCKSTEP_JARS": str(place)})


def test_a_folder_of_an_earlier_version_is_complete(place):
    (place / "connector").mkdir()
    (place / "connector" / "spark-sql-kafka-0-10_2.13-4.1.1.jar").write_bytes(b"PK")

    assert jars.complete(place)


@pytest.fixture
def fetched(place, monkeypatch):
    """Replaces Ivy by a function that brings the jars of `place`."""
    monkeypatch.setattr(
        processes, "run_program", lambda _, **__: bool(shutil.copytree(place, place.parent / "fresh.new"))
    )
    return place.parent / "fresh"


def test_what_was_fetched_takes_its_place_when_it_is_what_was_locked(fetched):
    jars.ensure_jars(fetched, lambda _: None)

    assert jars.complete(fetched)


def test_a_fetched_jar_with_another_checksum_takes_no_place_and_leaves_no_cache(place, fetched):
    change_one_byte(place / VICTIM)

    with pytest.raises(
        Refusal, match=rf"{re.escape(VICTIM)} in .*has the SHA-256.*Next: lockstep dev jars to fetch it again"
    ):
        jars.ensure_jars(fetched, lambda _: None)

    assert not fetched.exists()
    assert not fetched.with_name("fresh.new").exists()
    assert not fetched.with_name("fresh.cache").exists()


def test_the_lock_is_made_from_what_ivy_brings(tmp_path):
    jar = tmp_path / "broker" / "org.tukaani" / "xz" / "1.10.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"xz")

    made = json.loads(jar_lock.format_lock(lock_jars.locked_jars(tmp_path)))

    assert made == {
        "broker/xz-1.10.jar": {
            "purl": "pkg:maven/org.tukaani/xz@1.10",
            "sha256": "8ec5e9e6f70bf1a0b5692ef948d1194bdb074342ed14045f9e84820367a98c6a",
        },
    }
    assert jar_lock.format_lock(jar_lock.read_lock()) == lock_jars.JAR_LOCK_FILE.read_text()


def test_every_module_that_ivy_is_asked_for_is_locked_in_that_revision():
    ivy = (CHECKOUT / "ivy.xml").read_text()
    asked = re.findall(r'<dependency org="([^"]+)" name="([^"]+)" rev="([^"]+)"', ivy)

    assert len(asked) >= 5
    assert {f"pkg:maven/{'/'.join(names)}@{revision}" for *names, revision in asked} <= {
        jar.purl for jar in jar_lock.read_lock()
    }


def test_no_codec_with_a_known_hole_is_locked():
    codecs = {jar.purl for jar in jar_lock.read_lock() if re.search(r"/(lz4-java|zstd-jni|snappy-java)@", jar.purl)}

    assert codecs == {
        "pkg:maven/at.yawk.lz4/lz4-java@1.11.2",
        "pkg:maven/com.github.luben/zstd-jni@1.5.7-17",
        "pkg:maven/org.xerial.snappy/snappy-java@1.1.10.8",
    }
