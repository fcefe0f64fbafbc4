"""Appends every click as a row. Records that cannot be decoded become rejects."""

from lockstep import Append, Json, Limits, Pipeline

CLICKS = Pipeline(
    name="clicks",
    topic="clicks.v1",
    format=Json("click_id string, user string, url string, at timestamp"),
    target=Append("public.clicks"),
    limits=Limits(records=500_000, seconds=120),
    schedule="* * * * *",
    owner="web",
)
