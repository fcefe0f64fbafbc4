"""Which of Spark's tasks this is; 0 where it is none."""

from __future__ import annotations

from pyspark import TaskContext


def attempt_id() -> int:
    """Of this try and no other of the application."""
    context = TaskContext.get()
    return context.taskAttemptId() if context else 0


def slot() -> int:
    """The part of the job that it works on, whichever try it is."""
    context = TaskContext.get()
    return context.partitionId() if context else 0
