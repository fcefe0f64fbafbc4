"""Appends every sale to an Iceberg table, beside the totals that `sales` keeps of them in Postgres.

LOCKSTEP_LAKE says in which folder the table is made. In the embedded stack it is `.lockstep/lake`.
"""

from lockstep import Append, Iceberg, Json, Limits, Pipeline

SOLD = Pipeline(
    name="sold",
    topic="sales.v1",
    format=Json("sale_id string, shop string, amount decimal(12,2), sold_at timestamp"),
    target=Append(Iceberg("shop.sold")),
    start="earliest",
    limits=Limits(records=500_000, seconds=120),
    schedule="*/5 * * * *",
    owner="payments",
)
