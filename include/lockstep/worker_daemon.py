"""Spark's daemon for Python's workers: what all of them need is imported once, by the process that they are forked from."""

from __future__ import annotations

from pyspark.daemon import manager

import lockstep.adapters.kafka_ranges
import lockstep.formats.json_columns
import lockstep.staging.range_writer
import lockstep.steps.commit_range  # noqa: F401 - imported for whoever is forked

if __name__ == "__main__":
    manager()  # type: ignore[no-untyped-call]
