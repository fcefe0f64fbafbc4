"""Reads a lake table by Spark SQL over Iceberg's own catalog, in a process that knows nothing of Lockstep. Prints JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

QUERY = "select count(*), count(distinct _stream, _offset), sum(n) from lockstep.sales.{name}"
NEWEST = "select summary['lockstep.batch'] from lockstep.sales.{name}.snapshots order by committed_at desc limit 1"


def main(jars: str, settings: str) -> None:
    """Prints, for each table, what both queries say. `settings` are those of the catalog, as docs/lake.md shows them."""
    made = SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    for name, value in json.loads(settings).items():
        made = made.config(name, value)
    spark = made.getOrCreate()
    said = {
        name: [
            [*spark.sql(QUERY.format(name=name)).collect()[0]],
            spark.sql(NEWEST.format(name=name)).collect()[0][0],
        ]
        for name in ("drill", "lines")
    }
    spark.stop()
    sys.stdout.write(f"\n{json.dumps(said)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
