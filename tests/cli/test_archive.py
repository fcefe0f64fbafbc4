"""Tests that a topic with short retention is archived, deleted, and read again below its log start, to the byte."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource

from lockstep.adapters.archive.store import ArchiveStore
from lockstep.adapters.postgres import OWNER, transaction
from lockstep.cli.exits import Exit
from lockstep.context.systems import engine_for
from lockstep.core.errors import Refusal, Unreachable
from lockstep.core.planning.decisions import Caller
from lockstep.steps.batch.stage import stage
from lockstep.steps.batch.validate import validate
from lockstep.steps.changes.decisions import deciding
from support.scenes.archived import put_archived
from support.scenes.command_line import assert_refused
from support.scenes.history_run import Run
from support.scenes.odd_logs import alter, delete_records, grow, high_end, recreate, send_with_header, until
from support.scenes.several import Several
from support.servers.s3_store import versitygw

HOUR = 3_600_000
LOCKSTEP = (sys.executable, "-c", "from lockstep.cli.app import main; main()")
ROWS = "select id, n, _stream, _offset, _ordinal from public.drill order by _stream, _offset, _ordinal"
ARCHIVED = (
    "select lower(offsets), upper(offsets), records, path, sha256 from lockstep.archived order by stream_id, offsets"
)


@pytest.fixture(autouse=True)
def _own_engine(here, monkeypatch):  # noqa: ARG001 - behind the drill, which has another
    """Has batches done by the product's own readers, in this process."""
    for door in ("planning", "replaying", "running"):
        monkeypatch.setattr(f"lockstep.cli.batches.{door}.engine_for", engine_for)


def archiving(here, tmp_path, within="7d", **settings: Any):
    """Names an archive in the drill's definition, over a topic that keeps records for a day."""
    here.rewrite("import Append,", "import Append, Archive,")
    place = tmp_path / "archive"
    here.rewrite("limits=Limits", f'archive=Archive("file://{place}", within="{within}"), limits=Limits')
    settings = {"retention_ms": 24 * HOUR} | settings
    pairs = [(name.replace("_", "."), str(value)) for name, value in settings.items()]
    alter(here.drill.kafka, ConfigResource.Type.TOPIC, here.drill.topic, pairs)
    return place


def produced(here, count, partition=0, hours_ago=1.0):
    producer = Producer({"bootstrap.servers": here.drill.kafka})
    for n in range(count):
        stamp = int(time.time() * 1000 - hours_ago * HOUR)
        producer.produce(
            here.drill.topic, json.dumps({"id": f"a{n}", "n": n}), f"k{n}", partition=partition, timestamp=stamp
        )
    producer.flush(20)


def only_partition(here, topic, hours_ago=1.0):
    """Leads the drill to a topic of one partition with 60 records of an age."""
    name = topic(partitions=1)
    here.rewrite(here.drill.topic, name)
    here.drill.topic = name
    produced(here, 60, hours_ago=hours_ago)


def drop_log(here, below, partition=0):
    delete_records(here.drill.kafka, here.drill.topic, below, partition)


def ok(said):
    assert said.code == Exit.DONE, said
    return said


def test_what_is_archived_is_replayed_below_log_start_and_a_damaged_file_is_refused(here, lockstep, tmp_path):
    place = archiving(here, tmp_path)
    ok(lockstep("run", "drill", "--until-idle"))
    before = here.drill.ask(ROWS)
    ends = [high_end(here.drill.kafka, here.drill.topic, p) for p in range(3)]

    said = ok(lockstep("archive", "drill", "--json"))

    assert said.document["place"] == f"file://{place}"
    assert [(f["from_offset"], f["until_offset"], f["records"]) for f in said.document["copied"]] == [
        (0, end, end) for end in ends
    ]
    assert ok(lockstep("archive", "drill", "--json")).document["copied"] == []
    for p, end in enumerate(ends):
        drop_log(here, end, p)
    here.drill.ask("delete from public.drill where mod(_offset, 3) = 0 returning 1")
    damaged = lockstep("verify", "drill", "--deep")
    assert (damaged.code, "coordinates and contents WRONG" in damaged.out) == (Exit.REFUSED, True)

    ok(lockstep("replay", "drill", "--from", "0:0,1:0,2:0", "--reason", "rows were deleted"))

    assert here.drill.ask(ROWS) == before
    checks = ok(lockstep("verify", "drill", "--deep", "--json")).document["checks"]
    whole = [c for c in checks if c["name"].endswith("every record exactly once")]
    assert [(c["proves"], c["left_out"] or "") for c in whole] == [("coordinates", "")] * 3
    routes = here.drill.ask("select route ->> 'because' from lockstep.attempt order by token desc limit 1")
    assert routes[0][0].endswith("it begins below log start, in the archive")

    file = place / here.drill.ask(ARCHIVED)[1][3]
    content = file.read_bytes()
    file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    refused = lockstep("replay", "drill", "--from", "1:0", "--until", f"1:{ends[1]}")
    assert (refused.code, refused.err.count("\n")) == (Exit.REFUSED, 1)
    for word in (f"-1 [0, {ends[1]})", str(file), "its sha256 is", "  Next: lockstep archive drill --check"):
        assert word in refused.err
    assert here.drill.ask(ROWS) == before
    checked = lockstep("archive", "drill", "--check", "--json")
    assert (checked.code, checked.document["checked"], len(checked.document["damaged"])) == (Exit.REFUSED, 2, 1)
    assert_refused(lockstep("verify", "drill", "--deep"), str(file), "its sha256 is")
    file.write_bytes(content)
    ok(lockstep("archive", "drill", "--check"))
    erase = lockstep("erase", "drill", "--key", "r1", "--column", "id", "--reason", "case 1", "--preview")
    assert "3 archived files, if records of the key are in them: lockstep archive drill --drop-before" in erase.out
    ok(lockstep("replay", "drill", "--from", "1:0", "--until", f"1:{ends[1]}"))
    assert here.drill.ask(ROWS) == before


