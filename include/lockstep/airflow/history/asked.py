"""Runs the tasks of a history run that need no Spark: the request, its approval, and the announcement."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from lockstep.adapters.airflow.names import AirflowFailException, AirflowRescheduleException, AirflowSkipException
from lockstep.airflow import witness
from lockstep.airflow.door import NOT_HANDED_ON, OWN_PAGE, push, refused_at_once
from lockstep.airflow.history import showing, tables
from lockstep.core.changes.approval import approver_of, refusal
from lockstep.core.changes.person import Person
from lockstep.core.errors import BadData
from lockstep.core.planning.history import (
    HistoryAction,
    HistoryRun,
    RunMode,
    read_form,
    require_approval,
    waits_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow.sdk import Asset

    from lockstep.airflow.door import Door
    from lockstep.core.planning.history import RequestForm
    from lockstep.core.planning.requests import Decided, Request
    from lockstep.steps.context import Context

log = logging.getLogger(__name__)
UNSAID = "no reason given"


def open_or_decide(door: Door, approvers: Sequence[str] = ()) -> str | None:
    """Opens the run's requests, or takes its decision. Returns the next task, or None if there is none.

    Waits for the end of an open interval. Skips the run if there is nothing to do.
    """
    from lockstep.steps.requests import history
    from lockstep.steps.requests.edges import CLOCK_GRACE
    from lockstep.steps.requests.run_key import key_of_run

    run, now = this_run(), datetime.now(UTC)
    if not run.asks:
        raise AirflowSkipException(showing.NOTHING_ASKED)
    with refused_at_once():
        asked = read_form(run)
        require_approval(asked, approvers)
        closes = waits_until(asked, run, now, CLOCK_GRACE)
    if closes is not None:
        log.info("Records up to %s may still come until %s: this run waits for then.", closes - CLOCK_GRACE, closes)
        raise AirflowRescheduleException(closes)  # type: ignore[no-untyped-call]  # Airflow's signature
    log.info("%s", showing.format_asked(run, asked))
    with door.opened("ask") as at:
        key = key_of_run(at.conn, door.pipeline, run)
        push(asked={"key": key, "action": asked.action, "mode": asked.mode})
        if asked.lanes:
            opened = history.open_run_requests(at, door.folder(), asked, triggering_person(key, asked.reason), now)
            _go_on_with(opened, door.pipeline, asked)
            return "work" if asked.mode == RunMode.DO else "rehearse"
        if asked.action == HistoryAction.MIGRATE:
            shown = tables.show_proposed(at, door.folder(), asked)
            push(shown=shown)
            return "approve" if asked.mode == RunMode.APPROVE else None
        if asked.mode == RunMode.DO:
            _decided(door, at, asked, run)
            return None
        push(shown=showing.losses(history.given_up_offsets(at, door.folder().pipeline, asked)))
        return "approve" if asked.mode == RunMode.APPROVE else None


def shown_to_approver(door: Door) -> tuple[str, str]:
    """Returns the request with its author, and the changes it would make, by ledger and broker now."""
    from lockstep.steps.requests import history

    run = this_run()
    with door.opened() as at:
        asked, pipeline = read_form(run), door.folder().pipeline
        if asked.action == HistoryAction.MIGRATE:
            found = tables.show_proposed(at, door.folder(), asked)
        elif not asked.lanes:
            found = showing.losses(history.given_up_offsets(at, pipeline, asked))
        else:
            called = history.run_requests(at.conn, pipeline.name, triggering_person(key_of_ask()), preview=True)
            wider = showing.format_widened(history.widened_stretches(at.conn, asked, called))
            admitted = showing.ADMITTED if asked.action == HistoryAction.ADMIT_LATE else ""
            found = admitted + wider + showing.rehearsed(called, pipeline.targets)
    subject = f"{door.pipeline}: {asked.action}, asked for by {asker() or 'airflow'}"
    return subject, showing.format_request(asked, found)


def record_approval(door: Door, response: Mapping[str, Any], approvers: Sequence[str]) -> None:
    """Records the approval in the ledger, by Airflow's record. Records an invalid approval as refused."""
    from lockstep.steps.requests import history

    why = (response.get("params_input") or {}).get("reason") or "approved as shown"
    approver = approver_of(response)
    key = key_of_ask()
    with door.opened() as at:
        asked = read_form(this_run())
        approval = history.Approval(asked, asker(), approver.document() if approver else None)
        name = approver.name if approver else "nobody"
        if (reason := refusal(asker(), approver, approvers)) is not None:
            history.refuse_approval(at.conn, door.pipeline, approval, triggering_person(key, reason, name))
            raise BadData(f"{door.pipeline}: the approval is refused: {reason}", next_command="trigger the run again")
        history.approve(at.conn, door.folder(), approval, triggering_person(key, why, name))


def approved(door: Door) -> None:
    """Opens the requests that were shown, or accepts the loss.

    Refuses without an approval of this run in the ledger.
    """
    from lockstep.steps.requests import history

    run, key = this_run(), key_of_ask()
    with door.opened() as at:
        asked, folder = read_form(run), door.folder()
        if not history.is_approved(at.conn, door.pipeline, key, asked):
            _refuse_forged(door, at, asked)
        if asked.action == HistoryAction.MIGRATE:
            _say_decided(tables.apply_approved(at, folder, asked, triggering_person(run.run_id, asked.reason)), run)
        elif asked.lanes:
            _go_on_with(history.open_approved(at, folder, triggering_person(key, asked.reason)), door.pipeline, asked)
        else:
            _decided(door, at, asked, run)


