"""Makes the rows of a review and of its ratings: one function for each table, over the same records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REVIEW = """
    productId string, author struct<displayName: string, countryCode: string>, text string,
    ratings array<struct<aspect: string, stars: int>>
"""


def reviews(records: DataFrame) -> DataFrame:
    """Returns one row for a review."""
    review = F.from_json("data", REVIEW)
    return records.withColumn("review", review).select(
        "_stream",
        "_offset",
        F.col("id").alias("review_id"),
        F.col("review.productId").alias("product_id"),
        F.trim("review.author.displayName").alias("author"),
        F.upper("review.author.countryCode").alias("country"),
        F.col("review.text").alias("body"),
        F.array_min("review.ratings.stars").alias("fewest_stars"),
        F.col("time").alias("posted_at"),
    )


def ratings(records: DataFrame) -> DataFrame:
    """Returns one row for a rating. `_ordinal` tells the ratings of one review apart."""
    each = F.posexplode(F.from_json("data", REVIEW)["ratings"]).alias("_ordinal", "rating")
    return records.select("_stream", "_offset", each, F.col("id").alias("review_id")).select(
        "_stream", "_offset", "_ordinal", "review_id", "rating.aspect", "rating.stars"
    )
