"""Keeps orders current: the newest record of an order is its row, and a tombstone deletes it."""

from lockstep import Json, Limits, Pipeline, Upsert

ORDERS = Pipeline(
    name="orders",
    topic="orders.v1",
    format=Json(
        "order_id string, customer string, amount decimal(12,2), status string, placed_at timestamp",
        key="order_id",
    ),
    target=Upsert("public.orders", key=("order_id",)),
    start="earliest",
    limits=Limits(records=500_000, per_partition=200_000, seconds=120),
    schedule="*/5 * * * *",
    owner="payments",
)
