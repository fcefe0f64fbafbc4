"""Writes invoices to files, one for each batch and stream. A repeated delivery overwrites its file.

The folder is in LOCKSTEP_STORE_FILES, or at the path of the Airflow connection lockstep_store_files.
"""

from lockstep import Append, Files, Idempotent, Json, Limits, Pipeline

INVOICES = Pipeline(
    name="invoices",
    topic="invoices.v1",
    format=Json("invoice_id string, customer string, total decimal(12,2), issued_at timestamp"),
    target=Append("files.invoices"),
    guarantee=Idempotent(),
    store=Files("invoices"),
    limits=Limits(records=200_000, seconds=120),
    schedule="0 * * * *",
    owner="accounts",
)
