"""Builds a pipeline's second DAG, for backfills and for manual runs: fills, replays, late records, losses and skips."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, task

from lockstep.adapters.airflow.names import CronDataIntervalTimetable, not_retried
from lockstep.airflow import submit
from lockstep.airflow.dag import assets_of, both, dag_for, door_of, give_form
from lockstep.airflow.door import RunRefused
from lockstep.airflow.history import asked, worked
from lockstep.airflow.history.approval import RecordedApproval
from lockstep.airflow.history.form import fields, reason_field
from lockstep.airflow.link import DifferenceLink, HistoryLink
from lockstep.airflow.relay import send_behind
from lockstep.airflow.watermark import show_behind
from lockstep.core.changes.approval import checked_approvers
from lockstep.core.pipeline.names import SUFFIX, topic_tags

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from lockstep.core.pipeline.definition import Pipeline

KEY = "{{ (ti.xcom_pull(task_ids='ask', key='asked') or {}).get('key', '') }}"  # the hook before the job wants one
WHEN_ASKED = "none_failed_min_one_success"
TRY_PATIENCE = timedelta(days=7)  # of each try. Then the run fails without an answer.
# Airflow backfills the intervals of a schedule only. A run for each day is the fewest that a range of days needs.
DAILY = CronDataIntervalTimetable("@daily", "UTC")
LIVE_ONLY = frozenset({"schedule", "max_active_runs", "tasks", "wake"})
HISTORY_DAG_ABOUT = """\
What pipeline `{name}` has passed, or left out: its position is never moved back, and the live DAG goes on meanwhile.

A **backfill** fills what its intervals do not cover. With the reprocess behavior *completed*, and with *failed* where a run
has failed, it replays what is covered and fills the rest, as a run does that is **cleared**. **Trigger** a run to fill,
replay, accept a loss or skip between times or offsets, to let late records count, or to change the table to its definition:
*preview* shows what would change, *approval* waits for somebody.
The run of the schedule, one a day, holds its day and does nothing.
**Skipped** means that nothing was to be done, or that it was not approved. The task's log has the reason.
"""


def dags_for(pipeline: Pipeline, *, history: Mapping[str, Any] | None = None, **settings: Any) -> tuple[DAG, DAG]:
    """Returns both DAGs of a pipeline, live and history, with common settings.

    `history` adds to those of the second.
    """
    shared = {name: value for name, value in settings.items() if name not in LIVE_ONLY}
    return dag_for(pipeline, **settings), history_for(pipeline, **(shared | dict(history or {})))


def history_for(  # noqa: PLR0913 - each is a setting that a DAG file may give
    pipeline: Pipeline,
    *,
    approval: bool = False,
    approvers: Sequence[str] = (),
    postgres_conn_id: str = "postgres_default",
    kafka_conn_id: str = "kafka_default",
    spark_conn_id: str = "spark_default",
    registry_conn_id: str = "lockstep_registry",
    default_args: dict[str, Any] | None = None,
    **settings: Any,
) -> DAG:
    """Returns the history DAG of a pipeline. `settings` for Airflow's `DAG` override the defaults here.

    `approval` ticks the form's box from the start. `approvers` names the users who may approve, by their ids. A replay
    or an accepted loss then always waits for one of them.
    """
    named = checked_approvers(approvers)
    door = door_of(pipeline, postgres_conn_id, kafka_conn_id, registry_conn_id)
    ours: dict[str, Any] = both(pipeline, default_args) | {
        "max_active_runs": 3,
        "tags": ["lockstep", "history", *topic_tags(pipeline.topic)],
        "description": f"What {pipeline.name} has passed or left out: backfill, replay, loss and skip",
        "doc_md": HISTORY_DAG_ABOUT.format(name=pipeline.name),
    }
    with DAG(f"{pipeline.name}{SUFFIX}", schedule=settings.pop("schedule", DAILY), **(ours | settings)) as dag:
        # A request that contradicts itself is not tried again.
        @task.branch(**not_retried(RunRefused))  # type: ignore[untyped-decorator]
        def ask() -> str | None:
            """Records the request. Accepts a loss or skips if no approval is needed."""
            return asked.open_or_decide(door, named)

        rehearse = submit.submitted(
            door,
            spark_conn_id,
            "work_request.py",
            ["rehearse", KEY],
            task_id="rehearse",
            pre_execute=worked.lead_to_rehearsal(door),
            post_execute=worked.look_after_rehearsal(door),
            doc="Finds what would change, row by row, and changes nothing.",
        )
        approve = RecordedApproval(
            task_id="approve",
            door=door,
            approvers=named,
            subject=f"{pipeline.name}: approval",  # the task says more, when it knows what is asked for
            params={"reason": reason_field("The ledger keeps it.")},
            response_timeout=TRY_PATIENCE,
            trigger_rule=WHEN_ASKED,
            pre_execute=_unless_nobody_is_asked,
            doc="Waits for another person, who has read what would change, and records the approval.",
        )

        @task
        def approved() -> None:
            """Opens the request that was shown, once the ledger holds the approval."""
            asked.approved(door)

        work = submit.submitted(
            door,
            spark_conn_id,
            "work_request.py",
            ["work", KEY],
            task_id="work",
            trigger_rule=WHEN_ASKED,
            pre_execute=worked.lead_to_work(door),
            post_execute=worked.look_after_work(door),
            doc="Does what is asked for, batch by batch, each with its offsets in one transaction.",
        )

        @task(outlets=assets_of(pipeline), trigger_rule=WHEN_ASKED)
        def announce() -> None:
            """Announces the commits of any try of `work`: asset event, lineage, metrics."""
            asked.announce_run(door, assets_of(pipeline))

        begin, end = ask(), announce()
        begin >> rehearse >> approve >> approved() >> work >> end
        begin >> [approve, work, end]
        send_behind(door, pipeline, show_behind(door, pipeline, end))
        for each in (work, dag.get_task("announce")):
            each.operator_extra_links = (HistoryLink(),)
        rehearse.operator_extra_links = (DifferenceLink(),)
    if "params" not in settings:
        give_form(dag, fields(approval=approval or bool(named), windows=bool(pipeline.windows)))
    return dag


def _unless_nobody_is_asked(_context: Context) -> None:
    asked.asks_approval()
