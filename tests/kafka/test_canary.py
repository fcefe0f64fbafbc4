"""A canary compares what two codes make of the same committed records, and writes nothing. Only Spark is left out."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from dataclasses import replace

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.dev import canary as door
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.batch.run import run
from lockstep.steps.changes.canary import newest_batches
from lockstep.steps.changes.hand_over import hand_over
from support.fakes.plain_engine import PlainEngine
from support.scenes.erasing import erase_key
from support.scenes.here import ME
from support.scenes.odd_logs import delete_records

UPSERT = ('target=Append("public.drill")', 'target=Upsert("public.drill", key=("id",))')
KEYED = """create table public.drill (id text primary key, n int, loaded_at timestamptz default clock_timestamp(),
    _stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null);"""
SUMS = """create table public.sums (id text primary key, total numeric, many bigint,
    _stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null);"""


@pytest.fixture
def compared(here, monkeypatch):
    """Returns `compared(code, last=1)`: the newest batches under the drill's code and under this one."""

    def look(code, last: int = 1) -> list[dict]:
        def engine_for(folder, at, _registry):
            its = code if folder.transform == "canary" else here.code
            return PlainEngine(folder, here.drill.kafka, at.dsn, its)

        monkeypatch.setattr(door, "local_engine", engine_for)
        canary = replace(here.folder, transform="canary")
        found = door.compare_batches(here.at, here.folder, canary, newest_batches(here.at, here.folder, last))
        return [each.document() for each in found]

    return look


def send(here, produce, *values: dict) -> None:
    produce(here.drill.topic, [("k", json.dumps(value)) for value in values], partition=0)


def in_database(dsn: str) -> dict[str, str | None]:
    """Returns a digest of the rows of each table: the ledger's, the targets' and staging's."""
    with closing(psycopg2.connect(dsn)) as conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner")
        cur.execute(
            "select oid::regclass::text from pg_class where relkind = 'r' "
            "and relnamespace::regnamespace::text in ('lockstep', 'lockstep_staging', 'public')"
        )
        found = {}
        for (table,) in cur.fetchall():
            cur.execute("reset role" if table.startswith("drill") else "set role lockstep_owner")
            cur.execute(f"select md5(string_agg(t::text, ',' order by t::text)) from {table} t")
            found[table] = cur.fetchone()[0]
    return found


def test_rows_that_differ_are_counted_and_shown_by_offset_and_nothing_is_written(elsewhere, compared, produce):
    here = elsewhere()
    send(here, produce, *({"id": f"r{n}", "n": n} for n in range(6)))
    here.drain()
    before = in_database(here.drill.dsn)
    assert before["lockstep.batch"]
    assert before["drill"]

    def code(value):
        return None if value["n"] == 1 else {"id": value["id"], "n": value["n"] * (10 if value["n"] == 4 else 1)}

    (found,) = compared(code)

    assert found["targets"] == {"public.drill": {"same": 4, "changed": 1, "only_live": 1, "only_canary": 0}}
    assert found["rejects"] == {"live": 0, "canary": 0}
    changed, gone = found["samples"]
    at = {"_ordinal": 0, "_partition": 0}
    assert changed == {
        "batch": found["batch"],
        "target": "public.drill",
        "kind": "changed",
        "topic": here.drill.topic,
        "partition": 0,
        "offset": 4,
        "key": {},
        "differs": ["n"],
        "live": {"id": "r4", "n": 4, "_offset": 4, **at},
        "canary": {"id": "r4", "n": 40, "_offset": 4, **at},
    }
    assert (gone["kind"], gone["offset"], gone["canary"]) == ("only_live", 1, None)
    assert gone["live"] == {"id": "r1", "n": 1, "_offset": 1, **at}
    assert found["verdict"]["canary"]["ok"]
    assert in_database(here.drill.dsn) == before


