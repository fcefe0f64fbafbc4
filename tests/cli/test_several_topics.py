"""Tests the commands for a pipeline of two topics: `--topic` names one, and what takes one topic says so in a line."""

from __future__ import annotations

from functools import partial
from time import time

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource

from lockstep.adapters.kafka.group import mirrored
from lockstep.cli.exits import Exit
from lockstep.core.offsets import TopicPartition
from lockstep.dev import canary
from lockstep.steps.changes import adopt
from support.fakes.plain_engine import PlainEngine
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
    assert (gone["ok"], gone["not_known"][0]) == (
        False,
        f"what is left of {eu}: the topic is gone, or is not named any more",
    )


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


@pytest.mark.long
def test_a_group_of_two_topics_is_taken_over_at_once_and_each_record_is_there_once(two, lockstep, monkeypatch):
    monkeypatch.setattr(adopt, "Source", partial(adopt.Source, seconds=0.1))
    eu, us = two.name("eu"), two.name("us")
    group = f"loader-{two.base}"
    two.here.at.broker.mirror(group, {TopicPartition(eu, 0): 5})
    lacks = lockstep("adopt", "drill", "--group", group)
    assert lacks.code == Exit.REFUSED
    assert lacks.err.endswith(
        f"{us}-0: the consumer group {group} has no offset there, and the log holds [0, 7)  "
        f"Next: lockstep adopt drill --group {group} --at {us}-0:0\n"
    )
    assert "a partition is one of a topic  Next: name it: --topic" in lockstep("adopt", "drill", "--at", "0:1").err
    assert lockstep("adopt", "drill", "--group", group, "--at", "0:3", "--topic", us, "--json").code == Exit.DONE
    two.here.at.broker.mirror(group, {TopicPartition(us, 0): 2})
    delete_records(two.kafka, us, 3)
    shown = lockstep("adopt", "drill", "--group", group, "--json").document
    assert [(p["topic"], p["stands"], p["first"], p["lost"]) for p in shown["from"]] == [(eu, 5, 5, 0), (us, 2, 3, 1)]
    assert f"--accept-loss {us}-0 " in shown["next"]
    apply = ("adopt", "drill", "--group", group, "--apply", shown["digest"], "--reason", "x")
    assert f"{us}-0 [2, 3) was deleted from the log" in lockstep(*apply).err
    assert lockstep(*apply, "--accept-loss", "x:1").code == Exit.USAGE
    assert lockstep(*apply, "--accept-loss", f"{us}-0").code == Exit.DONE
    two.drain()
    assert two.rows() == [row for row in two.whole() if row[2] >= (5 if row[0] == eu else 3)]
    said = (
        "select kind, detail -> 'topics' from lockstep.decision where kind in ('adopt', 'topic') order by decision_id"
    )
    assert two.here.drill.ask(said) == [("adopt", None), ("topic", {eu: {"0": 5}, us: {"0": 2}})]
    twice = lockstep("adopt", "drill", "--group", group)
    assert f"drill: it has planned already, and stands at {eu}-0:12,{us}-0:7: " in twice.err
    assert two.violations() == []


@pytest.mark.long
def test_after_a_restore_what_was_told_of_each_topic_is_named_and_set_back(two, lockstep):
    eu, us = TopicPartition(two.name("eu"), 0), TopicPartition(two.name("us"), 0)
    two.drain()
    broker = two.here.at.broker
    broker.mirror("lockstep-drill", {eu: 14, us: 9})
    shown = lockstep("restored", "drill", "--preview", "--json").document
    assert [(each["topic"], each["from_offset"], each["until_offset"]) for each in shown["told"]] == [
        (eu.topic, 12, 14),
        (us.topic, 7, 9),
    ]
    said = lockstep("restored", "drill", "--reason", "the primary burnt")
    assert (said.code, f"gone: {us} [7, 9) was shown as committed" in said.out) == (Exit.DONE, True)
    assert mirrored(broker, "lockstep-drill", [eu, us]) == {eu: 12, us: 7}
    ((detail,),) = two.here.drill.ask("select detail -> 'told' from lockstep.decision where kind = 'restored'")
    assert {each["topic"] for each in detail} == {eu.topic, us.topic}
    two.delete("us")
    gone = lockstep("restored", "drill", "--preview")
    assert gone.code == Exit.REFUSED
    assert f"Next: lockstep retire drill --topic {us.topic} --reason" in gone.err


@pytest.mark.long
def test_a_canary_reads_the_batches_of_both_topics(two, lockstep, monkeypatch):
    eu, us = two.name("eu"), two.name("us")

    def code(value):
        return value | {"n": value["n"] * (2 if value["id"].startswith("us") else 1)}

    def engine_for(folder, at, _registry):
        return PlainEngine(folder, two.kafka, at.dsn, code if folder.transform_file.name == "new.py" else dict)

    monkeypatch.setattr(canary, "local_engine", engine_for)
    (lockstep.home / "new.py").write_text("def transform(records):\n    return records\n")
    two.drain()
    two.send("eu", 12, 1)
    two.drain()
    erased = ("erase", "drill", "--key", "us3", "--column", "id", "--reason", "a wish")
    assert lockstep(*erased).code == Exit.DONE

    found = lockstep("canary", "drill", "--transform", "new.py", "--batches", "2", "--json").document

    counts = [each["targets"]["public.drill"] for each in found["batches"]]
    assert counts == [
        {"same": 13, "changed": 5, "only_live": 0, "only_canary": 0},
        {"same": 1, "changed": 0, "only_live": 0, "only_canary": 0},
    ]
    assert {each["topic"] for each in found["batches"][0]["ranges"]} == {eu, us}
    samples = [(each["topic"], each["offset"], each["canary"]["n"]) for each in found["batches"][0]["samples"]]
    assert samples == [(us, n, 2 * n) for n in (1, 2, 4, 5, 6)]
    assert f"{us}-0:1 " in lockstep("canary", "drill", "--transform", "new.py", "--batches", "2").out
