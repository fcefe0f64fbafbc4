"""Tests that the tests' own reader of topics misses no record of a transaction that has just ended."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait

from feed.sending import read_topic


def test_a_reader_waits_for_the_markers_of_what_was_sent_before(topic, kafka, produce):
    """Holds a transaction open in place of the moment between its commit and its markers."""
    name = topic(partitions=2)
    sent = [(key, key) for key in "abcdefgh"]
    under_way = produce(name, sent, end="open")
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_topic, kafka, name)
        assert wait([reading], timeout=2).not_done == {reading}
        under_way.commit_transaction(20)
        found = [(key.decode(), value.decode()) for part in reading.result(60).values() for key, value, _ in part]
    assert sorted(found) == sent
