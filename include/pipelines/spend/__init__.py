"""Totals each customer's spending: an order counts once, when it is paid. A replay leaves totals exact."""

from lockstep import Accumulate, Count, Json, Limits, Max, Min, Pipeline, Sum

SPEND = Pipeline(
    name="spend",
    topic="orders.v1",
    format=Json("order_id string, customer string, amount decimal(12,2), status string, placed_at timestamp"),
    target=Accumulate(
        "public.spend",
        key=("customer",),
        totals=(
            Count("orders"),
            Sum("amount", of="amount"),
            Min("first_at", of="placed_at"),
            Max("last_at", of="placed_at"),
        ),
    ),
    start="earliest",
    limits=Limits(records=500_000, per_partition=200_000, seconds=120),
    schedule="*/5 * * * *",
    owner="payments",
)
