"""Reads the log as a separate `read_committed` consumer. Imports nothing of the product."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition


def visible(kafka: str, topic: str, partition: int, covered: list[tuple[int, int]]) -> dict[int, tuple]:
    """Returns offset -> (key, value) of every visible record in the covered ranges.

    Stops by position, never by an empty poll.
    """
    records: dict[int, tuple] = {}
    if not covered:
        return records
    reader = consumer(kafka)
    low, high = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
    begin, end = max(low, covered[0][0]), min(high, covered[-1][1])
    where = TopicPartition(topic, partition, begin)
    reader.assign([where])
    done = begin >= end
    while not done:
        for message in reader.consume(10_000, timeout=0.1):
            if message.error():
                done = True  # the end of the partition
            elif message.offset() < end:
                records[message.offset()] = (message.key(), message.value())
            else:
                done = True
        at = reader.position([where])[0].offset
        done = done or at >= end
    reader.close()
    return {o: r for o, r in records.items() if any(a <= o < b for a, b in covered)} if len(covered) < 50 else records


def consumer(kafka: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )
