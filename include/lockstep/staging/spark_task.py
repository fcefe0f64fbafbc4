"""Which of Spark's tasks this is; 0 where it is none."""

from __future__ import annotations

import sys
from typing import Any


def attempt_id() -> int:
    """Of this try and no other of the application."""
    context = _context()
    return context.taskAttemptId() if context else 0


def slot() -> int:
    """The part of the job that it works on, whichever try it is."""
    context = _context()
    return context.partitionId() if context else 0


def _context() -> Any:
    """A task's, which PySpark has begun; who has not imported it is in none."""
    pyspark = sys.modules.get("pyspark")
    return pyspark.TaskContext.get() if pyspark else None
