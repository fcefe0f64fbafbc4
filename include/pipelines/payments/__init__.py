"""Appends every payment as a row, in Avro with the registry's schemas. `extra` keeps fields that are added later."""

from lockstep import Append, Avro, Envelope, Limits, Pipeline

PAYMENTS = Pipeline(
    name="payments",
    topic="payments.v1",
    format=Avro(
        "payment_id string, order_id string, amount decimal(12,2), currency string, method string, paid_at timestamp",
        rest="extra",
    ),
    envelope=Envelope(key="account", headers="headers"),
    target=Append("public.payments"),
    limits=Limits(records=500_000, seconds=120),
    schedule="*/5 * * * *",
    owner="payments",
)
