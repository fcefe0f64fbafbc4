"""Splits each basket into its head, by the newest record, and the lines of all its versions, in one transaction."""

from lockstep import Append, Json, Limits, Pipeline, Upsert

BASKETS = Pipeline(
    name="baskets",
    topic="baskets.v1",
    format=Json("basket_id string, customer string, placed_at timestamp, lines string", key="basket_id"),
    target=(
        Upsert("public.baskets", key=("basket_id",), transform="heads"),
        Append("public.basket_lines", transform="lines"),
    ),
    limits=Limits(records=500_000, seconds=120),
    schedule="*/5 * * * *",
    owner="shop",
)
