"""`lockstep adopt` begins where a consumer group or a sink of Connect stands. Only Spark is left out."""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, TopicPartition

from lockstep.cli.exits import Exit
from lockstep.steps.changes import adopt
from support.scenes.command_line import assert_refused, assert_wrong_call
from support.scenes.odd_logs import delete_records, log_start, stable_end

WHY = ("--reason", "the loader ends")
ROWS = "select id, n from public.drill order by n"
STARTS = "select partition, start_offset, position from lockstep.stream order by partition"


class Loader:
    """A consumer of somebody else: it reads records of the drill's topic, and commits in its group what it has read."""

    def __init__(self, drill, group: str) -> None:
        settings = {"bootstrap.servers": drill.kafka, "group.id": group, "auto.offset.reset": "earliest"}
        self.rows: list[tuple] = []
        self.consumer = Consumer(settings | {"enable.auto.commit": False})
        self.consumer.subscribe([drill.topic])

    def read(self, n: int) -> None:
        while len(self.rows) < n:
            for message in self.consumer.consume(n - len(self.rows), 0.5):
                assert message.error() is None, message.error()
                value = json.loads(message.value())
                self.rows.append((value["id"], value["n"]))
        at = self.consumer.position(self.consumer.assignment())
        offsets = [TopicPartition(each.topic, each.partition, max(each.offset, 0)) for each in at]
        self.consumer.commit(offsets=offsets, asynchronous=False)


@contextmanager
def moving(drill, group: str):
    """Commits one offset more in partition 0 again and again, as a reader does that is no member of its group."""
    over, consumer = Event(), Consumer({"bootstrap.servers": drill.kafka, "group.id": group})

    def go_on() -> None:
        for offset in range(1, 10_000):
            consumer.commit(offsets=[TopicPartition(drill.topic, 0, offset)], asynchronous=False)
            if over.wait(0.02):
                return

    thread = Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        consumer.close()


def commit(drill, group: str, *offsets: int) -> None:
    consumer = Consumer({"bootstrap.servers": drill.kafka, "group.id": group})
    at = [TopicPartition(drill.topic, partition, offset) for partition, offset in enumerate(offsets)]
    consumer.commit(offsets=at, asynchronous=False)
    consumer.close()


@pytest.fixture
def group(here, monkeypatch):
    """Returns the name of a group of its own. Between two looks at it there is 0.1 second."""
    monkeypatch.setattr(adopt, "Source", partial(adopt.Source, seconds=0.1))
    return f"loader {here.drill.topic}"


def shown(lockstep, *reader: str) -> str:
    """Returns the digest of a preview."""
    said = lockstep("adopt", "drill", *reader)
    assert (said.code, said.err) == (0, "")
    return re.findall(r"^digest ([0-9a-f]{64}); nothing was changed$", said.out, re.MULTILINE)[0]


def test_what_a_group_has_read_and_what_is_read_behind_it_is_each_record_once(here, lockstep, produce, group):
    loader = Loader(here.drill, group)
    loader.read(60)
    assert_refused(
        lockstep("adopt", "drill", "--group", group),
        f"the consumer group {group} has live members (it is Stable): stop what reads there",
        f"Next: lockstep adopt drill --group '{group}'",
    )
    loader.consumer.close()

    preview = lockstep("adopt", "drill", "--group", group, "--preview", "--json").document
    stands = {part["partition"]: part["stands"] for part in preview["from"]}
    assert sum(stands.values()) == len(loader.rows) == 60
    assert preview["reader"] == {"kind": "group", "name": group, "group": group, "batch": None}
    for part in preview["from"]:
        p = part["partition"]
        end = stable_end(here.drill.kafka, here.drill.topic, p)
        assert (part["log_start"], part["log_end"], part["first"], part["lost"]) == (0, end, stands[p], 0)
        assert part["waiting"] == end - stands[p]
    produce(here.drill.topic, [("k", json.dumps({"id": f"r{n}", "n": n})) for n in range(150, 160)])
    assert shown(lockstep, "--group", group) == preview["digest"], "producers go on"
    assert here.drill.ask("select count(*) from lockstep.stream") == [(0,)]

    begun = lockstep("adopt", "drill", "--group", group, "--apply", preview["digest"], *WHY, "--json").document
    assert (begun["changed"], begun["next"]) == (True, "lockstep run drill")
    assert here.drill.ask(STARTS) == [(p, at, at) for p, at in sorted(stands.items())]
    again = lockstep("adopt", "drill", "--group", group, "--apply", preview["digest"], *WHY)
    assert again.out.startswith(f"drill: nothing to do; {begun['who']} applied {preview['digest']} by decision ")
    here.drain()

    rows = here.drill.ask(ROWS)
    assert sorted([*rows, *loader.rows], key=lambda row: row[1]) == [(f"r{n}", n) for n in range(160)]
    assert here.drill.violations(rest=True, least=100) == []
    assert lockstep("verify", "drill", "--deep").code == 0
    assert_refused(lockstep("adopt", "drill", "--group", group), "drill: it has planned already, and stands at 0:")