def announce_run(door: Door, assets: Sequence[Asset]) -> None:
    """Announces every batch that was committed for this run: asset event, metrics, lineage."""
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.airflow import logs
    from lockstep.ledger.batch.commit import committed_ranges
    from lockstep.steps.requests import history

    with door.opened("announce") as at:
        pipeline = door.folder().pipeline
        batches = history.committed_batches(at.conn, pipeline.name, triggering_person(key_of_ask()))
        with transaction(at.conn, READER) as cur:
            ranges = {each.batch_id: [r._asdict() for r in committed_ranges(cur, each.batch_id)] for each in batches}
        if not batches:
            raise AirflowSkipException("nothing was committed for this run")
        every = [row for each in ranges.values() for row in each]
        for asset in assets:
            OWN_PAGE.emit(asset, witness.news_of(batches[-1].batch_id, batches[-1].token, every, batches=list(ranges)))
        witness.measure(pipeline.name, every, ())
        traced = [witness.trace(at, pipeline, batch.batch_id, batch.token, ranges[batch.batch_id]) for batch in batches]
    logs.say_announced(pipeline.name, list(ranges), assets, every, (), is_traced=all(traced))


def this_run() -> HistoryRun:
    """Returns Airflow's facts of this task's run."""
    context = get_current_context()
    run = context["dag_run"]
    begin, end = run.data_interval_start, run.data_interval_end
    interval = (begin.astimezone(UTC), end.astimezone(UTC)) if begin and end else None
    facts = (run.run_id, str(run.run_type.value), run.clear_number or 0, interval)
    return HistoryRun(*facts, params=dict(context["params"]), given=run.conf or {}, started=run.start_date)


def key_of_ask() -> str:
    """Returns the key of this run's `ask`. Clearing a later task alone also counts as a clear of the run."""
    said, run = _said_by_ask(), this_run()
    if not run.has_key(said["key"]):  # an XCom can be rewritten, and must not lead to another run's approval
        raise AirflowFailException(f"{said['key']!r} is no key of run {run.run_id}: the XCom `asked` was changed")
    return said["key"]


def asker() -> str | None:
    """Returns the user who triggered the run, as Airflow recorded it."""
    name: str | None = get_current_context()["dag_run"].triggering_user_name
    return name


def triggering_person(key: str, why: str | None = None, who: str | None = None) -> Person:
    """Returns the triggering user, or `who`, as the ledger records a person."""
    dag_run = get_current_context()["dag_run"]
    return Person(f"{who or dag_run.triggering_user_name or 'airflow'}@{dag_run.dag_id}", why or UNSAID, key)


def asks_approval() -> None:
    """Skips the task unless the run waits for an approval."""
    if _said_by_ask()["mode"] != RunMode.APPROVE:
        raise AirflowSkipException("nobody is asked for approval")


def _said_by_ask() -> dict[str, str]:
    said: dict[str, str] | None = get_current_context()["ti"].xcom_pull(task_ids="ask", key="asked")
    if said is None:
        raise AirflowFailException(f"ask has asked for nothing: {NOT_HANDED_ON}  Next: clear the run")
    return said


def _refuse_forged(door: Door, at: Context, asked: RequestForm) -> None:
    """Records that the task `approve` is marked done without an approval, with the user that its XCom names."""
    from lockstep.steps.requests import history

    claim = get_current_context()["ti"].xcom_pull(task_ids="approve")
    claimed = approver_of(claim) if isinstance(claim, Mapping) else None
    reason = "the ledger holds no approval of this run, whatever its XCom says"
    approval = history.Approval(asked, asker(), None, claimed.document() if claimed else None)
    history.refuse_approval(at.conn, door.pipeline, approval, triggering_person(key_of_ask(), reason, "nobody"))
    raise BadData(f"{door.pipeline}: {asked.action} is refused: {reason}", next_command="trigger the run again")


def _decided(door: Door, at: Context, asked: RequestForm, run: HistoryRun) -> None:
    from lockstep.steps.requests import history

    once = triggering_person(run.run_id, asked.reason)  # clearing the run does not skip once more
    _say_decided(history.decide_history(at, door.folder().pipeline, asked, once, datetime.now(UTC)), run)


def _say_decided(done: Decided, run: HistoryRun) -> None:
    """Logs what a decision has changed. Skips the task if that is nothing, unless an earlier try may have done it."""
    for line in done.lines:
        log.info(line)
    push(decided=done.lines)
    is_retry = not run.clear_number and get_current_context()["ti"].try_number > 1
    if not done.changed and not is_retry:
        raise AirflowSkipException("; ".join(done.lines))


def _go_on_with(opened: Iterable[Request], pipeline: str, asked: RequestForm) -> None:
    from lockstep.airflow import logs

    found = list(opened)
    if not found:
        raise AirflowSkipException(f"{pipeline}: {showing.format_nothing(asked, this_run())}")
    logs.say_requests(pipeline, asked.action, found)
    push(requests=[each.request_id for each in found])
    push(offsets=[str(item.offsets) for each in found for item in each.windows])
