"""Tests which offsets log and archive hold together, which are due, and what a file must be to be read."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Message
from hypothesis import given
from hypothesis import strategies as st

import lockstep
from lockstep.adapters.archive.store import ArchiveStore
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.kafka_options import KafkaOptions
from lockstep.core.offsets import Bounds, OffsetRange, TopicPartition, TopicView, TopicViews
from lockstep.core.pipeline.definition import Append, Archive, Json, Pipeline
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.core.proof.accounting import Digest
from lockstep.core.retention.archive import ArchivedFile, due_below_size, due_stretches, missed_stretches
from lockstep.engine.archive_file import archive_rows
from lockstep.engine.archived_ranges import ArchivedRanges

END = 60
STRETCHES = st.lists(st.integers(0, END), max_size=8, unique=True).map(
    lambda cuts: tuple(zip(sorted(cuts)[::2], sorted(cuts)[1::2], strict=False))
)


@given(st.integers(0, END), STRETCHES, st.integers(0, END), st.integers(0, END))
def test_what_log_and_archive_hold_is_each_offset_that_one_of_them_holds(start, archived, one, other):
    bounds = Bounds(start, END, archived=archived)
    held = {o for o in range(END) if o >= start or any(begin <= o < end for begin, end in archived)}
    low, high = min(one, other), max(one, other)

    assert bounds.holds(low, high) == (held >= set(range(low, high)))
    assert {o for begin, end in bounds.held_within(low, high) for o in range(begin, end)} == held & set(
        range(low, high)
    )
    gap = bounds.gap(low)
    missing = sorted(set(range(low, END)) - held)
    assert (gap is None) == (not missing)
    if gap:
        assert gap[0] == missing[0]
        assert set(range(*gap)).isdisjoint(held)
        assert gap[1] in held or gap[1] == END
    assert bounds.holds(bounds.whole_from, END)
    assert bounds.whole_from == 0 or bounds.whole_from - 1 not in held
    assert bounds.lowest == min(held, default=start) or not held


@given(st.integers(0, END), st.integers(0, END), st.integers(0, 2 * END), STRETCHES)
def test_what_is_due_is_copied_once_and_never_what_is_gone_or_not_stable(start, least, until, known):
    found = due_stretches(Bounds(start, END), least, until, known)

    copied = [o for begin, end in found for o in range(begin, end)]
    files = {o for begin, end in known for o in range(begin, end)}
    assert copied == sorted(set(range(max(start, least), min(until, END))) - files)


@pytest.mark.parametrize(
    ("log_start", "known", "missed"),
    [
        (30, [], []),
        (30, [(0, 30)], []),
        (30, [(0, 10), (20, 40)], [(10, 20)]),
        (30, [(5, 10)], [(10, 30)]),
        (30, [(40, 50)], []),
    ],
)
def test_what_was_deleted_behind_the_first_file_is_missed(log_start, known, missed):
    assert missed_stretches(log_start, known) == missed


@pytest.mark.parametrize(
    ("limit", "coming", "size", "below", "reason"),
    [
        (1_000, 0, 10, 900, "100 records fit"),
        (1_000, 500, 10, 950, "and half of that, once 500 bytes more have come"),
        (1_000, 1_000, 10, 1_000, "all of it goes"),
        (1_000, 0, None, 1_000, "nobody knows how large a record is"),
        (10**9, 0, 10, 0, "nothing goes"),
    ],
)
def test_by_size_what_the_limit_has_no_room_for_is_due(limit, coming, size, below, reason):
    assert due_below_size(limit, coming, size, 1_000) == below, reason


@pytest.mark.parametrize(
    "place", ["file:///srv/archive", "file:///srv/a%20b", "s3://bucket", "s3://bucket/a/b?region=eu-central-1"]
)
def test_a_place_is_a_folder_or_a_bucket_and_the_ledger_gives_it_back(place):
    pipeline = Pipeline("orders", "t", Json("id string"), Append("public.o"), archive=Archive(place, within="36h"))
    assert pipeline_of_document(pipeline.document()) == pipeline
    assert pipeline.archive is not None
    assert pipeline.archive.ahead == timedelta(hours=36)
    assert "archive" not in replace(pipeline, archive=None).document(), "others keep their hash"


@pytest.mark.parametrize(
    "place", ["s3://AKIAKEY:SECRET@bucket/a", "s3://bucket/a?secret_key=SECRET&access_key=AKIAKEY"]
)
def test_a_key_in_a_place_is_refused_and_not_repeated(place):
    with pytest.raises(BadDefinition) as refused:
        Archive(place)
    assert "SECRET" not in str(refused.value)
    assert "AKIAKEY" not in str(refused.value)


def test_files_of_one_topic_hold_nothing_of_another():
    eu, us = (TopicView("cluster", name, name, {0: Bounds(40, 60)}) for name in ("eu", "us"))
    seen = TopicViews("cluster", (eu, us)).with_archived({TopicPartition("eu", 0): ((0, 40),)})
    assert seen[TopicPartition("eu", 0)].holds(0, 60)
    assert seen[TopicPartition("us", 0)] == Bounds(40, 60)
    assert us.with_archived({TopicPartition("eu", 0): ((0, 40),)}) == us


def written(store: ArchiveStore, folder, offsets=(3, 4, 6), path="f.parquet") -> ArchivedFile:
    stamp = (TIMESTAMP_CREATE_TIME, 5)
    messages = [Message(topic="t", partition=0, offset=o, value=b"v", timestamp=stamp) for o in offsets]
    local = folder / "local"
    pq.write_table(pa.Table.from_batches([archive_rows(messages)]), local)
    store.put(path, local)
    digest = Digest.of(offsets, 3)
    sha256 = hashlib.sha256(local.read_bytes()).hexdigest()
    return ArchivedFile(OffsetRange(TopicPartition("t", 0), 3, 8), path, digest.n, (digest.sum, digest.squares), sha256)


def test_a_file_that_is_not_the_one_of_its_row_is_refused_by_its_name(tmp_path):
    store = ArchiveStore(f"file://{tmp_path}/store")
    reader = ArchivedRanges("", KafkaOptions(), pipeline="orders", store=store)
    file = written(store, tmp_path)
    assert [m.offset() for part in reader.messages_of(file, 4, 8) for m in part] == [4, 6]
    other = written(store, tmp_path, (3, 5, 6), "other.parquet")
    wrongs = {
        "it is missing": replace(file, path="gone.parquet"),
        "its sha256 is": replace(file, path="other.parquet"),
        "it holds 3 records, written were 4": replace(file, records=4),
        "it holds 3 records, written were 3": replace(other, digest=file.digest),
    }
    (tmp_path / "store" / "no.parquet").write_bytes(b"PAR1")
    no = replace(file, path="no.parquet", sha256=hashlib.sha256(b"PAR1").hexdigest())
    for why, wrong in (wrongs | {"it is no Parquet file": no}).items():
        with pytest.raises(Refusal) as refused:
            reader.read_file(wrong)
        said = f"t-0 [3, 8): the archived file file://{tmp_path}/store/{wrong.path} cannot be read: {why}"
        assert refused.value.message.startswith(said)
        assert refused.value.next_command == "lockstep archive orders --check"


@pytest.mark.long  # the store is asked several times
def test_a_store_that_is_away_is_one_line_without_a_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAKEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    store = ArchiveStore("s3://bucket/a?region=x&scheme=http&endpoint_override=127.0.0.1:1")
    with pytest.raises(Refusal, match=r"archive s3://bucket/a/p: the store answered NETWORK_CONNECTION") as refused:
        store.content("p")
    assert "SECRET" not in str(refused.value)
    assert "AKIAKEY" not in str(refused.value)
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match=r"archive file://.*/file/p: File exists  Next: look at file://"):
        ArchiveStore(f"file://{tmp_path}/file").put("p", tmp_path / "file")


def test_the_cookbooks_recipe_is_a_definition_with_an_archive():
    recipe = Path(__file__).parents[2] / "docs" / "cookbook.md"
    found = re.search(
        r"^## Replay what Kafka has deleted\n\n```python\n((?:.*\n)+?)```", recipe.read_text(), re.MULTILINE
    )
    assert found
    made = eval(found[1], {name: getattr(lockstep, name) for name in lockstep.__all__})  # noqa: S307 - the page is ours
    assert made.archive == Archive("file:///srv/kafka-archive", "24h")