def test_a_sinks_group_that_moves_is_refused_and_one_that_rests_is_taken_over(here, lockstep, group):
    config = {"name": group, "config": {"topics": here.drill.topic, "connector.class": "JdbcSink"}}
    (lockstep.home / "sink.json").write_text(json.dumps(config))
    sink = ("--connect", "sink.json")
    with moving(here.drill, f"connect-{group}"):
        while "may not see it" in lockstep("adopt", "drill", *sink).err:  # until its first commit
            pass
        moves = lockstep("adopt", "drill", *sink)
    assert_refused(moves, f"{here.drill.topic}-0: the consumer group connect-{group} of {group} still moves, from ")
    assert moves.err.endswith("Next: lockstep adopt drill --connect sink.json\n")

    commit(here.drill, f"connect-{group}", 5)
    one = lockstep("adopt", "drill", *sink)
    assert_refused(one, f"{here.drill.topic}-1: the consumer group connect-{group} of {group} has no offset there")
    rest = re.findall(r"Next: lockstep adopt drill --connect sink.json --at (1:0,2:0)\n", one.err)
    digest = shown(lockstep, *sink, "--at", *rest)
    commit(here.drill, f"connect-{group}", 6)
    assert_refused(
        lockstep("adopt", "drill", *sink, "--at", *rest, "--apply", digest, *WHY),
        f"drill: {digest} is not what is shown now, which is ",
    )
    begun = lockstep("adopt", "drill", *sink, "--at", *rest, "--apply", shown(lockstep, *sink, "--at", *rest), *WHY)
    assert begun.code == 0
    assert begun.out.endswith("Next: lockstep run drill\n")
    assert here.drill.ask(STARTS) == [(0, 6, 6), (1, 0, 0), (2, 0, 0)]
    here.drain()
    places = "select count(*), count(distinct (_stream, _offset)) from public.drill"
    assert here.drill.ask(places) == [(144, 144)], "the sink has the six others"
    assert here.drill.violations(rest=True, least=100) == []


@pytest.mark.long
def test_a_reader_behind_the_logs_start_has_lost_what_a_person_accepts_by_partition(here, lockstep, group):
    delete_records(here.drill.kafka, here.drill.topic, 9)
    commit(here.drill, group, 4, 0, 0)
    said = lockstep("adopt", "drill", "--group", group)
    digest = re.findall(r"^digest (\w+);", said.out, re.MULTILINE)[0]
    assert f"{here.drill.topic}-0 [4, 9)" in said.out
    next_command = f"lockstep adopt drill --group '{group}' --apply {digest} --accept-loss 0 --reason ..."
    assert said.out.endswith(f"Next: {next_command}\n")
    call = ("adopt", "drill", "--group", group, "--apply", digest, *WHY)
    assert_refused(lockstep(*call), f"{here.drill.topic}-0 [4, 9) was deleted from the log", f"Next: {next_command}")
    assert_refused(lockstep(*call, "--accept-loss", "0", "--accept-loss", "1"), "drill: nothing of partition 1 is lost")

    assert lockstep(*call, "--accept-loss", "0").code == 0
    here.drain()

    there = {f"r{n}": n for n in range(150)}
    rows = here.drill.ask(ROWS)
    assert len(rows) == 141
    assert all(there[name] == n for name, n in rows)
    assert here.drill.violations(rest=True, least=100) == []
    holes = lockstep("holes", "drill", "--json").document
    assert [(h["kind"], h["from_offset"], h["until_offset"]) for h in holes["holes"]] == [("loss", 4, 9)]


