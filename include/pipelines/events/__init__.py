"""Appends every event of a device as a row, and commits each partition alone.

A late partition does not delay the others.
"""

from lockstep import Append, Json, Limits, PerPartition, Pipeline

EVENTS = Pipeline(
    name="events",
    topic="events.v1",
    format=Json("event_id string, device string, kind string, reading double, at timestamp"),
    target=Append("public.events"),
    guarantee=PerPartition(),
    limits=Limits(records=2_000_000, seconds=120),
    schedule="*/2 * * * *",
    owner="devices",
)
