"""`lockstep move` lets a pipeline go on in a copy of its topic. Only Spark is left out."""

from __future__ import annotations

import re
from functools import partial

import pytest

from lockstep.cli.exits import Exit
from lockstep.core.planning.decisions import Idle
from lockstep.steps.proof import verify_moves
from lockstep.steps.topics import copied
from support.scenes.command_line import assert_refused, assert_wrong_call
from support.scenes.here import into_two
from support.scenes.mirrored import Mirror, Sending, copied_once
from support.scenes.odd_logs import admin, delete_records, offsets_in, until

WHY = ("--reason", "the cluster is renewed")
OPEN = (
    "select topic, partition, incarnation, epoch, start_offset from lockstep.stream where retired_at is null order by 2"
)


@pytest.fixture
def few(here):
    """Lets the drill's batches be large, so that there are few."""
    here.rewrite("records=200", "records=100_000")
    return here


@pytest.fixture
def at_once(monkeypatch):
    """Lets no move wait for a copy."""
    monkeypatch.setattr(copied, "CopiedTopic", partial(copied.CopiedTopic, seconds=0))
    monkeypatch.setattr(verify_moves, "COPY_SECONDS", 0)


def shown(lockstep, copy: str, *more: str) -> str:
    """Returns the digest of a preview."""
    said = lockstep("move", "drill", "--to-topic", copy, *more)
    assert (said.code, said.err) == (0, ""), said
    assert said.out.endswith(f"Next: lockstep move drill --to-topic {copy} --apply {digest_of(said)} --reason ...\n")
    return digest_of(said)


def digest_of(said) -> str:
    return re.findall(r"^digest ([0-9a-f]{64}); nothing was changed$", said.out, re.MULTILINE)[0]


def moved(lockstep, here, copy: str, old: str):
    done = lockstep("move", "drill", "--to-topic", copy, "--apply", shown(lockstep, copy), *WHY, "--json").document
    here.rewrite(old, copy)
    return done


def test_a_pipeline_moves_under_a_running_producer_and_each_record_is_there_once(few, lockstep, produce, topic):
    here, kafka, (old, copy) = into_two(few.drill), few.drill.kafka, (topic(partitions=1) for _ in range(2))
    here.rewrite(here.drill.topic, old)
    produce(old, [("a", '{"id": "aborted", "n": -1}')], end="abort")
    sending, mirror = Sending(kafka, old, 0), Mirror(kafka, old, copy, 1)
    until(lambda: sending.next > 500, "nothing is sent")
    here.run()

    preview = lockstep("move", "drill", "--to-topic", copy, "--preview", "--json").document
    assert here.drill.ask("select count(*) from lockstep.decision where kind = 'move'") == [(0,)]
    done = lockstep("move", "drill", "--to-topic", copy, "--apply", preview["digest"], *WHY, "--json").document
    assert (done["changed"], done["next"]) == (True, f"say topic={copy!r} in its definition, then lockstep run drill")
    assert [each | {"waiting": 0} for each in done["moved"]] == [each | {"waiting": 0} for each in preview["moved"]]
    for each in done["moved"]:
        before = sum(o < each["position"] for o in offsets_in(kafka, old, each["partition"]))
        assert each["offset"] < each["position"], "the copy has no markers"
        assert (each["offset"], each["matched"]) == (before, min(before, 200))
    assert here.drill.ask(OPEN) == [(copy, each["partition"], 1, 1, each["offset"]) for each in done["moved"]]
    behind = lockstep("run", "drill")
    assert (behind.code, behind.out) == (Exit.BLOCKED, "")
    assert (
        f"drill: its topic was {copy} and is now {old}; a pipeline keeps its topic for good  Next: put it back"
        in behind.err
    )

    here.rewrite(old, copy)
    sending.topic = copy  # while the mirror still copies
    went = lockstep("run", "drill")
    assert went.code == 0, went.err
    last = sending.stop()
    until(lambda: mirror.copied >= len(offsets_in(kafka, old)), "the mirror is behind")
    mirror.stop()
    here.run()

    rows = "select n, id from public.drill order by n"
    assert here.drill.ask(rows) == [(n, f"s{n % 60}") for n in range(last)]
    newest = [(f"s{n % 60}", n) for n in range(last - 60, last)]
    assert here.drill.ask("select id, n from public.newest order by n") == newest
    deep = lockstep("verify", "drill", "--deep")
    assert deep.code == 0, deep.out
    assert len(re.findall(rf"ok  {old}-.: what followed the move is in {copy}-.", deep.out)) == 1
    assert len(re.findall(rf"ok  ({old}|{copy})-.: every record exactly once: public.drill", deep.out)) == 2, deep.out
    parts = lockstep("status", "drill", "--json").document["streams"]
    assert [(each["topic"], each["holes"]) for each in parts] == [(copy, 0)]
    assert lockstep("holes", "drill").out == "drill: no holes\n"
    place = ("--partition", "0", "--offset", "3")
    assert lockstep("lineage", "drill", *place, "--json").document["coverage"] == "uncovered"
    assert lockstep("lineage", "drill", *place, "--topic", old, "--json").document["batch"] == 1


