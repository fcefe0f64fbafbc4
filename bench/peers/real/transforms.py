"""Makes rows of decoded records by PySpark. Lockstep runs this file as a `transform.py`, and AvailableNow the same code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORIGIN = ("_stream", "_offset")


def filtered(records: DataFrame) -> DataFrame:
    """Keeps some columns of the paid records, and changes two of these columns."""
    agent, title = F.upper("user_agent").alias("user_agent"), F.substring("title", 1, 12).alias("title")
    return records.where("paid").select(*ORIGIN, "id", "customer", "amount", "occurred_at", agent, title)


def masked(records: DataFrame) -> DataFrame:
    """Hides the last number of each address, by a Python function over Arrow."""

    @F.udf("string", useArrow=True)
    def hide(address: str | None) -> str | None:
        return None if address is None else address.rpartition(".")[0] + ".0"

    return records.withColumn("ip", hide("ip"))


def totals(records: DataFrame) -> DataFrame:
    """Adds up the amounts of each customer. A total stands at the last of its records."""
    last = F.max(F.struct(*ORIGIN)).alias("last")
    latest = F.max("occurred_at").alias("latest")
    each = records.groupBy("customer").agg(last, F.count("*").alias("orders"), F.sum("amount").alias("amount"), latest)
    amount = F.col("amount").cast("decimal(20,2)").alias("amount")
    return each.select("last._stream", "last._offset", "customer", "orders", amount, "latest")


def paid_orders(records: DataFrame) -> DataFrame:
    """Keeps the paid ones."""
    return records.where("paid").select(*ORIGIN, "id", "customer", "amount", "price", "occurred_at", "note")


def open_orders(records: DataFrame) -> DataFrame:
    """Keeps the others."""
    return records.where("not paid").select(*ORIGIN, "id", "customer", "amount", "delivered_on", "city")
