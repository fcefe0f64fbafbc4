"""Identifies the current Spark task. Outside of a task, its numbers are 0."""

from __future__ import annotations

import sys
from typing import Any


def attempt_id() -> int:
    """Returns the id of this try, unique in the application."""
    context = _context()
    return context.taskAttemptId() if context else 0


def slot() -> int:
    """Returns the part of the job that this task works on, the same for every try."""
    context = _context()
    return context.partitionId() if context else 0


def _context() -> Any:
    """Returns the task's context, or None outside of PySpark."""
    pyspark = sys.modules.get("pyspark")
    return pyspark.TaskContext.get() if pyspark else None