def test_the_newest_batches_are_read_in_exactly_their_ranges(elsewhere, compared, produce):
    here = elsewhere()
    for batch in range(3):
        send(here, produce, *({"id": f"b{batch}", "n": n} for n in range(batch + 1)))
        here.drain()
    send(here, produce, {"id": "waits", "n": 1})
    batches = [batch for batch, _ in here.drill.committed()]

    newest, second = compared(lambda value: value | {"n": -1}, last=2)

    assert [newest["batch"], second["batch"]] == [batches[2], batches[1]]
    assert [(r["partition"], r["from_offset"], r["until_offset"]) for r in newest["ranges"]] == [(0, 3, 6)]
    assert [(each["offset"], each["live"]["id"]) for each in newest["samples"]] == [(3, "b2"), (4, "b2"), (5, "b2")]
    assert [(each["offset"], each["live"]["n"], each["canary"]["n"]) for each in second["samples"]] == [
        (1, 0, -1),
        (2, 1, -1),
    ]


def test_an_upsert_is_compared_by_key_whatever_later_batches_made_of_it(elsewhere, compared, produce):
    here = elsewhere()
    here.rewrite("import Append,", "import Append, Upsert,")
    here.rewrite(*UPSERT)
    with here.at.conn, here.at.conn.cursor() as cur:
        cur.execute("drop table public.drill")
    (here.drill.home / "drill" / "target.sql").write_text(KEYED)
    migrate_target(here.at.conn, here.folder)
    send(here, produce, {"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "a", "n": 3}, {"id": "c", "n": 4})
    here.drain()
    send(here, produce, {"id": "a", "n": 99})
    here.drain()

    _, found = compared(lambda value: None if value["n"] == 3 else value | {"id": value["id"].replace("c", "d")}, 2)

    assert found["targets"] == {"public.drill": {"same": 1, "changed": 1, "only_live": 1, "only_canary": 1}}
    told = {each["kind"]: each for each in found["samples"]}
    assert told["changed"]["key"] == {"id": "a"}
    assert (told["changed"]["live"]["n"], told["changed"]["canary"]["n"]) == (3, 1)
    assert told["changed"]["differs"] == ["n", "_offset"]
    assert told["only_live"]["live"]["id"] == "c"
    assert told["only_canary"]["canary"]["id"] == "d"


def test_each_of_several_targets_is_compared_and_totals_by_their_key(elsewhere, compared, produce):
    here = elsewhere()
    here.rewrite("import Append,", "import Accumulate, Append, Count, Sum,")
    sums = 'Accumulate("public.sums", key=("id",), totals=(Sum("total", "n"), Count("many")))'
    here.rewrite(UPSERT[0], f'target=(Append("public.drill"), {sums})')
    target = here.drill.home / "drill" / "target.sql"
    target.write_text(target.read_text() + SUMS)
    migrate_target(here.at.conn, here.folder)
    send(here, produce, {"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": "a", "n": 3})
    here.drain()

    (found,) = compared(lambda value: value | {"n": 5 if value["n"] == 3 else value["n"]})

    assert found["targets"] == {
        "public.drill": {"same": 2, "changed": 1, "only_live": 0, "only_canary": 0},
        "public.sums": {"same": 1, "changed": 1, "only_live": 0, "only_canary": 0},
    }
    row, total = found["samples"]
    assert (row["target"], row["key"], row["offset"], row["differs"]) == ("public.drill", {}, 2, ["n"])
    assert (total["target"], total["key"], total["differs"]) == ("public.sums", {"id": "a"}, ["total"])
    assert [(total[side]["total"], total[side]["many"]) for side in ("live", "canary")] == [("4", 2), ("6", 2)]


def test_rejects_and_code_that_fails_are_the_canarys_verdict(elsewhere, compared, produce):
    here = elsewhere()
    here.rewrite("limits=", "max_reject_share=0.5, limits=")
    send(here, produce, *({"id": f"r{n}", "n": n} for n in range(200)))
    here.drain()

    def code(value):
        if value["n"] >= 50:
            raise ValueError("too much")
        return value

    (found,) = compared(code)

    assert found["rejects"] == {"live": 0, "canary": 150}
    assert found["verdict"]["live"]["ok"]
    (refusal,) = found["verdict"]["canary"]["refusals"]
    assert refusal.startswith("150 of 200 records were rejected")
    assert found["targets"]["public.drill"] == {"same": 50, "changed": 0, "only_live": 150, "only_canary": 0}


def test_rows_of_an_erased_key_are_on_neither_side_and_later_ones_are(elsewhere, compared, produce):
    here = elsewhere()
    send(here, produce, *({"id": name, "n": 1} for name in ("ann", "bob", "cyd")))
    here.drain()
    erase_key(here, "bob")

    (found,) = compared(lambda value: value | {"n": 2})

    assert found["targets"] == {"public.drill": {"same": 0, "changed": 2, "only_live": 0, "only_canary": 0}}
    assert [each["live"]["id"] for each in found["samples"]] == ["ann", "cyd"]
    assert "bob" not in json.dumps(found)
    send(here, produce, {"id": "bob", "n": 3})
    here.drain()
    (found,) = compared(lambda value: value | {"n": 4})
    assert [(each["offset"], each["live"]["n"]) for each in found["samples"]] == [(3, 3)]


def test_an_erasure_by_the_tables_former_owner_holds_in_a_canary(elsewhere, produce, monkeypatch):
    here = elsewhere()
    send(here, produce, {"id": "ann", "n": 1})
    here.drain()
    send(here, produce, {"id": "bob", "n": 1}, {"id": "cyd", "n": 1})
    erase_key(here, "bob")
    shutil.copytree(here.drill.home / "drill", here.drill.home / "renamed")
    definition = here.drill.home / "renamed" / "__init__.py"
    definition.write_text(definition.read_text().replace('"drill"', '"renamed"'))
    folder = load("renamed")
    hand_over(here.at.conn, "public.drill", "drill", folder.pipeline, ME)
    run(here.at, PlainEngine(folder, here.drill.kafka, here.drill.dsn), folder, Caller("me"))
    monkeypatch.setattr(door, "local_engine", lambda its, at, _: PlainEngine(its, here.drill.kafka, at.dsn))

    (found,) = door.compare_batches(here.at, folder, folder, newest_batches(here.at, folder, 1))

    assert found.document()["targets"] == {"public.drill": {"same": 1, "changed": 0, "only_live": 0, "only_canary": 0}}


def test_a_range_that_the_log_no_longer_holds_is_refused_with_the_batches_that_are_left(elsewhere, produce):
    here = elsewhere()
    with pytest.raises(Refusal, match="no batch is committed yet") as none:
        newest_batches(here.at, here.folder, 1)
    assert none.value.next_command == "lockstep run drill"
    for batch in range(2):
        send(here, produce, {"id": f"b{batch}", "n": 1}, {"id": f"b{batch}", "n": 2})
        here.drain()
    first, second = [batch for batch, _ in here.drill.committed()]
    delete_records(here.drill.kafka, here.drill.topic, 1)

    with pytest.raises(Refusal) as lost:
        newest_batches(here.at, here.folder, 2)
    assert lost.value.message == (
        f"{here.drill.topic}-0 [0, 2): the log now starts at 1: records of batch {first} were deleted"
    )
    assert lost.value.next_command == "lockstep canary drill --transform transform.py --batches 1"
    (left,) = newest_batches(here.at, here.folder, 1)
    assert (left.batch_id, left.offsets) == (second, 2)


def test_too_many_offsets_are_refused_with_the_number_that_fits(elsewhere, produce, monkeypatch):
    here = elsewhere()
    for _ in range(2):
        send(here, produce, {"id": "a", "n": 1}, {"id": "b", "n": 2})
        here.drain()
    monkeypatch.setattr("lockstep.steps.changes.canary.MOST_OFFSETS", 3)
    with pytest.raises(Refusal, match="the newest 2 batches hold 4 offsets, and a canary reads at most 3") as refused:
        newest_batches(here.at, here.folder, 20)
    assert refused.value.next_command == "lockstep canary drill --transform transform.py --batches 1"
