"""Tests the commands for a pipeline of two topics: `--topic` names one, and what takes one topic says so in a line."""

from __future__ import annotations

from time import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource

from lockstep.cli.exits import Exit
from support.scenes.odd_logs import alter, delete_records
from support.scenes.several import Several


@pytest.fixture
def two(here, produce, topic):
    found = Several(here, produce, topic(partitions=1))
    for end, count in (("eu", 12), ("us", 7)):
        found.make(end, partitions=1)
        found.send(end, 0, count)
    found.say(found.pair())
    return found


@pytest.mark.long
def test_a_topic_is_named_where_a_partition_is_one_of_it(two, lockstep):
    eu, us = two.name("eu"), two.name("us")
    first = lockstep("run", "drill", "--until-idle", "--json")
    assert first.code == Exit.DONE
    assert two.rows() == two.whole()

    told = lockstep("lineage", "drill", "--topic", us, "--partition", "0", "--offset", "3", "--json").document
    assert (told["topic"], told["offset"], [row["id"] for row in told["rows"]]) == (us, 3, ["us3"])
    for command in (
        ("lineage", "drill", "--partition", "0", "--offset", "3"),
        ("skip", "drill", "--to", "latest", "--reason", "x"),
        ("replay", "drill", "--from", "0:2", "--until", "0:4"),
        ("accept-loss", "drill", "--partition", "0", "--from", "0", "--until", "1", "--reason", "x"),
        ("retire", "drill", "--reason", "x"),
    ):
        refused = lockstep(*command)
        assert refused.code == Exit.REFUSED, command
        assert refused.err.strip() == (
            f"drill: it reads {eu}, {us}, and a partition is one of a topic  Next: name it: --topic"
        ), command

    again = lockstep("replay", "drill", "--topic", us, "--from", "0:2", "--until", "0:4", "--json")
    assert again.document["windows"] == [{"topic": us, "partition": 0, "from_offset": 0, "until_offset": 7}]
    whole = lockstep("replay", "drill", "--batch", "1", "--json")
    assert {part["topic"]: part["until_offset"] for part in whole.document["windows"]} == {eu: 12, us: 7}
    assert two.rows() == two.whole()
    two.send("us", 7, 5)
    skipped = lockstep("skip", "drill", "--topic", us, "--to", "latest", "--reason", "later", "--json").document[
        "skipped"
    ]
    assert skipped == [{"topic": us, "partition": 0, "from_offset": 7, "until_offset": 12}]
    holes = lockstep("holes", "drill", "--json").document["holes"]
    assert [(hole["topic"], hole["from_offset"], hole["until_offset"]) for hole in holes] == [(us, 7, 12)]
    filled = lockstep("fill", "drill", "--json").document
    assert filled["rows_written"] == 5
    assert two.rows() == two.whole()
    gaps = lockstep("holes", "drill", "--explain", "--json").document
    assert (gaps["offsets"], gaps["gaps"]) == (24, [])
    assert lockstep("verify", "drill", "--deep").code == Exit.DONE
    assert lockstep("erase", "drill", "--key", "us3", "--column", "id", "--reason", "a wish").code == Exit.DONE
    ends = (
        "select topic, b.partition, until_offset from lockstep.erasure_bound b join lockstep.stream s using (topic_id)"
    )
    assert sorted(two.here.drill.ask(ends)) == [(eu, 0, 12), (us, 0, 12)]
    assert lockstep("replay", "drill", "--topic", us, "--from", "0:0", "--until", "0:5").code == Exit.DONE
    assert two.rows() == [row for row in two.whole() if row[1] != "us3"], "it stays out of the topic that it came from"
    assert lockstep("verify", "drill", "--deep").code == Exit.DONE
    assert lockstep("status", "drill", "--json").document["health"] == "well"


@pytest.mark.long
def test_retention_looks_at_each_topic_and_names_the_settings_of_the_first_deletion(two, lockstep):
    eu, us = two.name("eu"), two.name("us")
    two.drain()
    hour = 3_600_000
    for end, hours, age in (("eu", 48, 10), ("us", 24, 14)):
        pairs = [("retention.ms", str(hours * hour))]
        alter(two.kafka, ConfigResource.Type.TOPIC, two.name(end), pairs)
        producer = Producer({"bootstrap.servers": two.kafka})
        producer.produce(two.name(end), b'{"id": "x", "n": 1}', partition=0, timestamp=int(time() * 1000 - age * hour))
        producer.flush(20)

    calm = lockstep("retention", "drill", "--alarm", "9", "--json")
    assert (calm.code, calm.document["ok"], calm.document["topic"]) == (Exit.DONE, True, us)
    assert calm.document["seconds"] == pytest.approx(10 * 3600, abs=90)
    assert calm.document["settings"]["retention.ms"] == 24 * hour
    found = {each["topic"]: each for each in calm.document["partitions"]}
    assert {name: (each["state"], each["first_unread"]) for name, each in found.items()} == {
        eu: ("waits", 12),
        us: ("waits", 7),
    }
    assert found[eu]["seconds"] == pytest.approx(38 * 3600, abs=90)
    alone = lockstep("retention", "drill", "--topic", eu, "--json").document
    assert ([each["topic"] for each in alone["partitions"]], alone["settings"]["retention.ms"]) == ([eu], 48 * hour)
    short = lockstep("retention", "drill", "--alarm", "11")
    assert (short.code, f"  {us}, of the first deletion:" in short.out) == (Exit.REFUSED, True)
    assert f"{us}-0" in short.out
    strange = lockstep("retention", "drill", "--topic", "strange")
    assert strange.code == Exit.REFUSED
    assert "drill: it reads no topic strange at " in strange.err

    delete_records(two.kafka, us, 8)
    lost = lockstep("retention", "drill", "--json")
    assert (lost.code, lost.document["next"]) == (
        Exit.REFUSED,
        f"lockstep accept-loss drill --topic {us} --partition 0 --from 7 --until 8 --reason ...",
    )
    two.delete("eu")
    gone = lockstep("retention", "drill", "--json").document
    assert (gone["ok"], gone["not_known"][0]) == (False, f"what is left of {eu}: the topic is gone, or is not named any more")


@pytest.mark.long
def test_retire_leaves_a_topic_and_doctor_looks_at_each(two, lockstep):
    eu, us = two.name("eu"), two.name("us")
    two.drain()
    found = lockstep("doctor", "drill", "--json").document
    assert {f"topic {eu}", f"topic {us}"} <= {each["subject"] for each in found["findings"]}
    two.say(repr((eu,)))
    blocked = lockstep("run", "drill")
    assert blocked.code == Exit.BLOCKED
    assert f"put it back, or lockstep retire drill --topic {us} --reason" in blocked.err
    left = lockstep("retire", "drill", "--topic", us, "--reason", "no more", "--json").document
    assert [(part["topic"], part["position"]) for part in left["retired"]] == [(us, 7)]
    assert left["opened"] == []
    assert lockstep("run", "drill", "--until-idle").code == Exit.DONE
    last = lockstep("retire", "drill", "--topic", us, "--reason", "twice")
    assert f"drill: it has no open stream of topic {us}; there are: {eu}" in last.err
    two.say(repr((us,)))
    only = lockstep("retire", "drill", "--topic", eu, "--reason", "all of it")
    assert f"drill: {eu} is its only topic, and a pipeline that leaves it reads nothing" in only.err
