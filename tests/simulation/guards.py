"""Lists the guards of the promises, each with a way to disable it: in Python, a query, or the database."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from lockstep.core.errors import BadData
from lockstep.core.planning import live as planning
from lockstep.ledger.batch import attempts, commit, plan
from lockstep.ledger.changes import requests
from lockstep.ledger.staging import contents
from lockstep.steps.batch import commit as commit_step
from lockstep.steps.batch import commit_batch, stage, validate
from lockstep.targets import append

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest import MonkeyPatch  # noqa: PT013 - a name in an annotation

    from simulation.scene import Scene

NO_ROW = "select 1 where false"
Off: TypeAlias = "Callable[[Scene, MonkeyPatch], None]"


def dropped(*statements: str) -> Off:
    """Disables a constraint or a trigger by dropping it from the database."""

    def off(scene: Scene, _: MonkeyPatch) -> None:
        for statement in statements:
            scene.ask(statement)

    return off


def unsaid(queries: Mapping[str, str], name: str, text: str | None = None, instead: str = "") -> Off:
    """Disables a part of a query (or all of it) by replacing its text."""

    def off(_: Scene, monkeypatch: MonkeyPatch) -> None:
        monkeypatch.setitem(queries, name, instead if text is None else queries[name].replace(text, instead))

    return off


def instead(module: Any, name: str, function: Callable[..., Any]) -> Off:
    """Disables a function by putting another one in its place."""
    return lambda _, monkeypatch: monkeypatch.setattr(module, name, function)


def _only_lock(cur, attempt) -> None:
    attempts.lock_batch(cur, attempt.batch_id)


def _log_starts_unseen(at, _pipeline, batch_id: int, _before: Any) -> dict[int, int]:
    view = at.broker.view("house.v1")
    with at.conn, at.conn.cursor() as cur:
        ranges, _ = attempts.ranges_and_logs(cur, batch_id)
    return {r.stream_id: view.bounds[r.offsets.topic_partition.partition].log_start for r in ranges}


def _any_log(scene: Scene, monkeypatch: MonkeyPatch) -> None:
    planned = attempts.ranges_and_logs

    def today(cur: Any, batch: int) -> Any:
        return planned(cur, batch)[0], {scene.log.topic: {(scene.log.cluster_id, scene.log.topic_id)}}

    monkeypatch.setattr(attempts, "ranges_and_logs", today)


class _Blind:
    """The commit's statements, without the one that finds the caller's own commit."""

    def __getattr__(self, name: str) -> Any:
        return (lambda _cur, _batch: None) if name == "committed_by" else getattr(commit, name)


def _rows_uncounted(_: Scene, monkeypatch: MonkeyPatch) -> None:
    publish = append.publish

    def unchecked(cur, target, rows) -> dict[str, int]:
        with suppress(BadData):
            publish(cur, target, rows)
        return {"inserted": rows.count}

    monkeypatch.setattr(append, "publish", unchecked)


OFF: dict[str, Off] = {
    # Who may commit.
    "fence": instead(attempts, "require_newest", _only_lock),
    "older_closed": unsaid(attempts.Q, "supersede_older", instead=NO_ROW),
    "newest_attempt": dropped("drop trigger if exists newest_attempt on lockstep.commit"),
    # Where a batch may begin.
    "claimed_at_position": unsaid(plan.Q, "claim_ranges", "s.position = lower(r.offsets) and "),
    "positions": instead(commit, "require_positions", lambda _cur, _attempt: None),
    "compare_and_set": unsaid(commit.Q, "move_positions", " and s.position = lower(r.offsets)"),
    "no_gap": dropped("drop trigger if exists no_gap on lockstep.stream"),
    "covered_stays": dropped("drop trigger if exists no_gap on lockstep.coverage"),
    # Whose the offsets are.
    "unfinished": instead(plan, "unfinished_batches", lambda _cur, _pipeline, _key: []),
    "one_unfinished_live_batch": dropped("drop index if exists lockstep.one_unfinished_live_batch"),
    "taken": instead(requests, "taken_offsets", lambda _cur, _request: []),
    "claimed_once": dropped("alter table lockstep.claim drop constraint if exists claimed_once"),
    "second_look": unsaid(plan.Q, "surprised_claims", instead=NO_ROW),
    "expected_owner": unsaid(commit.Q, "give_way", "and c.batch_id is not distinct from k.expects_batch"),
    "free_offsets": unsaid(requests.Q, "free_offsets", "c.kind <> 'skipped'", "c.kind = 'batch'"),
    "in_the_way": unsaid(
        commit.Q, "not_as_expected", "where k.batch_id = %(batch_id)s and c.offsets", "where false and c.offsets"
    ),
    "no_offset_twice": dropped("alter table lockstep.coverage drop constraint if exists no_offset_twice"),
    # Whole or not at all.
    "counts": instead(contents, "require_staged_counts", lambda _attempt, _row, _found: None),
    "digests": instead(contents, "require_digests", lambda _attempt, _row, _found: None),
    "contents_unchanged": dropped("drop trigger if exists contents_unchanged on lockstep.commit"),
    "rows_counted": _rows_uncounted,
    "covered_by_commit": dropped("alter table lockstep.coverage drop constraint if exists covered_by_commit"),
    "committed_whole": dropped("drop trigger if exists committed_whole on lockstep.batch"),
    "fit": instead(stage, "require_fit", lambda _cur, _pipeline, _columns: None),
    "target_key": dropped("alter table public.house drop constraint if exists house_pkey"),
    # True answers.
    "asks_the_witness": instead(commit_step, "was_committed", lambda _at, _attempt: False),
    "finds_its_own": instead(commit_batch, "ledger", _Blind()),  # type: ignore[arg-type]
    # The same log.
    "plan_looks_at_the_log": instead(planning, "another_log", lambda _name, _streams, _view: None),
    "stage_looks_at_the_log": _any_log,
    "log_start_after": instead(validate, "log_starts", _log_starts_unseen),
    "read_whole": dropped("drop trigger if exists newest_attempt on lockstep.commit"),
}
