"""Signups as they come: those of load tests are filtered, and what breaks an expectation is put aside, not in the way."""

from lockstep.core.definition import Append, Json, Limits, Pipeline

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
