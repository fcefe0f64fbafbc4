"""Tests that rows and rejects forged in staging are refused by batch, stream and number of rows.

The next run stages them again.
"""

from __future__ import annotations

import pytest

from lockstep.core.errors import Refusal
from lockstep.steps.batch.validate import validate
from support.scenes.forged import KINDS

FORGED = {
    "a value": "update {table} set n = n + 1 where _offset = 3",
    "a null": "update {table} set n = null where _offset = 3",
    "a key": "update {table} set id = 'forged' where _offset = 3",
    "values that change places": """update {table} t set n = o.n from {table} o
        where t._stream = o._stream and (t._offset, o._offset) in ((3, 4), (4, 3))""",
    "a tombstone": "update {table} set _deleted = true where _offset = 3",
    "an ordinal": "update {table} set _ordinal = 7 where _offset = 3",
}
OTHER_ROWS = {
    "missing": "delete from {table} where _offset = 3",
    "doubled": "insert into {table} select * from {table} where _offset = 3",
    "put in by hand": """insert into {table} (id, n, _stream, _offset, _ordinal, _task, _timestamp, _deleted)
        select 'by hand', 7, _stream, _offset, _ordinal + 1, _task, _timestamp, _deleted from {table} where _offset = 3""",
    "one for another": """delete from {table} where _offset = 3;
        insert into {table} select * from {table} where _offset = 4""",
}
OTHER_REJECTS = {
    "missing": "delete from {table} where _reason is not null and _value = 'no json'",
    "doubled": "insert into {table} select * from {table} where _value = 'no json'",
    "put in by hand": """insert into {table} (_stream, _offset, _ordinal, _task, _timestamp, _reason, _value)
        select _stream, _offset, 0, _task, _timestamp, 'by hand', 'x' from {table} where _offset = 3 and _reason is null""",
}
UNCOUNTED = (
    r"^t-.*-\d: batch 1, stream \d+: staged are \(rows, rejects\) \(\d+, \d+\), validated were \(\d+, \d+\)"
    r": the staging table has changed"
)
REJECTS_UNCOUNTED = (
    r"^t-.*-\d: batch 1, .* staged are \(rows, rejects\) \((\d+), (\d+)\), validated were \(\1, (?!\2\))\d+\)"
)
OF_TARGET = r"^t-.*-\d of batch 1: \d+ rows are staged for public\.\w+, \d+ were told: the staging table has changed"
FOUND = r"^t-.*-\d: batch 1, stream \d+: the contents of its \d+ rows have changed in staging"


@pytest.mark.parametrize("forged", FORGED)
def test_rows_forged_after_validate_are_refused_by_name(contents, forged):
    here = contents()
    attempt = here.validated()
    here.forge(attempt, FORGED[forged])
    with pytest.raises(Refusal, match=FOUND):
        here.commit(attempt)
    assert here.sql("select count(*) from public.drill") == [(0,)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", ["stage", "validate"])
def test_rows_forged_in_staging_are_refused_for_each_kind_of_target(contents, kind, after):
    here = contents(kind)
    attempt = here.staged()
    if after == "validate":
        validate(here.at, here.folder, attempt)
    here.forge(attempt, FORGED["a value"], place=int(kind == "several"))
    if after == "stage":
        validate(here.at, here.folder, attempt)
    with pytest.raises(Refusal, match=FOUND):
        here.commit(attempt)
    assert here.sql("select count(*) from public.drill") == [(0,)]
    here.drain()
    assert here.sql("select count(*) from public.drill") == [(150,)]
    assert here.check().ok


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", ["stage", "validate"])
@pytest.mark.parametrize("row", OTHER_ROWS)
def test_rows_that_are_missing_doubled_or_put_in_by_hand_are_refused_for_each_kind_of_target(
    contents, kind, after, row
):
    here = contents(kind)
    attempt = here.staged()
    if after == "validate":
        validate(here.at, here.folder, attempt)
    here.forge(attempt, OTHER_ROWS[row], place=int(kind == "several"))
    told = FOUND if row == "one for another" else f"{UNCOUNTED}|{OF_TARGET}"
    with pytest.raises(Refusal, match=told):
        here.finish(attempt, after)
    assert here.sql("select count(*) from public.drill") == [(0,)]
    here.drain()
    assert here.sql("select count(*), count(*) filter (where id = 'by hand') as forged from public.drill") == [(150, 0)]
    assert here.check().ok


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", ["stage", "validate"])
def test_a_row_put_in_for_no_task_of_the_batch_is_never_published(contents, kind, after):
    here = contents(kind)
    attempt = here.staged()
    if after == "validate":
        validate(here.at, here.folder, attempt)
    by_no_task = OTHER_ROWS["put in by hand"].replace("_ordinal + 1, _task,", "_ordinal + 1, -1,")
    here.forge(attempt, by_no_task, place=int(kind == "several"))
    here.finish(attempt, after)
    assert here.sql("select count(*), count(*) filter (where id = 'by hand') as forged from public.drill") == [(150, 0)]
    assert here.check().ok
    assert here.others() == set()


@pytest.mark.parametrize("after", ["stage", "validate"])
@pytest.mark.parametrize("reject", OTHER_REJECTS)
def test_rejects_that_are_missing_doubled_or_put_in_by_hand_are_refused(contents, produce, reject, after):
    here = contents()
    produce(here.drill.topic, [("k", "no json"), ("k", "nor this")])
    attempt = here.staged()
    if after == "validate":
        validate(here.at, here.folder, attempt)
    here.forge(attempt, OTHER_REJECTS[reject])
    with pytest.raises(Refusal, match=REJECTS_UNCOUNTED):
        here.finish(attempt, after)
    assert here.sql("select count(*) from lockstep.reject") == [(0,)]


def test_rejects_forged_in_staging_are_refused(contents, produce):
    here = contents()
    produce(here.drill.topic, [("k", "no json"), ("k", "nor this")])
    attempt = here.validated()
    here.forge(attempt, "update {table} set _value = 'forged' where _reason is not null")
    with pytest.raises(Refusal, match=r"the contents of its 2 rejects have changed in staging"):
        here.commit(attempt)


def test_a_row_of_another_batchs_stream_is_refused(contents):
    here = contents()
    attempt = here.validated()
    here.forge(attempt, "update {table} set _stream = 77 where _offset = 3")
    with pytest.raises(Refusal, match=r"rows of streams \[77\] are staged"):
        here.commit(attempt)


def test_an_attempt_without_digests_is_refused_and_staged_again(contents):
    here = contents()
    attempt = here.staged()
    here.sql("update lockstep.manifest set rows_digest = null")
    validate(here.at, here.folder, attempt)
    with pytest.raises(Refusal, match="was staged by a version that keeps no digest of contents"):
        here.commit(attempt)
    here.drain()
    assert here.check().ok


def test_a_preview_does_not_compare_forged_rows(contents, monkeypatch):
    here = contents()
    here.drain()

    def forging(at, folder, attempt):
        validate(at, folder, attempt)
        here.forge(attempt, "update {table} set n = 77 where _offset = 3")

    monkeypatch.setattr("lockstep.steps.requests.preview.validate", forging)
    with pytest.raises(Refusal, match="have changed in staging"):
        here.preview("replay")
