"""Events of devices, each a row of its own, committed partition by partition: one that is late holds up no other."""

from lockstep.core.definition import Append, Json, Limits, PerPartition, Pipeline

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