@pytest.mark.long
def test_what_is_no_position_of_this_topic_is_refused(here, lockstep, group, produce):
    topic, at = here.drill.topic, ("adopt", "drill", "--at")
    near = lockstep("adopt", "drill", "--group", group)
    assert_refused(near, f"the consumer group {group} is not at {here.drill.kafka}, or this login may not see it")
    end = stable_end(here.drill.kafka, topic)
    assert_refused(lockstep(*at, f"0:{end + 1},1:0,2:0"), f"{topic}-0: --at says {end + 1}, past the log's end {end}: ")
    produce(topic, [("k", "{}")] * 3, partition=0, end="open")
    assert_refused(lockstep(*at, f"0:{end + 3},1:0,2:0"), f"past the log's end {end}: ", "or a transaction is open")
    assert_refused(lockstep(*at, "0:0,1:0,2:0,3:0"), f"{topic} has no partition 3, and --at says 0 there")
    assert_refused(
        lockstep(*at, "0:1"), f"{topic}-1: --at has no offset there", "Next: lockstep adopt drill --at 0:1,1:0,2:0"
    )
    commit(here.drill, group, 1, 1, 1)
    both = lockstep("adopt", "drill", "--group", group, "--at", "1:5")
    assert_refused(both, f"{topic}-1: the consumer group {group} stands at 1, and --at says 5")
    typo = lockstep("adopt", "drill", "--group", group.replace("loader", "loadr"))
    assert_refused(typo, f"Next: lockstep adopt drill --group '{group}'")
    for call in (("--at", "0:1,0:2"), ("--at", "latest"), ("--group", group, "--connect", "f"), ()):
        assert_wrong_call(lockstep("adopt", "drill", *call))
    assert here.drill.ask("select count(*) from lockstep.decision") == [(0,)]


def test_a_definition_begins_at_the_offsets_that_it_names(here, lockstep):
    here.rewrite("limits=", "start={0: 5, 1: 9}, limits=")
    assert_refused(
        lockstep("plan", "drill"), f"{here.drill.topic}-2: start has no offset there, and the log holds [0, "
    )
    here.rewrite("start={0: 5, 1: 9}", "start={0: 5, 1: 9, 2: 999}")
    assert_refused(lockstep("plan", "drill"), f"{here.drill.topic}-2: start says 999, past the log's end ")
    here.rewrite("2: 999", "2: 1")
    delete_records(here.drill.kafka, here.drill.topic, 6)
    lost = lockstep("plan", "drill")
    assert_refused(lost, f"{here.drill.topic}-0 [5, 6) was deleted from the log", code=Exit.REFUSED)
    assert (
        f"lockstep adopt drill --at 0:5,1:9,2:1 --apply {shown(lockstep, '--at', '0:5,1:9,2:1')} --accept-loss 0"
        in lost.err
    )
    here.rewrite("0: 5", f"0: {log_start(here.drill.kafka, here.drill.topic)}")
    status = lockstep("status", "drill", "--json").document
    assert status["lag_records"] == 150 - 6 - 9 - 1
    here.drain()
    assert [(p, at) for p, at, _ in here.drill.ask(STARTS)] == [(0, 6), (1, 9), (2, 1)]
    assert here.drill.violations(rest=True, least=100) == []
