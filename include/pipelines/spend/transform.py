"""Selects the one record of an order that counts as spending."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def transform(records: DataFrame) -> DataFrame:
    """Keeps the records of orders that are paid."""
    return records.where("status = 'paid'")
