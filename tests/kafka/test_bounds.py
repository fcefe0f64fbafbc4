"""What the adapter takes for a log's bounds: as far as a committed reader may read, and not a record further."""

from __future__ import annotations

from lockstep.adapters.kafka import Broker
from lockstep.core.offsets import Bounds

RECORDS = [("k", b"{}")] * 3


def test_an_open_transaction_ends_the_log_for_whoever_plans(kafka, topic, produce):
    name = topic(partitions=1)
    produce(name, RECORDS, end="commit")
    before = Broker(kafka).view(name).bounds
    under_way = produce(name, RECORDS, end="open")
    produce(name, RECORDS)

    during = Broker(kafka).view(name).bounds
    under_way.commit_transaction(20)
    after = Broker(kafka).view(name).bounds

    assert (before, during, after) == ({0: Bounds(0, 4)}, {0: Bounds(0, 4)}, {0: Bounds(0, 11)})
