"""Tests what is said of a dead task: its ranges and the way past a bad record, or the server that was away."""

from __future__ import annotations

import errno
import os

import pytest

from lockstep.core.errors import BadData, Unreachable
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import OffsetRange, StreamRange, TopicPartition
from lockstep.core.staging import StageWork
from lockstep.engine.chosen import _one_line
from lockstep.engine.spark.errors import as_our_error

RANGES = tuple(StreamRange(n, OffsetRange(TopicPartition("t", n), 5, 9)) for n in range(2))


@pytest.mark.parametrize(
    "line",
    [
        "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
        "Caused by: java.io.EOFException",
        "Caused by: java.lang.OutOfMemoryError: Java heap space",
    ],
)
def test_a_dead_task_names_its_ranges_and_the_next_command(line):
    work = StageWork("p", 7, 1, RANGES, ())
    said = as_our_error(Exception(f"Job aborted\n{line}\n\tat org.apache.spark.Here"), "p", work, KafkaOptions())
    assert isinstance(said, BadData)
    assert "t-0 [5, 9), t-1 [5, 9)" in str(said)
    assert "lockstep skip p --to PARTITION:OFFSET" in str(said)


@pytest.mark.parametrize(
    ("line", "kind"),
    [("ConnectionError: 401, no s3cret", Unreachable), ("ValueError: s3cret", BadData)],
    ids=["a server", "code"],
)
def test_what_an_error_repeats_of_a_login_is_hidden(line, kind):
    work = StageWork("p", 7, 1, RANGES, ())
    login = KafkaOptions((("sasl.oauthbearer.client.secret", "s3cret"),))
    said = as_our_error(Exception(f"Job aborted\n{line}\n\tat org.apache.spark.Here"), "p", work, login)
    assert type(said) is kind
    assert "***" in str(said)
    assert "s3cret" not in str(said)


def test_a_server_that_was_lost_is_told_by_its_error_and_not_by_a_line_of_source():
    traceback = (
        'PythonException: Traceback (most recent call last):\n  File "session.py", line 36, in staging_session\n'
        "    raise ConnectionError(str(error)) from error\n"
        "ConnectionError: server closed the connection unexpectedly\n\tThis probably means the server terminated\n"
    )
    said = as_our_error(Exception(traceback), "p", StageWork("p", 7, 1, RANGES, ()), KafkaOptions())
    assert type(said) is Unreachable
    assert str(said) == "p: batch 7 could not be read: ConnectionError: server closed the connection unexpectedly"


@pytest.mark.parametrize(
    "line",
    [
        "Caused by: java.io.IOException: No space left on device",
        "OSError: [Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device",
        "OSError: [Errno 122] Disk quota exceeded",
    ],
    ids=["shuffle", "spool", "quota"],
)
def test_a_full_disk_of_the_machine_that_reads_is_no_datas_fault(line):
    work = StageWork("p", 7, 1, RANGES, ())
    said = as_our_error(Exception(f"Job aborted\n{line}\n\tat org.apache.spark.Here"), "p", work, KafkaOptions())
    assert type(said) is Unreachable
    assert str(said) == f"p: batch 7 could not be read: {line}"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_of_this_process_is_one_line_and_other_errors_of_files_stay_as_they_are(number):
    work, asked = StageWork("p", 7, 1, RANGES, ()), []
    full = r"^p: batch 7 could not be read: this machine has no room for /tmp/x: .*  Next: make room on its disk$"
    with pytest.raises(Unreachable, match=full), _one_line(work, lambda: asked.append(1)):
        raise OSError(number, os.strerror(number), "/tmp/x")  # noqa: S108 - nobody writes there
    with pytest.raises(PermissionError), _one_line(work, lambda: asked.append(1)):
        raise PermissionError(errno.EACCES, "no")
    with pytest.raises(Unreachable, match="batch 7 could not be read: gone"), _one_line(work, lambda: asked.append(1)):
        raise ConnectionError("gone")
    assert asked == [1, 1, 1], "an attempt that was taken over is told so first"