@pytest.mark.long
@pytest.mark.usefixtures("at_once")
def test_a_copy_that_proves_no_place_is_refused_by_partition_and_offsets(few, lockstep, produce, topic):
    here, old, kafka = few, few.drill.topic, few.drill.kafka
    assert_refused(
        lockstep("move", "drill", "--to-topic", "copy"),
        "drill: it has not planned yet, so there is nothing to move",
        "Next: say topic='copy' in its definition, then lockstep run drill",
    )
    here.run()
    narrow, twice, behind, cut, other = (topic(partitions=n) for n in (2, 3, 3, 3, 3))
    positions = dict(here.drill.ask("select partition, position from lockstep.stream"))
    end = positions[0]
    for copy, *words in (
        (old, f"drill: it reads {old} already", "Next: lockstep run drill"),
        (narrow, f"drill: {old} has 3 partitions and {narrow} 2: a record may be in any of them"),
        (
            behind,
            f"{old}-0 [0, {end}) are not in {behind}-0 [0, 0): at most 0 of these {end} records stand there in a row",
        ),
    ):
        assert_refused(lockstep("move", "drill", "--to-topic", copy), *words)
    copied_once(kafka, old, twice, 3)
    copied_once(kafka, old, twice, 3)
    assert_refused(
        lockstep("move", "drill", "--to-topic", twice),
        f"{old}-0 [0, {end}) stand 2 times in {twice}-0, before {end}, {2 * end}: nothing says which copy goes on",
        f"Next: copy the topic anew into another one, then lockstep move drill --to-topic {twice}",
    )
    copied_once(kafka, old, cut, 3)
    delete_records(kafka, cut, end - 5)
    assert_refused(
        lockstep("move", "drill", "--to-topic", cut),
        f"{old}-0 [0, {end}) are not in {cut}-0 [{end - 5}, {end}): at most 5 of these {end} records stand there in a row",
    )
    produce(other, [("k", '{"id": "x", "n": 1}')], 0)
    copied_once(kafka, old, other, 3)
    assert_refused(
        lockstep("move", "drill", "--to-topic", other),
        f"{old}-0 [0, {end}) are all that was written, and {other}-0 holds other records before {end + 1}",
    )
    copied_once(kafka, old, behind, 3)
    produce(old, [("k", '{"id": "x", "n": 1}')], 0)
    assert_refused(
        lockstep("move", "drill", "--to-topic", behind),
        f"{old}-0 offset {end} is not in {behind}-0 [{end}, {end}), behind the match: it is behind, or lacks records",
        f"Next: wait for the copy, then lockstep move drill --to-topic {behind}",
    )
    here.skip(f"0:{end + 1}")
    copied_once(kafka, old, again := topic(partitions=3), 3)
    assert (
        "\n1 offsets were skipped, and nothing can fill them after the move: first lockstep fill drill, or"
        in lockstep("move", "drill", "--to-topic", again).out
    )
    produce(old, [("k", '{"id": "y", "n": 2}')], 0)
    here.plan()
    assert_refused(
        lockstep("move", "drill", "--to-topic", behind),
        "drill: batch 2 is planned and not committed, and it reads the old topic",
        "Next: lockstep run drill, or lockstep abandon 2 --reason ...",
    )
    here.rewrite(f'topic="{old}"', f"topic=({old!r}, {behind!r})")
    assert_refused(
        lockstep("move", "drill", "--to-topic", behind), f"drill: it reads {old}, and a move takes a pipeline of one"
    )
    assert here.drill.ask("select count(*) from lockstep.stream") == [(3,)]