@pytest.mark.long
def test_what_was_not_archived_is_a_loss_to_accept_and_the_live_lane_reads_the_rest(here, lockstep, tmp_path, topic):
    only_partition(here, topic, hours_ago=15)
    archiving(here, tmp_path, within="12h")
    ok(lockstep("plan", "drill"))
    ok(lockstep("skip", "drill", "--to", "0:10", "--reason", "a first plan"))
    produced(here, 20, hours_ago=14)  # [60, 80): due
    produced(here, 20, hours_ago=0)  # [80, 100): not due
    ok(lockstep("archive", "drill"))
    assert [row[:3] for row in here.drill.ask(ARCHIVED)] == [(0, 80, 80)]
    produced(here, 20, hours_ago=0)
    drop_log(here, 90)

    assert_refused(
        lockstep("accept-loss", "drill", "--partition", "0", "--from", "10", "--until", "90", "--reason", "gone"),
        "the archive holds [10, 80), which can still be read",
        "lockstep run drill",
    )
    assert ok(lockstep("status", "drill", "--json")).document["health"] != "blocked"
    (told,) = lockstep("retention", "drill", "--json").document["partitions"]
    assert (told["state"], told["first_unread"], told["log_start"]) == ("lost", 80, 90)
    assert told["next"] == "lockstep run drill --until-idle"
    ok(lockstep("run", "drill"))
    assert [offset for *_, offset, _ in here.drill.ask(ROWS)] == list(range(10, 80))
    blocked = lockstep("run", "drill")
    assert blocked.code == Exit.BLOCKED
    assert "offsets [80, 90) were deleted before they were committed" in blocked.err
    assert "accept-loss drill --partition 0 --from 80 --until 90" in blocked.err
    assert ok(lockstep("archive", "drill", "--json")).document["missed"] == [f"{here.drill.topic}-0 [80, 90)"]
    ok(lockstep("accept-loss", "drill", "--partition", "0", "--from", "80", "--until", "90", "--reason", "gone"))
    ok(lockstep("run", "drill", "--until-idle"))
    ok(lockstep("fill", "drill"))
    assert [offset for *_, offset, _ in here.drill.ask(ROWS)] == [*range(80), *range(90, 120)]
    ok(lockstep("verify", "drill", "--deep"))
    # Behind the hole, later files: the segments on both sides of it can be replayed, and none over it.
    ok(lockstep("replay", "drill", "--from", "0:0", "--until", "0:80"))
    refused = lockstep("replay", "drill", "--from", "0:0", "--until", "0:120")
    assert refused.code == Exit.DONE, "the hole belongs to no segment"
    assert [offset for *_, offset, _ in here.drill.ask(ROWS)] == [*range(80), *range(90, 120)]


