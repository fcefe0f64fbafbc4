"""Tests the pages of a pipeline that has moved to a copy of its topic: before its first batch there, and behind it."""

from __future__ import annotations

import pytest

from lockstep.steps.changes.move import move, preview_move
from lockstep.steps.topics.copied import CopiedTopic
from support.scenes.here import ME
from support.scenes.mirrored import copied_once
from web.answers import said


@pytest.mark.long
def test_every_page_answers_for_the_old_topic_and_for_the_copy(pages, dags, here, produce, topic):
    dags(drill=False)
    at, old, copy = here.at, here.drill.topic, topic(partitions=3)
    here.drain()
    copied_once(here.drill.kafka, old, copy, 3)
    copied = CopiedTopic(copy, at.broker, f"--to-topic {copy}")
    digest = preview_move(at.conn, at.broker, here.folder.pipeline, copied).digest
    move(at.conn, at.broker, here.folder.pipeline, copied, digest, ME)

    def whole(newest: str) -> None:
        for page in ("", "dags/drill/batches", "dags/drill/batches/1", "dags/drill/coverage?along=time"):
            assert pages(f"/{page}").status_code == 200, page
        pages("/dags/drill/coverage")  # asks the broker, which answers beside the page
        assert f"{copy}, offsets " in said(pages("/dags/drill/coverage?along=offsets"))
        assert f"{old}-0" in said(pages("/dags/drill/batches/1"))
        traced = pages(f"/dags/drill/record?topic={old}&partition=0&offset=3")
        assert f"{old}-0 offset 3" in said(traced)
        assert "batch 1" in said(traced)
        assert f"{newest}-0 offset 3" in said(pages("/dags/drill/record?partition=0&offset=3"))

    whole(newest=old)  # the last definition that has committed
    here.rewrite(old, copy)
    produce(copy, [("k", '{"id": "x", "n": 150}')], 0)
    here.drain()
    whole(newest=copy)
    assert f"{copy}-0" in said(pages("/dags/drill/batches/2"))
