"""Announces complete hours one by one: an asset event for each, with the hour as partition key."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk import Asset, get_current_context, task

from lockstep.adapters.airflow.names import AirflowSkipException
from lockstep.airflow.door import task_caller
from lockstep.core.planning.hours import key_of

if TYPE_CHECKING:
    from airflow.sdk import XComArg

    from lockstep.airflow.door import Door
    from lockstep.core.pipeline.definition import Pipeline


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
        """Records the hours that are complete by now. Returns those to announce: new ones, then changed ones."""
        return find_hours(door)

    @task(outlets=[asset], max_active_tis_per_dagrun=1, map_index_template="{{ hour }}")
    def say_hour(until: str) -> None:
        """Announces one complete hour, with the offsets and the batches that prove it."""
        emit_hour(door, asset, datetime.fromisoformat(until))

    found = hours()
    behind >> found
    say_hour.expand(until=found)


def find_hours(door: Door) -> list[str]:
    """Records complete hours and returns the ends of those to announce: new ones, then those that have changed.

    Skips the task if there are none.
    """
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.airflow import logs
    from lockstep.ledger.views.hours import to_tell
    from lockstep.steps.batch.hours import keep_hours

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
    ends = [until.isoformat() for until in untold]
    logs.log_facts(
        "hours", [f"to tell: the hour until {end}" for end in ends], {"pipeline": door.pipeline, "hours": ends}
    )
    return ends


def emit_hour(door: Door, asset: Asset, until: datetime) -> None:
    """Emits the asset event of one hour, with its revision. A repeated or cleared task emits the same event again."""
    from lockstep.adapters.postgres import COMMITTER, transaction
    from lockstep.airflow import logs
    from lockstep.ledger.views.hours import hour, owners_of_hour, tell
    from lockstep.steps.inspect.lines import format_offsets

    with door.opened() as at, transaction(at.conn, COMMITTER) as cur:
        revision = tell(cur, door.pipeline, until, _teller())
        told = hour(cur, door.pipeline, until)
        batches = owners_of_hour(cur, door.pipeline, until)
    if told is None:
        raise AirflowSkipException(f"the hour until {until} is not complete")
    if revision is None:
        raise AirflowSkipException(f"another run has announced the hour until {until}")
    extra = {
        "from": told["from"].isoformat(),
        "until": told["until"].isoformat(),
        "revision": revision,
        "batches": batches,
        "offsets": told["offsets"],
        "losses": told["losses"],
    }
    context = get_current_context()
    event = context["outlet_events"][asset]
    event.add_partitions(key_of(until))
    event.extra = extra
    offsets = [f"  {part['topic']}-{part['partition']}  {format_offsets(part)}" for part in told["offsets"]]
    again = f", revision {revision}" if revision > 1 else ""
    head = f"the hour {key_of(until)} is complete{again}: batches {', '.join(map(str, batches))}"
    logs.log_facts("say_hour", [head, *offsets], {"pipeline": door.pipeline, "hour": key_of(until)} | extra)
    context["hour"] = key_of(until)  # type: ignore[typeddict-unknown-key]  # the task's name in its row of the grid


def _teller() -> str:
    return task_caller().owner
