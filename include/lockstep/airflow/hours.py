"""Hours that are complete, told one by one: an asset of their own, and an event for each with the hour as partition key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk import Asset, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from lockstep.airflow.door import caller
from lockstep.core.hours import key_of

if TYPE_CHECKING:
    from airflow.sdk import XComArg

    from lockstep.airflow.door import Door
    from lockstep.core.definition import Pipeline


def hours_of(pipeline: Pipeline) -> Asset:
    """The hours that a pipeline has completed, for DAGs that are to run once for each: `PartitionedAssetTimetable`."""
    table = pipeline.first.table
    return Asset(name=f"{table}.hours", uri=f"lockstep://{table}/hours", group="lockstep")


def tell_hours(door: Door, asset: Asset, behind: XComArg) -> None:
    """Two tasks behind a run, which also run when it had nothing to do: which hours are to be told, and one for each."""

    @task(trigger_rule="none_failed")
    def hours() -> list[str]:
        """Keeps the hours that are complete by now; those that nobody has told yet are told next."""
        return find(door)

    @task(outlets=[asset], max_active_tis_per_dagrun=1, map_index_template="{{ hour }}")
    def say_hour(until: str) -> None:
        """Says of one hour that it is complete, with the offsets and the batches that prove it."""
        say(door, asset, datetime.fromisoformat(until))

    found = hours()
    behind >> found
    say_hour.expand(until=found)


def find(door: Door) -> list[str]:
    """The ends of the hours that this run is to tell, the oldest first; skips where there are none."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.hours import to_tell
    from lockstep.steps.hours import keep_hours

    with door.opened("hours") as at:
        pipeline = door.folder().pipeline
        found = keep_hours(at.conn, at.broker, pipeline, datetime.now(UTC))
        with transaction(at.conn, READER) as cur:
            untold = to_tell(cur, pipeline.name, _teller())
    if not untold:
        waits = found.waiting
        raise AirflowSkipException(
            f"the hour until {waits.until:%Y-%m-%d %H:%M} UTC waits: {waits.reason}  Next: {waits.next_command}"
            if waits
            else "no other hour is over"
        )
    return [until.isoformat() for until in untold]


def say(door: Door, asset: Asset, until: datetime) -> None:
    """The asset event of one hour. It may be said again: a task that is tried again, or cleared, says the same."""
    from lockstep.adapters.postgres import COMMITTER, transaction
    from lockstep.ledger.hours import hour, insert_told

    with door.opened() as at, transaction(at.conn, COMMITTER) as cur:
        told = hour(cur, door.pipeline, until)
        if told is None:
            raise AirflowSkipException(f"the hour until {until} is not complete")
        insert_told(cur, door.pipeline, until, _teller())
    context = get_current_context()
    event = context["outlet_events"][asset]
    event.add_partitions(key_of(until))
    event.extra = told | {"from": told["from"].isoformat(), "until": told["until"].isoformat()}
    context["hour"] = key_of(until)  # type: ignore[typeddict-unknown-key]  # the task's name in its row of the grid


def _teller() -> str:
    return caller().owner
