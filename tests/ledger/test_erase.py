"""Tests that erase removes every byte of a key, that verify holds, and that nothing brings the key back."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from psycopg2 import errors

from lockstep.adapters.folders import load
from lockstep.core.errors import LockTimeout, Superseded
from lockstep.core.pipeline.targets import Append
from lockstep.faults import InjectedFault
from lockstep.ledger.proof.verify_erased import ERASED_STAYS_OUT
from lockstep.steps.changes.hand_over import hand_over
from lockstep.steps.upkeep.reap import reap
from support.fakes.plain_engine import PlainEngine
from support.scenes.erasing import KEY, detail_of, erase_key, feed, holding, wrong
from support.scenes.forged import COORDINATES, KINDS
from support.scenes.here import ME, Here, into_two

PER_PARTITION = ", guarantee=PerPartition()"
CUSTOMERS = f"create table public.drill (id text primary key, customer text, n int, {COORDINATES});"
SHOWN = "select * from public.drill t order by t::text"
EVERY = [
    *(pytest.param((kind, ""), id=kind, marks=[pytest.mark.long] if kind == "by batch" else []) for kind in KINDS),
    *(
        pytest.param((kind, PER_PARTITION), id=f"{kind} per partition", marks=pytest.mark.long)
        for kind in ("append", "upsert")
    ),
]


@pytest.fixture(params=EVERY)
def fed(request, contents, produce):
    """Returns the drill, with each kind of target, after it has committed the person's records among others'."""
    kind, more = request.param
    here = contents(kind, more=more)
    feed(produce, here.drill.topic)
    here.drain()
    return here


def test_after_erase_no_table_holds_a_byte_of_the_key_and_verify_deep_holds(fed):
    held = holding(fed.drill.dsn)
    assert {"lockstep.reject.key", "lockstep.reject.value"} <= set(held)
    assert any(column.startswith("public.") for column in held)
    assert wrong(fed) == []

    done = erase_key(fed)

    assert done.changed
    assert done.rows["public.drill"] == (3 if isinstance(fed.folder.pipeline.first, Append) else 1)
    assert done.rows.get("lockstep.reject") == 3
    assert done.left == ()
    assert holding(fed.drill.dsn) == []
    assert wrong(fed) == []
    assert re.fullmatch(
        r"1 key by decision 1: .*3 of lockstep.reject, .* of public.drill", detail_of(fed, ERASED_STAYS_OUT)
    )


def test_a_replay_does_not_bring_the_key_back(fed):
    erase_key(fed)
    others = fed.sql("select count(*), sum(hashtext(id)) from public.drill")
    fed.replay("0:0")
    fed.replay("1:0")
    reap(fed.at.conn)
    assert holding(fed.drill.dsn) == []
    assert wrong(fed) == []
    assert fed.sql("select count(*), sum(hashtext(id)) from public.drill") == others


def test_a_second_erase_finds_nothing_and_says_so(fed):
    erase_key(fed)
    assert not erase_key(fed).changed
    assert fed.sql("select count(*) from lockstep.decision where kind = 'erase'") == [(1,)]
    assert fed.sql("select count(*) from lockstep.erasure") == [(1,)]


def test_a_preview_says_how_much_it_is_and_changes_nothing(fed):
    before = fed.sql(SHOWN)
    shown = erase_key(fed, preview=True)
    assert fed.sql(SHOWN) == before
    assert fed.sql("select count(*) from lockstep.decision") == [(0,)]
    assert erase_key(fed).rows == shown.rows


def test_records_that_wait_in_the_log_stay_out_and_later_ones_are_taken(fed, produce):
    topic = fed.drill.topic
    feed(produce, topic)  # not read yet
    erase_key(fed)
    fed.drain()
    reap(fed.at.conn)
    assert holding(fed.drill.dsn) == []
    assert wrong(fed) == []
    produce(topic, [(KEY, json.dumps({"id": KEY, "n": 99}))], partition=0)
    fed.drain()
    assert fed.sql(f"select count(*) from public.drill where id = '{KEY}'") == [(1,)]
    assert wrong(fed) == []


@pytest.mark.parametrize("point", ["erase.rows_gone", "erase.decided"])
def test_an_erase_that_dies_on_the_way_has_changed_nothing(contents, produce, monkeypatch, tmp_path, point):
    here = contents()
    feed(produce, here.drill.topic)
    here.drain()
    before, held = here.sql(SHOWN), holding(here.drill.dsn)
    (armed := tmp_path / "armed").touch()
    monkeypatch.setenv("LOCKSTEP_FAULT", f"{point}=raise@{armed}")
    with pytest.raises(InjectedFault):
        erase_key(here)
    assert here.sql(SHOWN) == before
    assert holding(here.drill.dsn) == held
    assert here.sql("select count(*) from lockstep.decision") == [(0,)]
    assert erase_key(here).changed
    assert holding(here.drill.dsn) == []


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_a_batch_that_has_staged_the_key_cannot_commit_it(contents, produce, kind):
    here = contents(kind)
    here.drain()
    feed(produce, here.drill.topic)
    attempt = here.validated()
    done = erase_key(here)
    assert done.abandoned == (attempt.batch_id,)
    assert holding(here.drill.dsn) == []  # its staging is gone
    with pytest.raises(Superseded):
        here.commit(attempt)
    here.drain()
    reap(here.at.conn)
    assert holding(here.drill.dsn) == []
    assert wrong(here) == []


def test_an_erase_beside_a_commit_under_way_changes_nothing_and_says_so(contents, produce, behind):
    here = contents()
    here.drain()
    feed(produce, here.drill.topic)
    attempt = here.validated()
    held = f"select from lockstep.batch where batch_id = {attempt.batch_id} for no key update"
    with behind(f"set local idle_in_transaction_session_timeout = 0; {held}"):
        with pytest.raises(LockTimeout, match="nothing was changed") as refused:
            erase_key(here)
        assert KEY not in str(refused.value)
    assert here.sql("select count(*) from lockstep.erasure") == [(0,)]
    here.commit(attempt)
    assert erase_key(here).rows["public.drill"] == 3  # of that very commit
    assert holding(here.drill.dsn) == []


def test_the_database_alone_refuses_an_attempt_from_before_the_erasure(contents, produce, monkeypatch):
    here = contents()
    here.drain()
    feed(produce, here.drill.topic)
    attempt = here.validated()
    monkeypatch.setattr("lockstep.ledger.changes.erasures.batches_under_way", lambda *_: [])
    assert erase_key(here).abandoned == ()
    with pytest.raises(errors.CheckViolation, match="erased_stays_out"):
        here.commit(attempt)
    assert here.sql(f"select count(*) from public.drill where id = '{KEY}'") == [(0,)]


def test_a_column_beside_the_key_of_an_upserted_table_is_erased_and_a_replay_stays_without(contents, produce):
    here = contents("upsert", target_sql=CUSTOMERS, schema="id string, customer string, n int")
    records = [("a", "ann", 1), ("b", KEY, 2), ("c", "bob", 3), ("c", KEY, 4), ("d", KEY, 5), ("d", "cid", 6)]
    for order, customer, n in records:
        produce(here.drill.topic, [(order, json.dumps({"id": order, "customer": customer, "n": n}))], partition=0)
    here.drain()
    done = erase_key(here, column="customer")
    assert done.rows == {"public.drill": 2}
    assert wrong(here) == []
    here.replay("0:0")
    reap(here.at.conn)
    assert holding(here.drill.dsn) == []
    assert wrong(here) == []
    assert here.sql("select id, customer from public.drill where id in ('a', 'b', 'c', 'd') order by 1") == [
        ("a", "ann"),
        ("c", "bob"),  # the newest record of c that is left
        ("d", "cid"),
    ]


def test_a_deletion_that_was_remembered_is_forgotten_and_the_dead_stay_dead(contents, produce):
    here = contents("upsert", schema='id string, n int", key="id')
    produce(here.drill.topic, [(KEY, json.dumps({"id": KEY, "n": 1})), (KEY, None)], partition=0)
    here.drain()
    assert holding(here.drill.dsn) == ["lockstep.tombstone.key"]
    assert erase_key(here).deletions == 1
    assert holding(here.drill.dsn) == []
    here.replay("0:0")
    reap(here.at.conn)
    assert holding(here.drill.dsn) == []
    assert wrong(here) == []


def test_a_uuid_is_found_however_it_is_written(contents, produce):
    table = f"create table public.drill (id uuid, n int, {COORDINATES}, primary key (_stream, _offset, _ordinal));"
    here = contents(target_sql=table)
    key = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    here.code = lambda value: value if len(value["id"]) > 30 else None  # the drill's own records are no uuids
    produce(here.drill.topic, [("k", json.dumps({"id": key.upper(), "n": 1}))], partition=0)
    here.drain()
    assert erase_key(here, "{" + key.replace("-", "") + "}").rows == {"public.drill": 1}
    here.replay("0:0")
    reap(here.at.conn)
    assert holding(here.drill.dsn, key) == []
    assert here.sql("select count(*) from public.drill") == [(0,)]


def test_a_fan_out_loses_the_rows_of_the_key_and_keeps_the_others(drill, produce):
    here = into_two(drill)
    feed(produce, drill.topic)
    here.drain()
    assert set(erase_key(here).rows) == {"public.drill", "public.newest", "lockstep.reject"}
    assert holding(drill.dsn) == []
    assert wrong(here) == []
    here.replay("0:0")
    reap(here.at.conn)
    assert holding(drill.dsn) == []
    assert wrong(here) == []


def test_bytes_that_are_kept_beside_a_transform_go_with_their_rows(contents, produce, monkeypatch):
    here = contents(more=', on_violation="quarantine"')
    folder = here.drill.home / "drill"
    (folder / "transform.py").write_text("def transform(df):\n    return df\n")
    expected = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}, "severity": "critical"}
    (folder / "expectations.json").write_text(json.dumps({"name": "s", "expectations": [expected]}))
    here.code = lambda value: value
    feed(produce, here.drill.topic)
    here.plan()
    erase_key(here)
    read = PlainEngine.read

    def read_with_bytes(engine, work, sink):
        lines = read(engine, work, sink)
        here.sql(
            f"insert into lockstep_staging.{work.raw_table} (_stream, _offset, _task, _key, _value)"
            f" select _stream, _offset, _task, _key, _value from lockstep_staging.{work.table}",
            "lockstep_stager",
        )
        return lines

    monkeypatch.setattr(PlainEngine, "read", read_with_bytes)
    attempt = here.staged()
    assert here.sql(f"select count(*) > 100 from lockstep_staging.{attempt.raw_table}", "lockstep_stager") == [(True,)]
    raw = here.sql(
        f"select _key, _value from lockstep_staging.{attempt.raw_table} where _value like '{{\"id%'", "lockstep_stager"
    )
    assert not [value for _, value in raw if KEY.encode() in bytes(value)]


class Renamed(Here):
    """The drill under another name."""

    @property
    def folder(self):
        return load("renamed")


def test_a_pipeline_that_was_given_the_table_keeps_the_key_out_and_erases_older_rows(contents, produce):
    old = contents("upsert")
    feed(produce, old.drill.topic)
    feed(produce, old.drill.topic, "person-4712")
    old.drain()
    feed(produce, old.drill.topic)  # waits in the log
    erase_key(old)
    shutil.copytree(old.drill.home / "drill", old.drill.home / "renamed")
    definition = old.drill.home / "renamed" / "__init__.py"
    definition.write_text(definition.read_text().replace('"drill"', '"renamed"'))
    new = Renamed(old.drill)
    hand_over(new.at.conn, "public.drill", "drill", new.folder.pipeline, ME)

    new.drain()
    reap(new.at.conn)
    assert holding(old.drill.dsn) == []
    assert erase_key(new, "person-4712").rows == {"lockstep.reject": 3, "public.drill": 1}
    assert holding(old.drill.dsn, "person-4712") == []
    assert wrong(new) == []
    new.at.close()
