"""Converts errors of the JVM, or of a task, to one of our own errors in one line."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from lockstep.core.errors import BadData, ReaderDied, Refusal, Unreachable, is_away, said_in, spark_lost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lockstep.core.kafka_options import KafkaOptions
    from lockstep.core.staging import StageWork


# Spark's words for a task's process that was killed, crashed, or had no memory left.
DIED = (
    "Python worker exited unexpectedly",
    "java.io.EOFException",
    "java.lang.OutOfMemoryError",
    "exited caused by one of the running tasks",  # an executor. Spark calls the end of a preempted one unrelated.
)
# The words of a process that its deadline has ended, in Spark's error. A process that crashed begins with others.
TRACEBACK, CRASHED = "(most recent call first)", "Fatal Python error"
# Spark's words for jobs that this process has ended, with the task of Airflow that it is: its own JVM's, a server's.
OF_AN_ENDED_TASK = ("cancelled as part of cancellation of all jobs", "OPERATION_CANCELED")
RANGES_SHOWN = 10


@contextmanager
def found_away(where: str) -> Iterator[None]:
    """Converts a lost server to one of our own errors, while Spark is asked before a read."""
    try:
        yield
    except PySparkException as error:
        if lost := spark_lost(where, error):
            raise lost from error
        raise


def is_of_spark(error: Exception) -> bool:
    """Returns True if the error comes from Spark, or from the way to its JVM."""
    return isinstance(error, PySparkException) or type(error).__module__.startswith("py4j")


def is_interrupt(error: BaseException | None) -> bool:
    """Returns True if an interrupt came first. PySpark then asks the JVM once more, and that may fail, too."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def as_our_error(error: Exception, where: str, work: StageWork, login: KafkaOptions) -> BaseException:
    """Converts the JVM's many lines about this pipeline's read to one of our own errors. An interrupt stays one."""
    return KeyboardInterrupt() if is_interrupt(error) else _told(error, where, work, login)


def _told(error: Exception, where: str, work: StageWork, login: KafkaOptions) -> Exception:
    lines = [login.hidden(line) for line in str(error).splitlines() if line.strip()]
    if said := next(filter(None, map(said_in, lines)), None) or _of_ended_task(lines, where, work):
        return said
    if away := _away(str(error), login):
        return Unreachable(f"{where}: batch {work.batch_id} could not be read: {away[:300]}")
    ranges = ", ".join(str(item.offsets) for item in work.ranges[:RANGES_SHOWN])
    if any(died in line for line in lines for died in DIED):
        is_busy = TRACEBACK in str(error) and CRASHED not in str(error)
        how = "made no progress within record_limits.seconds" if is_busy else "died, or had no memory left,"
        return ReaderDied(
            f"{where}: batch {work.batch_id} could not be staged: the process of a task {how} while it read {ranges}",
            next_command=f"lockstep skip {where} --to PARTITION:OFFSET --reason ..., if a record is at fault",
            is_busy=is_busy,
        )
    python = [line for line in lines if not line.startswith(("at ", "File ", "Traceback", "JVM ", "^"))]
    cause = next((line for line in reversed(python) if "Error" in line or "Exception" in line), (python or ["?"])[0])
    return BadData(f"{where}: batch {work.batch_id} could not be staged: {cause[:300]}")


def _away(text: str, login: KafkaOptions) -> str | None:
    """Returns the line that says which server was away. A traceback's source lines, which are indented, come last."""
    found = sorted(filter(is_away, text.splitlines()), key=lambda line: line[0].isspace())
    return login.hidden(found[0]) if found else None


def _of_ended_task(lines: list[str], where: str, work: StageWork) -> Refusal | None:
    """Returns our error if this process has ended its own jobs. No data or code is at fault then."""
    if any(words in line for line in lines for words in OF_AN_ENDED_TASK):
        return Refusal(f"{where}: batch {work.batch_id} was being read when its task was ended")
    return None