@pytest.mark.long
def test_a_time_below_log_start_is_looked_up_in_the_archive_and_gaps_are_told_apart_there(
    here, lockstep, tmp_path, topic, produce
):
    only_partition(here, topic, hours_ago=6)
    archiving(here, tmp_path)
    for hours in (5, 4, 3):
        ok(lockstep("run", "drill", "--until-idle"))
        produced(here, 20, hours_ago=hours)
    produce(here.drill.topic, [("k", "{}")] * 3, partition=0, end="abort")  # [120, 124)
    produced(here, 20, hours_ago=2)
    ok(lockstep("run", "drill", "--until-idle"))
    before = here.drill.ask(ROWS)
    in_log = ok(lockstep("holes", "drill", "--explain", "--json")).document
    assert (in_log["offsets"], in_log["counts"]["aborted"], in_log["counts"]["marker"]) == (144, 3, 1)
    ok(lockstep("archive", "drill"))
    drop_log(here, 140)

    def hours_ago(hours: float) -> str:
        return datetime.fromtimestamp(time.time() - hours * 3600, UTC).isoformat()

    within = ("--from", hours_ago(5.5), "--until", hours_ago(3.5))
    said = ok(lockstep("replay", "drill", *within, "--json")).document
    assert [(w["from_offset"], w["until_offset"]) for w in said["windows"]] == [(60, 100)]
    assert here.drill.ask(ROWS) == before
    told = ok(lockstep("holes", "drill", "--explain", "--json")).document
    (gap,) = told["gaps"]
    assert (gap["from_offset"], gap["until_offset"], gap["kind"], gap["count"]) == (120, 124, "invisible", 4)
    part = ok(lockstep("holes", "drill", "--explain", *within, "--json")).document
    assert (part["offsets"], part["gaps"]) == (40, [])
    resolved = here.drill.ask('select "offset" from lockstep.boundary order by 1')
    assert resolved == [(60,), (100,)], "once and for all"
    earlier = ok(lockstep("hours", "drill", "--since", hours_ago(5.5), "--json")).document["earlier"]
    assert len(earlier) >= 4
    assert all(hour["complete"] for hour in earlier), earlier


