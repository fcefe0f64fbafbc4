"""Removes the signups of load tests, and writes countries in upper case."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def transform(records: DataFrame) -> DataFrame:
    """Returns the rows of real signups."""
    real = records.where(F.coalesce("source", F.lit("")) != "load-test")
    return real.select("_stream", "_offset", "signup_id", "email", F.upper("country").alias("country"), "at")
