"""Measures a plan over a pattern of many topics: the first, one that finds records, one that finds none, and a new topic.

Usage: python bench/many_topics.py [TOPICS [PARTITIONS]]. It starts a broker and a ledger of its own. Exits 1 above half a
second for a plan of 200 topics.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lockstep.adapters.folders import load_from
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.core.changes.person import Person
from lockstep.core.planning.decisions import Caller
from lockstep.steps.batch.plan import plan
from lockstep.steps.changes.decisions import abandon
from stack import Stack

if TYPE_CHECKING:
    from psycopg2.extensions import connection

    from lockstep.core.pipeline.folder import PipelineFolder

MOST_SECONDS = 0.5
ROUNDS = 5
DEFINITION = """from lockstep import Append, Json, Pipeline, Topics
P = Pipeline("many", Topics(r"many[.].*"), Json("id string"), Append("public.many"))
"""


def make_topics(kafka: str, names: list[str], partitions: int) -> None:
    """Makes topics, and waits until each has a leader."""
    admin = AdminClient({"bootstrap.servers": kafka})
    for made in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        made.result(60)
    while any(p.leader < 0 for n in names for p in admin.list_topics(n, timeout=30).topics[n].partitions.values()):
        time.sleep(0.1)


def produce(kafka: str, names: list[str]) -> None:
    """Sends a record to each topic."""
    producer = Producer({"bootstrap.servers": kafka})
    for name in names:
        producer.produce(name, b'{"id": "x"}')
    producer.flush(60)


def planned(conn: connection, broker: Broker, folder: PipelineFolder) -> tuple[float, int | None, str]:
    """Makes a plan. Returns its seconds, its batch, and the decision's name."""
    begun = time.perf_counter()
    done = plan(conn, broker, folder, Caller("bench"), datetime.now(UTC))
    return time.perf_counter() - begun, done.batch_id, type(done.decision).__name__


def main() -> int:
    """Measures, prints a line for each kind of plan, and returns the exit code."""
    count, partitions = (int(word) for word in (sys.argv[1:] + ["200", "1"][len(sys.argv) - 1 :])[:2])
    names = [f"many.{n:04}" for n in range(count)]
    took: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as home:
        stack = Stack(Path(home))
        try:
            folder_path = Path(home) / "pipelines" / "many"
            folder_path.mkdir(parents=True)
            (folder_path / "__init__.py").write_text(DEFINITION)
            make_topics(stack.kafka, names, partitions)
            with closing(connect(stack.environ["LOCKSTEP_DSN"])) as conn:
                broker, folder = Broker(stack.kafka), load_from(folder_path, "many")
                broker.topic_views(names)  # waits for the leaders of new topics, which no plan is to blame for
                took["first plan, opens every stream"] = [planned(conn, broker, folder)[0]]
                took["nothing to read"] = [planned(conn, broker, folder)[0] for _ in range(ROUNDS)]
                produce(stack.kafka, names)
                reads = took["a record in each topic"] = []
                for _ in range(ROUNDS):
                    seconds, batch, decision = planned(conn, broker, folder)
                    if batch is None:
                        raise SystemExit(f"a plan with records to read answered {decision}")
                    reads.append(seconds)
                    abandon(conn, batch, Person("bench", "measured"))
                make_topics(stack.kafka, ["many.new"], partitions)
                took["a topic has appeared"] = [planned(conn, broker, folder)[0]]
        finally:
            stack.end()
    for what, each in took.items():
        print(f"{what:<32} {statistics.median(each) * 1000:7.0f} ms   ({len(each)} plans)")
    return int(max(statistics.median(each) for each in took.values()) > MOST_SECONDS * max(1, count / 200))


if __name__ == "__main__":
    sys.exit(main())
