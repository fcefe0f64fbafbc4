"""Prints the stages of an attempt that Spark has read for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.cli.output import say, say_table
from lockstep.core.text import cell

if TYPE_CHECKING:
    from lockstep.ledger.views.reading import Document

STAGE_COLUMNS = ["  stage>", "what", "state", "seconds>", "tasks>", "failed>", "median>", "longest>", "gc>"]
STAGE_FIELDS = ("name", "state", "seconds", "tasks", "failed_tasks", "median_seconds", "longest_seconds", "gc_seconds")


def say_stages(attempt: Document) -> None:
    """Prints what Spark says of the attempt: its memory, its event log and its stages. Prints nothing without Spark."""
    spark, log = attempt["spark"], attempt["spark_event_log"]
    if log:
        say(f"  attempt {attempt['attempt']}: Spark's event log is {log}")
    if not spark or spark["stages_run"] is None:
        return
    peak, limit = (_mebibytes(spark[name]) for name in ("heap_peak_bytes", "heap_limit_bytes"))
    collected = cell(round(spark["gc_seconds"], 3))
    say(f"  attempt {attempt['attempt']}: Spark's heap {peak} of {limit} MiB, garbage collection {collected} s")
    if spark["stages"]:
        rows = [
            [f"{stage['stage']}.{stage['try_number']}", *(stage[name] for name in STAGE_FIELDS)]
            for stage in spark["stages"]
        ]
        say_table(STAGE_COLUMNS, rows)


def _mebibytes(size: int | None) -> str:
    return cell(None if size is None else size // 2**20)
