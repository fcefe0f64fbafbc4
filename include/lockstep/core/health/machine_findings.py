"""Checks that this machine has what a run needs: packages that fit one another, Java, and memory."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import TYPE_CHECKING

from lockstep.core.health.findings import Check, Finding, Judged, problem, warning
from lockstep.core.pipeline.schedule import longest_wait
from lockstep.core.planning.tasks import suited

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.core.pipeline.definition import Limits, Pipeline
    from lockstep.core.planning.tasks import PastBatches, Suited

PYTHON_SUBJECT = "python"
# From the first version on, and before the second. A test holds them to pyproject.toml.
FITTING = {
    Check.PYSPARK: ((4, 0), (4, 4)),
    Check.EXPECTATIONS: ((1, 24), (2,)),
    Check.CONFLUENT: ((2, 16), (2, 17)),
    Check.AIRFLOW: ((3, 1, 8), (3, 4)),
}
PACKAGE_REASONS = {
    Check.PYSPARK: "the engine is written for these; without it only small batches are read",
    Check.EXPECTATIONS: "validation is written for its version 1; without it no suite is judged",
    Check.CONFLUENT: "bounds are read through its admin client, and older ones lack or break that",
    Check.AIRFLOW: "the DAGs are written for these versions; the command line works without",
}
OPTIONAL = frozenset({Check.PYSPARK, Check.EXPECTATIONS})  # extras of the package
CLIENT = "pyspark-client"
INSTALL = "pip install --require-hashes -r requirements.txt"
GIB = 2**30


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """The facts of this machine and its Python. If something was not found, its value says why in words."""

    versions: Mapping[str, str | None]  # by distribution, None if it is not installed
    java: str | None  # the reason why there is none, or None if there is one
    cores: int | None  # that Spark works on, None on a separate cluster
    spark_memory: int | None  # bytes of the process that Spark runs in here, None on a cluster
    memory: int | None  # bytes of the machine, or of the container


def machine_findings(facts: MachineFacts) -> Judged:
    """Judges packages, Java and memory for a run on this machine."""
    packages = [*(package(facts, check) for check in FITTING), same_pyspark(facts)]
    of_spark = [java(facts)] if facts.versions.get(Check.PYSPARK) else []
    return [*packages, *of_spark, memory(facts)]


def package(facts: MachineFacts, check: Check) -> Finding | None:
    """Reports a package that is missing, or of a version that this code was not tested with."""
    found, (begin, end) = facts.versions.get(check), FITTING[check]
    if found is not None and begin <= _numbers(found) < end:
        return None
    wanted = f"{check}>={_text(begin)},<{_text(end)}"
    return (warning if check is Check.AIRFLOW or (found is None and check in OPTIONAL) else problem)(
        check, PYTHON_SUBJECT, found or "not installed", PACKAGE_REASONS[check], f"{INSTALL}, or pip install '{wanted}'"
    )


def same_pyspark(facts: MachineFacts) -> Finding | None:
    """Reports two versions of packages that both write the folder pyspark/."""
    spark, client = facts.versions.get(Check.PYSPARK), facts.versions.get(CLIENT)
    if client is None or spark == client:
        return None
    return problem(
        Check.PYSPARK,
        PYTHON_SUBJECT,
        f"pyspark {spark or 'not installed'}, {CLIENT} {client}",
        "both write the folder pyspark/, so what is in it is a mixture of the two",
        f"pip uninstall -y pyspark {CLIENT}, then {INSTALL}",
    )


def java(facts: MachineFacts) -> Finding | None:
    """Reports a missing Java, because Spark runs in a JVM."""
    if facts.java is None:
        return None
    why = "Spark needs Java 17 or newer to stage anything"
    return problem(
        Check.JAVA,
        "machine",
        facts.java,
        why,
        "apt-get install openjdk-17-jre-headless, or pip install 'lockstep-kafka[server]'",
    )


def memory(facts: MachineFacts) -> Finding | None:
    """Warns if Spark may take more memory than the machine has."""
    if facts.spark_memory is None or facts.memory is None or facts.spark_memory <= facts.memory:
        return None
    return warning(
        Check.LIMITS,
        "machine",
        f"Spark may take {_size(facts.spark_memory)}, the machine has {_size(facts.memory)}",
        "a batch that needs it is killed by the kernel instead of being spilled to disk",
        f"LOCKSTEP_SPARK_MEMORY={max(1, facts.memory // 2**20 // 2)}m",
    )


def limits_findings(pipeline: Pipeline, facts: MachineFacts, bytes_per_record: float | None) -> Judged:
    """Warns if a batch at its limits does not fit in memory. A transform may shuffle or cache all of it."""
    if facts.spark_memory is None:
        return []  # a cluster's memory is not visible from here
    largest = largest_batch(pipeline.limits, bytes_per_record)
    if largest is None or largest <= facts.spark_memory:
        return [None]
    fitting = facts.spark_memory // 2
    return [
        warning(
            Check.LIMITS,
            f"pipeline {pipeline.name}",
            f"a batch may hold {_size(largest)}, and Spark has {_size(facts.spark_memory)}",
            "a transform that shuffles or caches a whole batch spills to disk, or dies",
            f"limits=Limits(bytes={fitting}), or LOCKSTEP_SPARK_MEMORY={-(-largest * 2 // 2**20)}m",
        )
    ]


def pace_findings(pipeline: Pipeline, facts: MachineFacts, past: PastBatches, partitions: int) -> Judged:
    """Warns if other limits or more tasks would clearly suit the pace of past batches. Judges no short past."""
    wait = longest_wait(pipeline.schedule) if pipeline.schedule else None
    if wait is None or not partitions:
        return []
    size, memory, seconds = past.bytes_per_offset, facts.spark_memory, wait.total_seconds()
    most = memory / 2 / size if memory and size else inf
    found = suited(pipeline.limits, past, seconds, partitions, facts.cores, most)
    if found is None or not found.changes:
        return [] if found is None else [None]
    full = found.full / found.pace
    takes = f"take {full:,.1f} seconds at {found.pace:,.0f} a second"
    return [
        warning(
            Check.LIMITS,
            f"pipeline {pipeline.name}",
            f"{found.full:,} offsets, as many as a batch may have, {takes}; runs are {seconds:,.0f} seconds apart",
            _why_other_limits(found, past),
            f"limits={_pasted(found.limits)},  # {_tasks(found, facts.cores, partitions)}",
        )
    ]


def _why_other_limits(found: Suited, past: PastBatches) -> str:
    if found.lags:
        arriving = f"{past.arrival:,.0f} offsets a second arrive, more than are read"
        return f"{arriving}: with any limits the lag grows, and more tasks are needed"
    if found.full > found.limits.records:
        return "a batch should take half of that time, so that a run that failed can be tried again before records are late"
    return "its batches are full and end early: records wait for the next run while nothing is read"


def _pasted(limits: Limits) -> str:
    """Returns the limits as a definition writes them."""
    given = {name: value for name, value in asdict(limits).items() if value is not None}
    return f"Limits({', '.join(f'{n}={v:_}' if isinstance(v, int) else f'{n}={v:g}' for n, v in given.items())})"


def _tasks(found: Suited, cores: int | None, partitions: int) -> str:
    said = f"{found.tasks} task{'s' if found.tasks > 1 else ''}"
    if found.tasks <= (cores or partitions):
        return said
    more = ", and so many partitions" if found.tasks > partitions else ""
    setting = f"executors with {found.tasks} cores" if cores is None else f"SPARK_MASTER=local[{found.tasks}]"
    return f"{said}{more}: {setting}"


def largest_batch(limits: Limits, bytes_per_record: float | None) -> int | None:
    """Returns how many bytes a batch may hold, or None if neither a limit nor an earlier batch tells."""
    sizes = [limits.bytes] if limits.bytes else []
    sizes += [int(limits.records * bytes_per_record)] if bytes_per_record else []
    return min(sizes, default=None)


def _size(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


def _numbers(version: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
