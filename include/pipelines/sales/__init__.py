"""Totals sales by the hour in which they happened. Hours are corrected for two hours, and sent to a topic."""

from lockstep import Count, EventTime, Feed, Json, Limits, Pipeline, Sum, Topic, Tumbling, Windows

SALES = Pipeline(
    name="sales",
    topic="sales.v1",
    format=Json("sale_id string, shop string, amount decimal(12,2), sold_at timestamp"),
    event_time=EventTime("sold_at", delay="2 minutes"),
    target=Windows(
        "public.sales_by_hour",
        window=Tumbling("1 hour"),
        key=("shop",),
        totals=(Count("sales"), Sum("revenue", of="amount")),
        lateness="2 hours",
        feed=Feed(to=Topic("sales.by-hour.v1", partitions=4)),
    ),
    start="earliest",
    limits=Limits(records=500_000, per_partition=200_000, seconds=120),
    schedule="*/5 * * * *",
    owner="payments",
)
