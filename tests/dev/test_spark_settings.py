"""Tests what the environment asks of Spark: its event log and its own pages."""

from __future__ import annotations

import pytest

from lockstep.core.errors import Refusal
from lockstep.engine.spark import jvm, session


def test_without_a_word_there_is_neither_log_nor_page():
    assert jvm.settings({}) == jvm.JVM_SETTINGS
    assert jvm.settings({"LOCKSTEP_SPARK_EVENTS": " ", "LOCKSTEP_SPARK_UI": ""}) == jvm.JVM_SETTINGS
    assert jvm.JVM_SETTINGS["spark.ui.enabled"] == "false"


def test_a_folder_for_the_event_log_is_made_for_its_owner_alone(tmp_path):
    folder = tmp_path / "logs of Spark" / "events"
    found = jvm.settings({"LOCKSTEP_SPARK_EVENTS": str(folder)})
    more = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{tmp_path}/logs%20of%20Spark/events"}
    assert found == jvm.JVM_SETTINGS | more
    assert folder.stat().st_mode & 0o777 == 0o700
    assert jvm.settings({"LOCKSTEP_SPARK_EVENTS": f"file:{folder}"}) == found, "it may be there already"


def test_a_store_that_spark_reaches_is_left_to_spark():
    found = jvm.settings({"LOCKSTEP_SPARK_EVENTS": "s3a://bucket/events"})
    assert found["spark.eventLog.dir"] == "s3a://bucket/events"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        Refusal, match=r"LOCKSTEP_SPARK_EVENTS: the folder .*/file/events cannot be made: Not a directory"
    ):
        jvm.settings({"LOCKSTEP_SPARK_EVENTS": str(tmp_path / "file" / "events")})


def test_a_log_file_that_cannot_be_written_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_SPARK_LOG", f"{tmp_path}/no/spark.log")
    with pytest.raises(Refusal, match=r"LOCKSTEP_SPARK_LOG: the file .*/no/spark.log cannot be written: No such file"):
        session._log()  # noqa: SLF001 - Spark would start for the rest
    monkeypatch.setenv("LOCKSTEP_SPARK_LOG", f" {tmp_path}/spark.log\n")
    with session._log() as log:  # noqa: SLF001 - the same
        assert log.name == str(tmp_path / "spark.log")


def test_the_pages_have_the_port_and_nobody_ends_a_job_there():
    found = jvm.settings({"LOCKSTEP_SPARK_UI": "0"})
    assert found == jvm.JVM_SETTINGS | {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.ui.killEnabled": "false",
    }


@pytest.mark.parametrize("port", ["yes", "-1", "65536", "4040,4041"])
def test_a_port_that_is_none_is_one_line(port):
    with pytest.raises(Refusal, match=r"LOCKSTEP_SPARK_UI is .* and takes a port"):
        jvm.settings({"LOCKSTEP_SPARK_UI": port})
