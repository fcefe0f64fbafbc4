"""Tests taking over from a real AvailableNow query of Structured Streaming, at the end of its last committed batch."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial

import pytest
from pyspark.errors import StreamingQueryException

from lockstep.adapters.kafka.checkpoints import standing_of_checkpoint
from lockstep.core.changes.person import Person
from lockstep.core.errors import Refusal
from lockstep.engine.spark.session import session
from lockstep.steps.changes.adopt import Source, adopt, preview_adoption

ME = Person("me", "the query ends")


class Query:
    """A query of somebody else. It keeps each row with its offset, and fails in the batch `fails` before it has any."""

    def __init__(self, kafka, topic, checkpoint) -> None:
        self.rows: list[tuple] = []
        self.at: list[tuple] = []
        self.options = {
            "kafka.bootstrap.servers": kafka,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "40",
        }
        self.checkpoint = checkpoint

    def run(self, fails: int | None = None) -> None:
        def keep(batch, number: int) -> None:
            if number == fails:
                raise RuntimeError("the sink is away")
            for row in batch.collect():
                value = json.loads(row.value)
                self.rows.append((value["id"], value["n"]))
                self.at.append((row.partition, row.offset))

        stream = session().readStream.format("kafka").options(**self.options).load().writeStream
        query = stream.option("checkpointLocation", str(self.checkpoint)).foreachBatch(keep).trigger(availableNow=True)
        query.start().awaitTermination()


def records(begin: int, end: int) -> list[tuple[str, str]]:
    return [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(begin, end)]


@pytest.mark.long
def test_every_record_is_the_querys_or_ours(pipeline, topic, produce, tmp_path):
    name = topic(partitions=3)
    produce(name, records(0, 100))
    loaded = pipeline(name, "id string, n int", "id text, n int")
    at, _, folder = loaded.parts()
    query = Query(loaded.kafka, name, tmp_path / "checkpoint")
    source = Source(lambda _: standing_of_checkpoint(query.checkpoint, loaded.name, name), {}, 0.1)
    show = partial(preview_adoption, at.conn, at.broker, folder.pipeline, source)

    with pytest.raises(StreamingQueryException, match="the sink is away"):
        query.run(fails=2)
    with pytest.raises(
        Refusal, match=r"its query has planned batch 2 and not committed it, so rows of .* may be in"
    ) as said:
        show()
    kept = {p: max((o + 1 for q, o in query.at if q == p), default=0) for p in range(3)}
    ends = ",".join(f"{p}:{end}" for p, end in kept.items())
    assert (
        said.value.next_command
        == f"let the query end it, or if none is there: lockstep adopt {loaded.name} --at {ends}"
    )

    with suppress(StreamingQueryException):  # Spark 4.1.1: metrics of a batch that is done again, behind its commit
        query.run()
    query.run()
    assert sorted(n for _, n in query.rows) == list(range(100))
    produce(name, records(100, 160))
    shown = show()
    assert (shown.reader.batch, sum(shown.starts[name].values())) == (2, 100)

    produce(name, records(160, 170))
    query.run()
    with pytest.raises(Refusal, match=f"{shown.digest} is not what is shown now"):
        adopt(at.conn, at.broker, folder.pipeline, source, shown.digest, (), ME)
    produce(name, records(170, 300))
    begun = adopt(at.conn, at.broker, folder.pipeline, source, show().digest, (), ME)
    assert begun.changed
    loaded.run_until_idle()

    ours = loaded.ask(f"select id, n from public.{loaded.name}")
    assert sorted(n for _, n in ours) == list(range(170, 300))
    assert sorted([*query.rows, *ours], key=lambda row: row[1]) == [(f"r{n}", n) for n in range(300)]
    places = loaded.ask(
        f"select partition, _offset from public.{loaded.name} join lockstep.stream on stream_id = _stream"
    )
    assert len({*query.at, *places}) == len(query.at) + len(places) == 300
    assert loaded.violations() == []
