"""Surrounds the two tasks of a history run that submit to Spark: their skips, and their drivers' answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.adapters.airflow.names import AirflowException, AirflowFailException, AirflowSkipException
from lockstep.airflow.door import as_airflow_errors, push
from lockstep.airflow.history import showing
from lockstep.airflow.history.asked import key_of_ask, triggering_person
from lockstep.airflow.submit import driver_answer, tell_driver
from lockstep.core.errors import said_in
from lockstep.core.states import WorkState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockstep.airflow.door import Door


def lead_to_rehearsal(door: Door) -> Callable[[Mapping[str, Any]], None]:
    """Returns a hook before the rehearsal: requires the run's own key, and tells the driver its servers."""

    def before(_context: Mapping[str, Any]) -> None:
        key_of_ask()
        tell_driver(door)

    return before


def lead_to_work(door: Door) -> Callable[[Mapping[str, Any]], None]:
    """Returns a hook before the work: skips it, without a JVM, if no request of this run is open."""

    def before(_context: Mapping[str, Any]) -> None:
        from lockstep.steps.requests import history

        with door.opened() as at:
            asked = history.run_requests(at.conn, door.pipeline, triggering_person(key_of_ask()), preview=False)
        if all(each.is_closed for each in asked):
            _push_batches(door)  # of an earlier try of this task, which died behind its last commit
            raise AirflowSkipException("nothing is left to do: no request of this run is open")
        tell_driver(door)

    return before


def look_after_rehearsal(door: Door) -> Callable[[Mapping[str, Any], Any], None]:
    """Returns a hook after the rehearsal: pushes the counts of the difference that was found, and no row."""

    def after(_context: Mapping[str, Any], _result: Any) -> None:
        from lockstep.airflow import logs
        from lockstep.steps.requests import history

        _require_done(door)
        with door.opened() as at:
            called = history.run_requests(at.conn, door.pipeline, triggering_person(key_of_ask()), preview=True)
            targets = door.folder().pipeline.targets
        logs.log_differences(door.pipeline, called)
        push(shown=showing.rehearsed(called, targets))
        push(difference={each.lane: showing.counts_of(each.rehearsal.difference) for each in called if each.rehearsal})

    return after


def look_after_work(door: Door) -> Callable[[Mapping[str, Any], Any], None]:
    """Returns a hook after the work: pushes the batches that have committed for this run."""

    def after(_context: Mapping[str, Any], _result: Any) -> None:
        _require_done(door)
        _push_batches(door)

    return after


def _push_batches(door: Door) -> None:
    from lockstep.airflow import logs
    from lockstep.steps.requests import history

    with door.opened() as at:
        batches = history.committed_batches(at.conn, door.pipeline, triggering_person(key_of_ask()))
        for row in batches:
            logs.say_batch(at, "work", row.batch_id)
    if batches:
        push(batches=[row.batch_id for row in batches], batch=batches[-1].batch_id)


def _require_done(door: Door) -> None:
    """Converts the driver's answer to Airflow's errors. A needed decision fails at once, others are retried."""
    with door.opened() as at:
        answer = driver_answer(at)
    match answer.state:
        case WorkState.DONE:
            return
        case WorkState.BLOCKED:
            raise AirflowFailException(f"{answer.reason}  Next: {answer.next_command}")
        case WorkState.REFUSED if refusal := said_in(answer.reason):
            with as_airflow_errors():
                raise refusal
        case _:
            raise AirflowException(answer.reason)
