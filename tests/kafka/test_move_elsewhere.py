"""Tests a move to another cluster: other cluster id, other offsets, the same name. Only Spark is left out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lockstep.adapters.kafka.broker import Broker
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Blocked
from lockstep.steps.changes.move import move, preview_move
from lockstep.steps.proof.verify import verify
from lockstep.steps.topics.copied import CopiedTopic
from support.scenes.here import ME
from support.scenes.mirrored import copied_once
from support.scenes.odd_logs import delete_records
from support.servers.own_broker import OwnBroker
from support.servers.servers import make_topic

if TYPE_CHECKING:
    from lockstep.core.proof.verification import PromiseCheck


@pytest.mark.long
@pytest.mark.server
def test_a_pipeline_moves_to_another_cluster_and_says_which_log_it_cannot_prove(here, produce, tmp_path):
    """The old log has aborted records and markers. Retention has removed its beginning, which the copy never had."""
    old, name = here.at.broker, here.drill.topic
    for p in range(3):
        produce(
            name,
            [(f"k{n}", json.dumps({"id": f"r{n}", "n": n})) for n in range(150 + p * 50, 200 + p * 50)],
            p,
            end="commit",
        )
        produce(name, [("a", json.dumps({"id": "aborted", "n": -1}))], p, end="abort")
        delete_records(here.drill.kafka, name, 5, p)
    here.rewrite("limits=", 'start="earliest", limits=')
    here.drain()
    read = here.drill.ask("select n from public.drill order by n")
    assert len(read) == 285

    there = OwnBroker(tmp_path / "other")
    try:
        make_topic(there.address, name, 3)
        copied_once(here.drill.kafka, name, name, 3, there.address)
        other = Broker(there.address)
        copied = CopiedTopic(name, other, f"--to-topic {name} --kafka {there.address}")
        pipeline = here.folder.pipeline
        shown = preview_move(here.at.conn, old, pipeline, copied)
        assert [each.offset < each.stream.position for each in shown.moved] == [True] * 3
        with pytest.raises(Refusal, match="is not the log that it has read, which is of cluster"):
            preview_move(here.at.conn, other, pipeline, copied)
        move(here.at.conn, old, pipeline, copied, shown.digest, ME)
        assert isinstance(here.plan(), Blocked), "the environment leads to the old cluster"

        here.at.broker, here.drill.kafka = other, there.address
        for p in range(3):
            value = json.dumps({"id": "new", "n": 300 + p})
            produce(name, [("new", value)], p, **{"bootstrap.servers": there.address})
        here.drain()
        assert here.drill.ask("select n from public.drill order by n") == [*read, (300,), (301,), (302,)]
        checks: list[PromiseCheck] = verify(here.at.conn, other, here.folder, deep=True)
        assert [str(each) for each in checks if not each.ok] == []
        left = [each.left_out for each in checks if each.name.startswith(f"{name}-0: stream")]
        cluster = shown.moved[0].stream.cluster_id
        assert left == [
            f"it moved to {name}, and its log is on cluster {cluster}, which LOCKSTEP_KAFKA does not lead to"
        ]
    finally:
        there.stop()
