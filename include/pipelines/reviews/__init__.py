"""Appends product reviews to one table and their ratings to another, with PySpark over nested JSON.

Records are CloudEvents. Their attributes are columns, and `data` is the nested object as text, for `transform.py` to parse.
"""

from lockstep import Append, Json, Limits, Pipeline

REVIEWS = Pipeline(
    name="reviews",
    topic="reviews.v1",
    format=Json("id string, time timestamp, data string"),
    target=(
        Append("public.reviews", transform="reviews"),
        Append("public.review_ratings", transform="ratings"),
    ),
    limits=Limits(records=200_000, seconds=120),
    schedule="*/5 * * * *",
    owner="shop",
)
