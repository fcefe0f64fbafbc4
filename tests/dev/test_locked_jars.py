"""Tests that jars are fetched and used by their SHA-256 alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from lockstep.adapters import jar_lock
from lockstep.adapters.connector import class_path, connector_jars
from lockstep.adapters.machine_facts import machine_facts
from lockstep.core.errors import Refusal
from lockstep.dev.servers import processes
from lockstep.dev.setup import jars, lock_jars
from lockstep.installed import CHECKOUT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server  # needs the jars
VICTIM = next(jar.path for jar in jar_lock.read_lock() if jar.path.startswith("connector/kafka-clients-"))


@pytest.fixture
def place(tmp_path):
    """Returns a copy of this checkout's jars, which a test may spoil."""
    jars.check_jars(jars.folder())
    return shutil.copytree(jars.folder(), tmp_path / "jars", ignore=shutil.ignore_patterns("*.jsa"))


def change_one_byte(jar: Path) -> None:
    content = bytearray(jar.read_bytes())
    content[len(content) // 2] ^= 1
    jar.write_bytes(content)


def test_locked_jars_are_found_by_each_reader(place):
    environ = {"LOCKSTEP_JARS": str(place)}

    assert jars.complete(place)
    assert jars.find_jars("broker", environ) == place / "broker"
    assert str(place / VICTIM) in connector_jars(environ)
    assert class_path(environ)["spark.driver.extraClassPath"].startswith(f"{place}/ahead/lz4-java-")


@pytest.mark.parametrize("configuration", ["connector", "ahead", "broker"])
def test_a_jar_with_one_changed_byte_is_refused_by_name_with_the_next_command(place, configuration):
    spoiled = min((place / configuration).glob("*.jar"))
    change_one_byte(spoiled)
    environ = {"LOCKSTEP_JARS": str(place)}
    readers = {
        "connector": connector_jars,
        "ahead": class_path,
        "broker": lambda given: jars.find_jars("broker", given),
    }

    with pytest.raises(Refusal) as refused:
        readers[configuration](environ)  # type: ignore[operator]

    said = str(refused.value)
    assert said.startswith(f"{configuration}/{spoiled.name} in {place} has the SHA-256 {jar_lock.sha256(spoiled)}")
    assert said.endswith("Next: lockstep dev jars")
    assert "\n" not in said
    assert not jars.complete(place)


def test_a_jar_that_no_lock_names_is_refused(place):
    (place / "ahead" / "a-shadow-1.0.jar").write_bytes(b"PK")

    with pytest.raises(Refusal, match=r"ahead/a-shadow-1.0.jar in .* is not among the jars.*Next: lockstep dev jars"):
        class_path({"LOCKSTEP_JARS": str(place)})
    assert not jars.complete(place)


def test_a_jar_that_is_missing_is_refused(place):
    (place / VICTIM).unlink()

    with pytest.raises(Refusal, match=rf"{re.escape(VICTIM)} is missing in .*Next: lockstep dev jars"):
        connector_jars({"LOCKSTEP_JARS": str(place)})


@pytest.mark.parametrize(
    ("spark", "expected", "reason"),
    [
        ("4.1.1", "4.1.1", "the one that is pinned"),
        ("4.0.2", "4.0.2", "an older one"),
        ("4.1.1.dev1", "4.1.1", "a build of it"),
        (None, "4.1.1", "none is installed: the newest"),
    ],
)
def test_the_installed_pyspark_chooses_the_jars(spark, expected, reason):
    assert jar_lock.spark_release(jar_lock.read_lock(), spark) == expected, reason


@pytest.mark.parametrize("spark", ["4.1.0", "4.2.1", "3.5.8", "4.1", "main"])
def test_a_pyspark_without_jars_of_its_own_is_refused_before_anything_is_fetched(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(jar_lock, "installed_spark", lambda: spark)
    monkeypatch.setattr(processes, "run_program", lambda _, **__: False)

    with pytest.raises(Refusal) as refused:
        jars.ensure_jars(tmp_path / "jars", lambda _: None)

    assert str(refused.value) == (
        f"PySpark {spark} is installed, and jars.json has Spark's connector for 4.0.0, 4.0.1, 4.0.2, 4.1.1."
        "  Next: pip install pyspark==4.1.1 pyspark-client==4.1.1"
    )


def test_jars_of_another_pyspark_are_refused_in_one_line_with_both_versions(place, monkeypatch):
    monkeypatch.setattr(jar_lock, "installed_spark", lambda: "4.0.2")
    environ = {"LOCKSTEP_JARS": str(place)}

    with pytest.raises(Refusal) as refused:
        connector_jars(environ)

    assert str(refused.value) == (
        f"the jars in {place} are for PySpark 4.1.1, and 4.0.2 is installed.  Next: lockstep dev jars"
    )
    assert jars.find_jars("broker", environ) == place / "broker", "the broker's jars are those of every PySpark"


def test_a_mixture_of_jars_is_refused_by_a_jar(place):
    (place / "connector" / "spark-tags_2.13-4.0.2.jar").write_bytes(b"PK")
    (place / "connector" / "a-shadow-1.0.jar").write_bytes(b"PK")

    with pytest.raises(Refusal, match=r"connector/a-shadow-1.0.jar in .* is not among the jars"):
        connector_jars({"LOCKSTEP_JARS": str(place)})


def test_the_command_line_says_it_in_one_line(place):
    change_one_byte(place / VICTIM)
    program = "from lockstep.engine.spark.session import session; session()"
    environ = os.environ | {"LOCKSTEP_JARS": str(place)}

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environ, check=False)

    assert said.returncode == 1
    assert said.stderr.splitlines()[-1].startswith(
        f"lockstep.core.errors.Refusal: {VICTIM} in {place} has the SHA-256 "
    )


def test_doctor_sees_a_changed_jar(place):
    change_one_byte(place / VICTIM)

    assert str(machine_facts(os.environ | {"LOCKSTEP_JARS": str(place)}).jars).startswith(VICTIM)


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
    for spark, name in (("4.0.2", "xz"), ("4.1.1", "xz"), ("4.0.2", "pool")):
        jar = tmp_path / spark / "connector" / "org.tukaani" / name / "1.10.jar"
        jar.parent.mkdir(parents=True)
        jar.write_bytes(b"xz")

    made = json.loads(jar_lock.format_lock(lock_jars.locked_jars(tmp_path)))

    assert made == {
        "connector/pool-1.10.jar": {
            "purl": "pkg:maven/org.tukaani/pool@1.10",
            "sha256": "8ec5e9e6f70bf1a0b5692ef948d1194bdb074342ed14045f9e84820367a98c6a",
            "spark": ["4.0.2"],
        },
        "connector/xz-1.10.jar": {
            "purl": "pkg:maven/org.tukaani/xz@1.10",
            "sha256": "8ec5e9e6f70bf1a0b5692ef948d1194bdb074342ed14045f9e84820367a98c6a",
        },
    }


@pytest.mark.parametrize("spark", lock_jars.SPARK_VERSIONS)
def test_every_module_that_ivy_is_asked_for_is_locked_in_that_revision(spark):
    text = ivy().replace(f"${{{jars.SPARK_PROPERTY}}}", spark)
    asked = re.findall(r'<dependency org="([^"]+)" name="([^"]+)" rev="([^"]+)" conf="([\w,]+)', text)
    fitting = [jar for jar in jar_lock.read_lock() if not jar.spark or spark in jar.spark]
    locked = {(jar.path.split("/")[0], jar.purl) for jar in fitting}

    assert len(asked) >= 8
    assert [purl for _, purl in sorted(locked) if "org.apache.spark/spark-sql-kafka" in purl] == [
        f"pkg:maven/org.apache.spark/spark-sql-kafka-0-10_2.13@{spark}"
    ]
    for organisation, name, revision, configurations in asked:
        for configuration in configurations.split(","):
            assert (configuration, f"pkg:maven/{organisation}/{name}@{revision}") in locked


def test_no_codec_with_a_known_hole_is_locked():
    codecs = {jar.purl for jar in jar_lock.read_lock() if re.search(r"/(lz4-java|zstd-jni|kafka-clients)@", jar.purl)}

    assert codecs == {
        "pkg:maven/at.yawk.lz4/lz4-java@1.11.2",
        "pkg:maven/com.github.luben/zstd-jni@1.5.7-17",
        "pkg:maven/org.apache.kafka/kafka-clients@3.9.2",
        "pkg:maven/org.apache.kafka/kafka-clients@4.2.1",
    }


def ivy() -> str:
    return (CHECKOUT / "ivy.xml").read_text()