@pytest.mark.long
@pytest.mark.usefixtures("at_once")
def test_a_move_is_applied_as_shown_once_and_goes_back_while_nothing_was_committed(few, lockstep, produce, topic):
    here, old, copy, kafka = few, few.drill.topic, topic(partitions=3), few.drill.kafka
    here.run()
    produce(old, [("k", '{"id": "x", "n": 150}')], 0)
    copied_once(kafka, old, copy, 3)
    digest = shown(lockstep, copy)
    here.run()
    assert_refused(
        lockstep("move", "drill", "--to-topic", copy, "--apply", digest, *WHY),
        f"drill: {digest} is not what is shown now, which is ",
        f"Next: lockstep move drill --to-topic {copy}",
    )
    done = moved(lockstep, here, copy, old)
    once_more = lockstep("move", "drill", "--to-topic", copy, "--apply", done["digest"], *WHY)
    assert once_more.out.startswith(f"drill: nothing to do; {done['who']} applied {done['digest']} by decision 1\n")
    assert isinstance(here.plan(), Idle)
    produce(old, [("k", '{"id": "x", "n": 151}')], 0)
    lacking = lockstep("verify", "drill", "--deep")
    end = done["moved"][0]["position"]
    assert (lacking.code, f"offset {end} of {old}-0 is not in {copy}-0 [{end}, {end})" in lacking.out) == (1, True), (
        lacking.out
    )

    back = moved(lockstep, here, old, copy)
    ends = [(each["partition"], each["position"]) for each in done["moved"]]
    assert [(each["partition"], each["offset"]) for each in back["moved"]] == ends
    assert here.drill.ask(OPEN) == [(old, p, 2, 2, at) for p, at in ends]
    here.drain()

    assert here.drill.ask("select n from public.drill order by n") == [(n,) for n in range(152)]
    deep = lockstep("verify", "drill", "--deep", "--json").document
    assert (deep["ok"], {each["left_out"] for each in deep["checks"]}) == (True, {""}), deep
    traced = lockstep("lineage", "drill", "--partition", "0", "--offset", "3", "--json").document
    assert (traced["coverage"], traced["batch"]) == ("batch", 1)

    both = f"topic=({old!r}, {copy!r})"
    here.rewrite(f'topic="{old}"', both)
    kept = lockstep("run", "drill")
    words = f"drill: it moved from {copy} to {old}, which holds the same records, and the definition names {copy} again"
    assert (kept.code, words in kept.err) == (Exit.BLOCKED, True), kept
    here.rewrite(both, f'topic="{old}"')

    admin(kafka).delete_topics([copy])[copy].result(20)
    until(lambda: copy not in here.at.broker.topic_names(), "the topic would not go")
    gone = lockstep("verify", "drill", "--deep", "--json").document
    left = [each["left_out"] for each in gone["checks"] if "stream" in each["name"] and copy in each["name"]]
    assert (gone["ok"], left) == (True, [f"it moved to {old}, and its log is gone"] * 3)


def test_a_pipeline_with_an_open_request_stays_and_the_request_is_named(few, lockstep, topic):
    here, old, copy, kafka = few, few.drill.topic, topic(partitions=3), few.drill.kafka
    here.run()
    copied_once(kafka, old, copy, 3)
    request = here.ask("replay", "0:0", "0:5")
    assert_refused(
        lockstep("move", "drill", "--to-topic", copy),
        f"drill: request {request.request_id} to replay is not finished, and it is about the old topic",
        f"Next: lockstep replay drill --request {request.request_id}",
    )
    assert here.drill.ask(OPEN) == [(old, partition, 0, 0, 0) for partition in range(3)]


def test_options_that_do_not_fit_are_a_wrong_call(lockstep):
    move = ("move", "drill", "--to-topic", "copy")
    for more, said in (
        (("--preview", "--apply", "0" * 64, *WHY), "one of them at a time"),
        (("--apply", "0" * 64), "--apply is a decision"),
        (WHY, "belongs to --apply"),
        (("--kafka-config", "other.json"), "belongs to --kafka"),
    ):
        assert_wrong_call(lockstep(*move, *more), said)


@pytest.mark.long
@pytest.mark.usefixtures("at_once")
def test_erased_records_that_wait_are_passed_before_the_move_and_stay_out(few, lockstep, produce, topic):
    here, old, copy, kafka = few, few.drill.topic, topic(partitions=3), few.drill.kafka
    here.run()
    produce(old, [("k", '{"id": "gone", "n": 1}')], 0)
    erased = lockstep("erase", "drill", "--key", "gone", "--column", "id", "--reason", "a request")
    assert erased.code == 0, erased
    copied_once(kafka, old, copy, 3)
    position = here.drill.ask("select position from lockstep.stream where partition = 0")[0][0]

    assert_refused(
        lockstep("move", "drill", "--to-topic", copy),
        f"drill: an erasure keeps records of {old}-0 out up to offset {position + 1}, and the position is {position}: in "
        f"{copy} nothing would keep them out",
        f"Next: lockstep run drill --until-idle, then lockstep move drill --to-topic {copy}",
    )
    assert lockstep("run", "drill", "--until-idle").code == 0
    moved(lockstep, here, copy, old)
    produce(copy, [("k", '{"id": "gone", "n": 2}')], 0)
    here.drain()

    assert here.drill.ask("select n from public.drill where id = 'gone'") == [(2,)], "it was produced later"
    assert lockstep("verify", "drill", "--deep").code == 0