@pytest.mark.long
def test_a_segment_that_is_archived_in_part_is_not_replayed(here, lockstep, tmp_path, topic):
    only_partition(here, topic)
    archiving(here, tmp_path, within="12h")
    produced(here, 20, hours_ago=0)
    ok(lockstep("run", "drill", "--until-idle"))
    before = here.drill.ask(ROWS)
    alter(here.drill.kafka, ConfigResource.Type.TOPIC, here.drill.topic, [("retention.ms", str(12 * HOUR + HOUR // 2))])
    ok(lockstep("archive", "drill"))
    assert [row[:3] for row in here.drill.ask(ARCHIVED)] == [(0, 60, 60)]
    drop_log(here, 70)

    refused = lockstep("replay", "drill", "--from", "0:0", "--until", "0:80")

    assert_refused(refused, "[0, 80): its first segment begins below the log's start 70, and [60, 70) is not archived")
    assert here.drill.ask(ROWS) == before
    left = ok(lockstep("verify", "drill", "--deep", "--json")).document["checks"]
    assert ["1 batches that the log no longer holds" in (c["left_out"] or "") for c in left].count(True) == 1


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("archive.file_closed=kill", marks=pytest.mark.long),
        pytest.param("archive.read_back=kill", marks=pytest.mark.long),
        "archive.row_written=kill",
    ],
)
def test_a_kill_before_the_row_is_committed_leaves_nothing_that_counts(here, lockstep, tmp_path, topic, fault):
    only_partition(here, topic)
    place = archiving(here, tmp_path)
    ok(lockstep("run", "drill", "--until-idle"))
    before = here.drill.ask(ROWS)
    armed = tmp_path / "armed"
    armed.touch()
    command = [*LOCKSTEP, "archive", "drill"]
    environ = os.environ | {"LOCKSTEP_FAULT": f"{fault}@{armed}"}

    killed = subprocess.run(command, env=environ, capture_output=True, check=False)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (stray,) = place.rglob("*.parquet")
    assert here.drill.ask(ARCHIVED) == []
    strays = ok(lockstep("archive", "drill", "--check", "--json")).document["strays"]
    assert strays == [str(stray.relative_to(place))]
    ok(lockstep("archive", "drill"))
    (row,) = here.drill.ask(ARCHIVED)
    assert (row[:3], place / row[3] == stray) == ((0, 60, 60), False)
    stray.unlink()
    drop_log(here, 60)
    ok(lockstep("replay", "drill", "--from", "0:0", "--until", "0:60"))
    assert here.drill.ask(ROWS) == before


@pytest.mark.long
def test_a_file_whose_row_is_committed_stays_when_the_answer_is_lost(here, lockstep, tmp_path, topic, monkeypatch):
    only_partition(here, topic)
    place = archiving(here, tmp_path)
    ok(lockstep("run", "drill", "--until-idle"))
    before = here.drill.ask(ROWS)
    with monkeypatch.context() as losing:

        @contextmanager
        def lost(conn, name):
            with deciding(conn, name) as cur:
                yield cur
            raise Unreachable("the connection to the ledger's database was lost")

        losing.setattr("lockstep.steps.upkeep.copy_stretch.deciding", lost)
        assert lockstep("archive", "drill").code == Exit.AWAY
    assert [row[:3] for row in here.drill.ask(ARCHIVED)] == [(0, 60, 60)]
    assert [str(file.relative_to(place)) for file in place.rglob("*.parquet")] == [here.drill.ask(ARCHIVED)[0][3]]
    ok(lockstep("archive", "drill", "--check"))
    drop_log(here, 60)
    ok(lockstep("replay", "drill", "--from", "0:0", "--until", "0:60"))
    assert here.drill.ask(ROWS) == before


def flips(here, path):  # noqa: ARG001 - as the others
    content = path.read_bytes()
    path.write_bytes(content[:9] + bytes([content[9] ^ 1]) + content[10:])


def deletes(here, path):  # noqa: ARG001
    drop_log(here, 1)


def archives(here, path):  # noqa: ARG001
    put_archived(here.at.conn, 0, 59, 60)


@pytest.mark.long
@pytest.mark.parametrize(
    ("meanwhile", "why"),
    [
        (flips, "its sha256 is"),
        (deletes, "the log now starts at 1: records were deleted while they were copied"),
        (archives, "cannot be archived any more"),
    ],
)
def test_what_happens_while_a_file_is_copied_keeps_it_from_counting(
    here, lockstep, tmp_path, topic, monkeypatch, meanwhile, why
):
    only_partition(here, topic)
    place = archiving(here, tmp_path)
    ok(lockstep("run", "drill", "--until-idle"))
    put = ArchiveStore.put

    def also(store, path, local) -> None:
        put(store, path, local)
        meanwhile(here, place / path)

    monkeypatch.setattr(ArchiveStore, "put", also)
    assert_refused(lockstep("archive", "drill"), "-0 [0, 60)", why)
    assert [row[:2] for row in here.drill.ask(ARCHIVED) if row[0] == 0] == []
    assert list(place.rglob("*.parquet")) == []


@pytest.mark.long
def test_a_record_that_no_client_of_python_reads_keeps_no_other_from_being_copied(here, lockstep, tmp_path, topic):
    only_partition(here, topic)
    archiving(here, tmp_path)
    ok(lockstep("run", "drill", "--until-idle"))
    for count in (0, 4, 0):  # two of them stand side by side, and one is the last
        produced(here, count)
        send_with_header(here.drill.kafka, here.drill.topic, b"caf\xe9", b"{}")
    for _ in range(2):
        said = lockstep("archive", "drill")
        named = f"{here.drill.topic}-0: the record at offset 60 has a header whose name is no UTF-8"
        assert (said.code, named in said.err) == (Exit.DATA, True), said
        assert [row[:3] for row in here.drill.ask(ARCHIVED)] == [(0, 60, 60), (61, 65, 4)]


@pytest.mark.long
def test_a_batch_that_began_in_the_log_is_not_whole_by_the_archive(here, lockstep, tmp_path, topic):
    """Its reader may have missed what the log lost meanwhile, and the archive does not tell."""
    only_partition(here, topic)
    archiving(here, tmp_path)
    batch = here.plan()
    attempt = stage(here.at, here.engine, here.folder, 1, Caller("me"))
    ok(lockstep("archive", "drill"))
    drop_log(here, 60)

    with pytest.raises(Refusal, match="the log now starts at 60: records of batch 1 were deleted"):
        validate(here.at, here.folder, attempt)

    assert batch.ranges[0].offsets.until_offset == 60
    ok(lockstep("run", "drill"))
    assert [offset for *_, offset, _ in here.drill.ask(ROWS)] == list(range(60))


@pytest.mark.long
def test_a_log_that_grew_is_one_archive(here, lockstep, tmp_path, topic):
    only_partition(here, topic)
    archiving(here, tmp_path)
    ok(lockstep("run", "drill", "--until-idle"))
    produced(here, 10)
    ok(lockstep("archive", "drill"))  # [60, 70) is not committed yet
    grow(here.drill.kafka, here.drill.topic, 2)
    ok(lockstep("run", "drill", "--until-idle"))
    produced(here, 10)
    ok(lockstep("run", "drill", "--until-idle"))
    ok(lockstep("archive", "drill"))
    before = here.drill.ask(ROWS)
    assert [row[:2] for row in here.drill.ask(ARCHIVED)] == [(0, 70), (70, 80)]
    assert {row[2] for row in before} == {1, 2}, "two streams of one log"
    drop_log(here, 80)
    here.drill.ask("delete from public.drill where mod(_offset, 3) = 0 returning 1")

    ok(lockstep("replay", "drill", "--from", "0:0", "--until", "0:80"))

    assert here.drill.ask(ROWS) == before
    ok(lockstep("verify", "drill", "--deep"))
    ok(lockstep("reap"))


@pytest.mark.long
def test_old_files_are_dropped_by_a_decision_and_none_that_is_needed(here, lockstep, tmp_path, topic):
    only_partition(here, topic)
    place = archiving(here, tmp_path)
    ok(lockstep("run", "drill", "--until-idle"))
    ok(lockstep("archive", "drill"))
    produced(here, 10, hours_ago=1)
    ok(lockstep("archive", "drill"))
    assert [row[:3] for row in here.drill.ask(ARCHIVED)] == [(0, 60, 60), (60, 70, 10)]
    tomorrow, drop = "2999-01-01", ("archive", "drill", "--drop-before")
    assert_refused(lockstep(*drop, tomorrow), "a decision needs a reason", code=Exit.USAGE)
    assert ok(lockstep(*drop, "2001-01-01", "--reason", "old", "--json")).document["dropped"] == []

    said = ok(lockstep(*drop, tomorrow, "--reason", "old", "--json")).document

    assert (len(said["dropped"]), said["removed"]) == (1, 1)
    assert [line.partition(": ")[2] for line in said["left"]] == ["records of it are not committed"]
    assert len(list(place.rglob("*.parquet"))) == 1
    with transaction(here.at.conn, OWNER) as cur:  # as under a former name
        cur.execute("update lockstep.archived set path = 'former/' || path where upper(offsets) = 70")
    (place / "drill").rename(place / "former_drill")
    (place / "former").mkdir()
    (place / "former_drill").rename(place / "former" / "drill")
    ((kind, why, detail),) = here.drill.ask(
        "select kind, why, detail from lockstep.decision where kind = 'drop-archived'"
    )
    assert (kind, why, [file["path"] for file in detail["files"]]) == ("drop-archived", "old", said["dropped"])
    ok(lockstep("archive", "drill"))
    assert len(here.drill.ask(ARCHIVED)) == 2, "what was dropped is not archived again"
    drop_log(here, 60)
    assert_refused(lockstep("replay", "drill", "--from", "0:0", "--until", "0:60"), "cannot be read again")
    ok(lockstep("run", "drill", "--until-idle"))
    armed = tmp_path / "armed"
    armed.touch()
    environ = os.environ | {"LOCKSTEP_FAULT": f"archive.drop_decided=kill@{armed}"}
    command = [*LOCKSTEP, *drop, tomorrow, "--reason", "older"]
    assert subprocess.run(command, env=environ, check=False).returncode == -signal.SIGKILL
    again = ok(lockstep(*drop, tomorrow, "--reason", "older", "--json")).document
    assert (again["dropped"], again["removed"], again["held"]) == ([], 1, [])
    assert list(place.rglob("*.parquet")) == []


@pytest.mark.long
def test_a_topic_that_is_made_anew_has_an_archive_of_its_own(here, lockstep, tmp_path):
    archiving(here, tmp_path)
    ok(lockstep("run", "drill", "--until-idle"))
    ok(lockstep("archive", "drill"))
    first = here.drill.ask(ARCHIVED)
    recreate(here.drill.kafka, here.drill.topic)
    assert_refused(lockstep("archive", "drill"), "the log is not the same any more", "lockstep retire drill")
    ok(lockstep("retire", "drill", "--reason", "made anew", "--from", "log-start"))
    produced(here, 5)
    archive_again = [("retention.ms", str(24 * HOUR))]
    alter(here.drill.kafka, ConfigResource.Type.TOPIC, here.drill.topic, archive_again)
    ok(lockstep("run", "drill", "--until-idle"))
    ok(lockstep("archive", "drill"))
    drop_log(here, 5)

    ok(lockstep("replay", "drill", "--from", "0:0", "--until", "0:5"))

    rows = here.drill.ask("select id from public.drill order by _stream desc, _offset limit 5")
    assert [id_ for (id_,) in rows] == [f"a{n}" for n in range(5)]
    others = [row for row in here.drill.ask(ARCHIVED) if row not in first]
    assert (0, 5, 5) in [row[:3] for row in others]
    ids = {row[3].split("/")[2] for row in first}, {row[3].split("/")[2] for row in others}
    assert len(ids[0]) == len(ids[1]) == 1
    assert ids[0] != ids[1]
    ok(lockstep("archive", "drill", "--check"))


@pytest.mark.long
def test_what_the_archive_cannot_do_is_one_line(here, lockstep, tmp_path):
    assert_refused(lockstep("archive", "drill"), "its definition names no archive", "lockstep check drill")
    place = archiving(here, tmp_path, retention_ms=-1)
    assert_refused(lockstep("archive", "drill"), "nothing was planned yet", "lockstep run drill")
    ok(lockstep("run", "drill", "--until-idle"))
    assert "retention deletes nothing of what drill reads" in ok(lockstep("archive", "drill")).out
    alter(here.drill.kafka, ConfigResource.Type.TOPIC, here.drill.topic, [("retention.bytes", "100000000")])
    assert "nothing is due" in ok(lockstep("archive", "drill")).out
    alter(here.drill.kafka, ConfigResource.Type.TOPIC, here.drill.topic, [("retention.bytes", "100")])
    place.write_text("no folder")
    assert_refused(lockstep("archive", "drill"), str(place))
    place.unlink()
    assert len(ok(lockstep("archive", "drill", "--json")).document["copied"]) == 3, "by size"
    for words in (
        ("--check", "--drop-before", "2020-01-01"),
        ("--reason", "x"),
        ("--drop-before", "soon", "--reason", "x"),
    ):
        assert lockstep("archive", "drill", *words).code == Exit.USAGE


@pytest.fixture
def _small_files(monkeypatch):
    """Makes files of some records, and in each of them groups of seven."""
    monkeypatch.setattr("lockstep.steps.upkeep.copy_stretch.FILE_BYTES", 400)
    monkeypatch.setattr("lockstep.engine.archive_file.ROWS_PER_GROUP", 7)


TRANSFORM = """
def transform(records):
    return records.where("n % 7 <> 3")
"""


@pytest.mark.long
@pytest.mark.usefixtures("_small_files")
@pytest.mark.parametrize(
    ("code", "more"),
    [
        (TRANSFORM, ""),
        (None, ""),
        (None, "guarantee=PerPartition(), "),
        (TRANSFORM, "guarantee=PerPartition(), "),
    ],
)
def test_a_batch_below_log_start_has_the_same_rows_on_every_route(here, lockstep, tmp_path, topic, code, more):
    only_partition(here, topic)
    archiving(here, tmp_path)
    here.rewrite("import Append, ", "import Append, PerPartition, ")
    here.rewrite("limits=Limits", f"{more}limits=Limits")
    lockstep.environ(SPARK_MASTER="local[2]", LOCKSTEP_ENGINE="spark")
    ok(lockstep("migrate", "drill"))
    if code:
        (here.drill.home / "drill" / "transform.py").write_text(code)
    else:
        produced(here, 1, hours_ago=1)  # the last one does not decode by columns
        producer = Producer({"bootstrap.servers": here.drill.kafka})
        producer.produce(here.drill.topic, '{"id": 5, "n": 5.0}', timestamp=int(time.time() * 1000 - HOUR))
        producer.flush(20)
    ok(lockstep("run", "drill", "--until-idle"))
    ok(lockstep("archive", "drill"))
    assert len(here.drill.ask(ARCHIVED)) > 3
    before, end = here.drill.ask(ROWS), high_end(here.drill.kafka, here.drill.topic, 0)
    kept = here.drill.ask('select stream_id, "offset", reason, value, key from lockstep.reject order by 1, 2')
    produced(here, 30, hours_ago=0)
    drop_log(here, end - 20)  # the segment goes on in the log
    here.drill.ask("delete from public.drill where _offset > 5 returning 1")

    ok(lockstep("replay", "drill", "--from", "0:0", "--until", f"0:{end}"))

    assert here.drill.ask(ROWS) == before
    assert here.drill.ask('select stream_id, "offset", reason, value, key from lockstep.reject order by 1, 2') == kept
    route = here.drill.ask(
        "select route ->> 'way', route ->> 'because' from lockstep.attempt order by token desc limit 1"
    )
    assert (route[0][0], route[0][1].endswith("it begins below log start, in the archive")) == ("spark", True)
    ok(lockstep("verify", "drill", "--deep"))


@pytest.fixture
def several(here, produce, topic, tmp_path):
    """Leads the drill to two topics with an archive. Both have records at the same offsets of partition 0."""
    found = Several(here, produce, topic(partitions=1))
    here.rewrite("import Append,", "import Append, Archive, PerPartition,")
    found.say(
        found.pair(), "limits=Limits", f'archive=Archive("file://{tmp_path}/archive", within="30d"), limits=Limits'
    )
    for end, count in (("eu", 40), ("us", 25)):
        found.make(end, partitions=1)
        alter(found.kafka, ConfigResource.Type.TOPIC, found.name(end), [("retention.ms", str(24 * HOUR))])
        found.send(end, 0, count)
    return found


@pytest.mark.long
@pytest.mark.usefixtures("_small_files")
@pytest.mark.parametrize(
    ("way", "code", "more"),
    [
        ("process", None, ""),
        ("spark", None, ""),
        ("spark", None, "guarantee=PerPartition(), "),
        ("spark", TRANSFORM, ""),
    ],
)
def test_each_topic_of_a_batch_is_read_from_its_own_files(several, lockstep, way, code, more):
    here, eu, us = several.here, several.name("eu"), several.name("us")
    here.rewrite("limits=Limits", f"{more}limits=Limits")
    lockstep.environ(SPARK_MASTER="local[2]", LOCKSTEP_ENGINE=way)
    if code:
        (here.drill.home / "drill" / "transform.py").write_text(code)
    ok(lockstep("migrate", "drill"))
    ok(lockstep("run", "drill", "--until-idle"))
    before = here.drill.ask(ROWS)

    copied = ok(lockstep("archive", "drill", "--json")).document

    tiles = [(f["topic"], f["from_offset"], f["until_offset"]) for f in copied["copied"]]
    assert (tiles[0][:2], tiles[-1][::2]) == ((eu, 0), (us, 25))
    held = [(h["topic"], h["partition"], h["from_offset"], h["until_offset"], h["records"]) for h in copied["held"]]
    assert held == [(eu, 0, 0, 40, 40), (us, 0, 0, 25, 25)]
    delete_records(here.drill.kafka, eu, 40)
    delete_records(here.drill.kafka, us, 10)
    here.drill.ask("delete from public.drill where mod(_offset, 3) = 0 returning 1")
    assert lockstep("verify", "drill", "--deep").code == Exit.REFUSED

    first = here.drill.ask("select min(batch_id) from lockstep.commit")[0][0]
    ok(lockstep("replay", "drill", "--from", str(first)))

    assert here.drill.ask(ROWS) == before
    checks = ok(lockstep("verify", "drill", "--deep", "--json")).document["checks"]
    whole = [c for c in checks if c["name"].endswith("every record exactly once")]
    assert [(c["proves"], c["left_out"] or "") for c in whole] == [("coordinates", "")] * 2
    route = here.drill.ask(
        "select route ->> 'way', route ->> 'because' from lockstep.attempt order by token desc limit 1"
    )
    assert (route[0][0], route[0][1].endswith("it begins below log start, in the archive")) == (way, True)
    ok(lockstep("replay", "drill", "--topic", us, "--from", "0:0"))
    assert here.drill.ask(ROWS) == before


@pytest.mark.long
def test_what_one_topic_lost_is_its_own_and_the_other_is_read_from_files(several, lockstep):
    here, eu, us = several.here, several.name("eu"), several.name("us")
    ok(lockstep("run", "drill", "--until-idle"))
    several.send("eu", 40, 10)
    several.send("us", 25, 6)
    ok(lockstep("archive", "drill"))
    several.send("us", 31, 4)
    delete_records(here.drill.kafka, eu, 50)
    delete_records(here.drill.kafka, us, 33)

    blocked = lockstep("run", "drill", "--until-idle")

    assert blocked.code == Exit.BLOCKED
    next_ = f"lockstep accept-loss drill --topic {us} --partition 0 --from 31 --until 33 --reason"
    assert_refused(blocked, f"{us}-0: offsets [31, 33) were deleted", next_, code=Exit.BLOCKED)
    loss = ("--partition", "0", "--reason", "too late")
    kept = lockstep("accept-loss", "drill", "--topic", eu, "--from", "40", "--until", "50", *loss)
    assert kept.code == Exit.REFUSED
    ok(lockstep("accept-loss", "drill", "--topic", us, "--from", "31", "--until", "33", *loss))
    ok(lockstep("run", "drill", "--until-idle"))
    assert several.rows() == [row for row in several.whole() if row[1] not in {"us31", "us32"}]
    ok(lockstep("verify", "drill", "--deep"))


@pytest.mark.long
def test_a_topic_that_is_made_anew_keeps_no_other_from_being_copied(several, lockstep):
    here, eu, us = several.here, several.name("eu"), several.name("us")
    ok(lockstep("run", "drill", "--until-idle"))
    recreate(here.drill.kafka, eu, 1)

    refused = lockstep("archive", "drill")

    assert_refused(refused, f"{eu}-0: the log is not the same any more", f"lockstep retire drill --topic {eu} --reason")
    assert here.drill.ask(
        "select s.topic, lower(a.offsets), upper(a.offsets) from lockstep.archived a join lockstep.stream s using (stream_id)"
    ) == [(us, 0, 25)]


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """Starts an S3 server over a folder, and yields the place of a bucket there. Its keys are in the environment."""
    port = free_port()
    (tmp_path / "s3" / "raw").mkdir(parents=True)
    keys = {"ROOT_ACCESS_KEY": "AKIACANARY", "ROOT_SECRET_KEY": "s3cr3t-canary"}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", keys["ROOT_ACCESS_KEY"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", keys["ROOT_SECRET_KEY"])
    server = subprocess.Popen(
        [versitygw(), "--port", f"127.0.0.1:{port}", "posix", str(tmp_path / "s3")],
        env=os.environ | keys,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(lambda: answers(port), "no S3 server")
    yield f"s3://raw/lockstep?region=us-east-1&scheme=http&endpoint_override=127.0.0.1:{port}"
    server.kill()
    server.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def answers(port: int) -> bool:
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.long
def test_an_archive_in_s3_is_read_as_one_in_a_folder_and_its_keys_stand_nowhere(
    here, lockstep, tmp_path, topic, bucket
):
    only_partition(here, topic)
    place = archiving(here, tmp_path)
    here.rewrite(f"file://{place}", bucket)
    ok(lockstep("run", "drill", "--until-idle"))
    before = here.drill.ask(ROWS)
    said = [ok(lockstep("archive", "drill")), ok(lockstep("archive", "drill", "--check", "--json"))]
    assert said[1].document["place"] == "s3://raw/lockstep"
    assert (said[1].document["checked"], said[1].document["strays"]) == (1, [])
    drop_log(here, 60)
    here.drill.ask("delete from public.drill where _offset > 5 returning 1")

    said.append(ok(lockstep("replay", "drill", "--from", "0:0", "--until", "0:60")))

    assert here.drill.ask(ROWS) == before
    said.append(ok(lockstep("verify", "drill", "--deep")))
    (path,) = (row[3] for row in here.drill.ask(ARCHIVED))
    store = ArchiveStore(bucket)
    content = store.content(path)
    (tmp_path / "other").write_bytes(content[::-1])
    store.put(path, tmp_path / "other")
    said.append(lockstep("replay", "drill", "--from", "0:0", "--until", "0:60"))
    assert (said[-1].code, "its sha256 is" in said[-1].err) == (Exit.REFUSED, True)
    (tmp_path / "other").write_bytes(content)
    store.put(path, tmp_path / "other")
    with pytest.MonkeyPatch.context() as wrong:
        wrong.setenv("AWS_SECRET_ACCESS_KEY", "wr0ng-canary")
        said.append(lockstep("archive", "drill", "--check"))
        assert (said[-1].code, "archive s3://raw/lockstep/" in said[-1].err) == (Exit.AWAY, True)
    drop = ("archive", "drill", "--drop-before", "2999-01-01", "--reason", "old", "--json")
    held = ok(lockstep(*drop)).document
    assert (held["dropped"], held["left"][0].partition(": ")[2]) == ([], "a batch under way reads it")
    said.append(ok(lockstep("replay", "drill", "--from", "0:0", "--until", "0:60")))
    dropped = lockstep(*drop)
    assert (dropped.code, dropped.document["removed"]) == (Exit.DONE, 1)
    assert list((tmp_path / "s3" / "raw").rglob("*.parquet")) == []
    ledger = here.drill.ask("select string_agg(d::text, '') from lockstep.definition d")
    ledger += here.drill.ask("select string_agg(a::text, '') from lockstep.attempt a")
    told = "".join(each.out + each.err for each in [*said, dropped]) + repr(ledger)
    assert not any(key in told for key in ("AKIACANARY", "s3cr3t-canary", "wr0ng-canary"))


def test_a_preview_that_is_shown_once_more_reaches_below_log_start_too(here, lockstep, tmp_path, monkeypatch):
    archiving(here, tmp_path)
    monkeypatch.setattr(type(here), "engine", property(lambda its: engine_for(its.folder, its.at)))
    ok(lockstep("plan", "drill"))
    ok(lockstep("skip", "drill", "--to", "latest", "--reason", "urgent"))
    ok(lockstep("archive", "drill"))
    for p in range(3):
        drop_log(here, high_end(here.drill.kafka, here.drill.topic, p), p)
    run = Run(here, action="fill", preview=True)
    (first,) = run.ask()
    with transaction(here.at.conn, OWNER) as cur:  # as behind a process that died
        cur.execute("update lockstep.request set closed_at = now() where request_id = %s", (first.request_id,))

    assert run.rehearse().state == "done"

    (shown,) = run.shown()
    assert (shown.windows, shown.rehearsal.difference["added"]) == (first.windows, 150)
