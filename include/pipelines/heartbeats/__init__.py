"""Appends heartbeats at most once: a late or doubled one is worse than a lost one. `lockstep verify` names losses."""

from lockstep import Append, AtMostOnce, Json, Limits, Pipeline

HEARTBEATS = Pipeline(
    name="heartbeats",
    topic="heartbeats.v1",
    format=Json("device string, battery smallint, at timestamp"),
    target=Append("public.heartbeats"),
    guarantee=AtMostOnce(),
    start="latest",
    limits=Limits(records=500_000, seconds=30),
    schedule="* * * * *",
    owner="devices",
)
