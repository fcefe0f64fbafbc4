"""Announces complete hours one by one: an asset event for each, with the hour as partition key."""

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
    """Returns the asset of a pipeline's complete hours.

    DAGs that run once for each hour use it with `PartitionedAssetTimetable`.
    """
    table = pipeline.first.table
    return Asset(name=f"{table}.hours", uri=f"lockstep://{table}/hours", group="lockstep")


def tell_hours(door: Door, asset: Asset, behind: XComArg) -> None:
    """Adds two tasks behind a run: one finds the hours to announce, one announces each.

    They also run if the run had nothing to do.
    """

    @task(trigger_rule="none_failed")
    def hours() -> list[str]:
        """Records the hours that are complete by now. Returns those that are not announced yet."""
        return find(door)

    @task(outlets=[asset], max_active_tis_per_dagrun=1, map_index_template="{{ hour }}")
    def say_hour(until: str) -> None:
        """Announces one complete hour, with the offsets and the batches that prove it."""
        say(door, asset, datetime.fromisoformat(until))

    found = hours()
    behind >> found
    say_hour.expand(until=found)


def find(door: Door) -> list[str]:
    """Records complete hours and returns the ends of those to announce, the oldest first.

    Skips the task if there are none.
    """
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
    """Emits the asset event of one hour. A repeated or cleared task emits the same event again."""
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
