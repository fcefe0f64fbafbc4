"""Runs Spark's daemon for Python workers.

It imports what all workers need once, before they are forked from it.
"""

from __future__ import annotations

import gc
import os
import sys

# A transform is a pipeline author's code, and must not see the server's token.
os.environ.pop("SPARK_CONNECT_AUTHENTICATE_TOKEN", None)

# Spark puts zips and a jar before the installed packages. Each task clears Python's cache of folders, and then their
# tables of contents are read again, for every package: a tenth of a second of each worker and task.
sys.path[:] = [place for place in sys.path if not place.endswith(("pyspark.zip", "-src.zip", ".jar"))]
sys.path_importer_cache.clear()

from pyspark.daemon import manager

import lockstep.engine.kafka_ranges
import lockstep.engine.sinks.range_writer
import lockstep.formats.json.columns
import lockstep.steps.ranges.task  # noqa: F401 - imported for whoever is forked

if __name__ == "__main__":
    gc.freeze()  # else each worker would search these modules for garbage
    manager()  # type: ignore[no-untyped-call]
