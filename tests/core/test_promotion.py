"""A promoted transform is the only one that a plan accepts. A canary's figures are taken only for the file they are of."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lockstep.core.changes.canary import figures
from lockstep.core.changes.promotion import Promotion, not_deployed, transform_digest
from lockstep.core.health.health import HealthFacts, judge_health
from lockstep.core.offsets import Bounds, OffsetRange, Stream, StreamRange, TopicPartition, TopicView
from lockstep.core.pipeline.definition import Append, Json, Pipeline
from lockstep.core.planning.decisions import Blocked, Call, Caller, Done, Idle, Resume, Situation, Start, Unfinished
from lockstep.core.planning.live import decide
from lockstep.core.planning.requests import Request, RequestSituation, decide_request
from lockstep.core.states import BatchState, Lane
from support.oracles.next_commands import faults_of

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SOURCE = "def transform(records):\n    return records\n"
PIPELINE = Pipeline("orders", "t", Json("id string"), Append("public.orders"))
MADE = Promotion(
    17,
    "ann@here",
    "cents",
    NOON,
    transform_digest(SOURCE),
    "new.py",
    ({"topic": "t", "partition": 0, "offset": 5},),
    None,
)
ELSEWHERE = Blocked("another transform", "deploy it")
WHERE = TopicPartition("t", 0)
STREAM = Stream(1, WHERE, "cluster", "id", 0, 0, 0, 5)
VIEW = TopicView("cluster", "t", "id", {0: Bounds(0, 9)})
OPEN = Unfinished(7, "me", False, NOON, False, (StreamRange(1, OffsetRange(WHERE, 5, 9)),), (("cluster", "t", "id"),))  # noqa: FBT003
REPLAY = Request(3, "orders", Lane.REPLAY, 1, is_preview=False, is_closed=False, windows=(), who="ada", why="w")


def test_a_transform_is_named_by_the_sum_of_its_file(tmp_path):
    (tmp_path / "new.py").write_text(SOURCE)
    assert transform_digest(SOURCE) == hashlib.sha256((tmp_path / "new.py").read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("promotion", "source", "here"),
    [
        (None, None, None),
        (None, SOURCE, None),
        (MADE, SOURCE, None),
        (MADE, SOURCE + " ", f"has {transform_digest(SOURCE + ' ')[:16]}"),
        (MADE, None, "has no transform.py"),
    ],
    ids=["nothing promoted, no file", "nothing promoted", "the same", "one blank more", "no file"],
)
def test_a_folder_with_another_transform_is_blocked_with_both_names(promotion, source, here):
    found = not_deployed("orders", promotion, source)
    if here is None:
        assert found is None
        return
    assert found == Blocked(
        f"orders: ann@here promoted new.py ({transform_digest(SOURCE)[:16]}) in decision 17, and the folder here {here}; "
        "no other transform is committed",
        "deploy new.py as transform.py, or lockstep promote orders --withdraw --reason ...",
    )
    assert faults_of(found.next_command) == []


@pytest.mark.parametrize(
    ("situation", "without"),
    [(Situation(VIEW, (STREAM,)), Start), (Situation(VIEW, (STREAM,), unfinished=OPEN), Resume)],
    ids=["a new batch", "an unfinished one"],
)
def test_no_live_batch_begins_or_goes_on_under_another_transform(situation, without):
    assert isinstance(decide(PIPELINE, situation, Caller("me")), without)
    assert decide(PIPELINE, replace(situation, not_deployed=ELSEWHERE), Caller("me")) == ELSEWHERE


def test_no_replay_begins_or_goes_on_under_another_transform():
    at = RequestSituation(REPLAY, VIEW, (STREAM,), (), own=replace(OPEN, lane="replay", request_id=3))  # type: ignore[arg-type]
    assert decide_request(PIPELINE, at, Caller("me")) == Resume(7)
    assert decide_request(PIPELINE, replace(at, not_deployed=ELSEWHERE), Caller("me")) == ELSEWHERE
    assert isinstance(decide_request(PIPELINE, RequestSituation(REPLAY, VIEW, (STREAM,), ()), Caller("me")), Idle)


def test_what_is_committed_is_done_whatever_is_promoted():
    situation = Situation(VIEW, (STREAM,), call=Call(7, BatchState.COMMITTED), not_deployed=ELSEWHERE)
    assert decide(PIPELINE, situation, Caller("me", key="run")) == Done(7)


def test_a_pipeline_that_waits_for_its_transform_is_blocked():
    seen = {"streams": [], "warnings": [], "behind_after_seconds": None}
    known = HealthFacts("orders", planned=True, paused=False, not_deployed=ELSEWHERE)
    assert [(each.state, each.message, each.next) for each in judge_health(known, seen)] == [
        ("blocked", "another transform", "deploy it")
    ]


COUNTS = {"same": 4, "changed": 1, "only_live": 0, "only_canary": 2}
SAID: dict[str, Any] = {
    "pipeline": "orders",
    "transform": "new.py",
    "definitions": {"live": "aa", "canary": "bb"},
    "ok": True,
    "targets": {"public.orders": COUNTS},
    "rejects": {"live": 3, "canary": 0},
    "batches": [{"batch": 41, "samples": [{"live": {"name": "Ada"}}]}, {"batch": 42, "samples": []}],
}


def test_figures_are_the_counts_of_a_canary_and_no_value_of_a_record():
    assert figures(SAID, "orders", "bb") == {
        "live": "aa",
        "batches": [41, 42],
        "targets": {"public.orders": COUNTS},
        "rejects": {"live": 3, "canary": 0},
    }


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ([], "it is not what lockstep canary --json prints"),
        ("text", "it is not what lockstep canary --json prints"),
        ({}, "it is not what lockstep canary --json prints"),
        (SAID | {"targets": []}, "it is not what lockstep canary --json prints"),
        (SAID | {"targets": {"public.orders": {}}}, "its rows were not compared"),
        (SAID | {"rejects": {}}, "its rows were not compared"),
        (SAID | {"batches": [{}]}, "it is not what lockstep canary --json prints"),
        (SAID | {"pipeline": "shop"}, "it is of the pipeline shop"),
        (SAID | {"definitions": {"live": "aa", "canary": "cc"}}, "it has tried definition cc, and this file makes bb"),
        (SAID | {"ok": False}, "a run would refuse the canary's rows"),
        (SAID | {"ok": "yes"}, "a run would refuse the canary's rows"),
    ],
    ids=[
        *("a list", "a text", "nothing", "no tables", "a table without counts", "no rejects", "a batch without number"),
        *("another pipeline", "another file", "refused", "no truth"),
    ],
)
def test_a_document_that_is_not_of_this_file_gives_no_figures(document, why):
    with pytest.raises(ValueError, match=why):
        figures(document, "orders", "bb")
