"""Tests that changes of others to a keyed lake table are found and named, and what a user is told of it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from lake.keyed.conftest import InKeyed
from lake.keyed.test_commits import moved_to
from lake.test_strangers import LED, as_trino
from lockstep.adapters.iceberg.table import LakeTable
from lockstep.core.errors import BadDefinition
from lockstep.core.lake.files import prefix_of
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.definition import Append, AtLeastOnce, Debezium, Feed, Idempotent, Json, Pipeline, Upsert
from lockstep.core.proof.extent import proofs
from lockstep.steps.lake.verify_keys import AS_ACCOUNTED
from lockstep.steps.proof.verify import verify
from lockstep.steps.proof.verify_upsert import KEYS_HAVE_NEWEST, ROWS_MATCH_NEWEST
from support.scenes.command_line import CommandLine

DRILL = "lockstep.sales.drill"
NAMES = ["_stream", "_offset", "_ordinal", "_batch", "id", "n"]


def failed(keyed: Any, *, deep: bool = False) -> dict[str, str]:
    checks = verify(keyed.at.conn, keyed.at.broker, keyed.folder, deep=deep)
    return {check.name: check.detail for check in checks if not check.ok}


def rewritten(keyed: Any, change: Any) -> None:
    """Puts other rows into the table, as a stranger who writes all of it anew does."""
    table = keyed.table()
    rows = change([dict(zip(NAMES, row, strict=True)) for row in keyed.rows()])
    drops = [task.file for task in table._plan()]  # noqa: SLF001 - no public way does such a thing
    path = f"{prefix_of(table.location, 0, 0)}/{uuid4()}.parquet"
    table.write(path, pa.Table.from_pylist(rows, schema=table.arrow_schema))
    moved_to(keyed, table._prepared(str(uuid4()), drops, [path], {})[0], table.address)  # noqa: SLF001


def changed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [rows[0] | {"n": rows[0]["n"] + 1}, *rows[1:]]


@pytest.mark.long
def test_a_changed_value_a_lost_key_and_one_that_came_back_are_found_and_a_replay_heals(keyed):
    keyed.drain()
    old = dict(zip(NAMES, keyed.rows()[0], strict=True))
    keyed.put((old["id"], None))
    keyed.drain()
    assert failed(keyed, deep=True) == {}
    tables = [target.table for target in keyed.folder.pipeline.targets]
    told = proofs(tables, verify(keyed.at.conn, keyed.at.broker, keyed.folder, deep=True))
    assert [(proof.coordinates, proof.contents) for proof in told] == [("log", "log")] * 2
    account, newest, values = (f"{name}: {DRILL}" for name in (AS_ACCOUNTED, KEYS_HAVE_NEWEST, ROWS_MATCH_NEWEST))
    whole = keyed.rows()
    found = {}
    for what, change in (
        ("changed", changed),
        ("lost", lambda rows: rows[1:]),
        ("came back", lambda rows: [*rows, old]),
    ):
        rewritten(keyed, change)
        found[what] = failed(keyed, deep=True)
        rewritten(keyed, lambda _: [dict(zip(NAMES, row, strict=True)) for row in whole])
    assert "other values than were committed, in as many rows; moved last by" in found["changed"].get(account, "")
    assert whole[0][4] in found["changed"].get(values, "")
    assert "rows are there" in found["lost"].get(account, "")
    assert "and its row is missing" in found["lost"].get(newest, "")
    assert f"of batch {old['_batch']}" in found["came back"].get(account, "")
    assert "a tombstone, and a row is there" in found["came back"].get(newest, "")
    assert all(
        any(DRILL in name for name in names) and not any("public" in n for n in names) for names in found.values()
    )
    assert failed(keyed, deep=True) == {}
    rewritten(keyed, lambda rows: rows[2:])
    assert set(failed(keyed)) >= {account}
    keyed.replay("0:0,1:0")
    assert keyed.rows() == keyed.in_database()
    assert failed(keyed, deep=True) == {}


@pytest.mark.long
def test_a_row_that_no_batch_owns_leads_to_no_replay_and_who_put_it_there_is_named_behind_later_batches(keyed):
    keyed.drain()
    old = [dict(zip(NAMES, row, strict=True)) for row in keyed.rows()]
    assert keyed.replay("0:0,1:0")
    owners = {row[3] for row in keyed.rows()}
    back = next(row for row in old if row["_batch"] not in owners)
    table = keyed.table()
    rows = [row for row in (dict(zip(NAMES, row, strict=True)) for row in keyed.rows()) if row["id"] != back["id"]]
    path = f"{prefix_of(table.location, 0, 0)}/{uuid4()}.parquet"
    table.write(path, pa.Table.from_pylist([*rows, back], schema=table.arrow_schema))
    drops = [task.file for task in table._plan()]  # noqa: SLF001 - as above
    as_trino(keyed, LED, table._prepared(str(uuid4()), drops, [path], {})[0])  # noqa: SLF001 - as above
    keyed.put(("other", 1))
    keyed.drain()

    checks = verify(keyed.at.conn, keyed.at.broker, keyed.folder, deep=False)

    (wrong,) = [check for check in checks if check.name.startswith(AS_ACCOUNTED)]
    assert f"of batch {back['_batch']}: 1 rows are there, 0 were left by commits" in wrong.detail
    assert "moved last by lockstep (trino) at 20" in wrong.detail
    assert back["_batch"] not in wrong.batches
    assert set(wrong.batches) <= owners


@pytest.fixture
def lockstep(keyed, monkeypatch, capsys, tmp_path):
    (tmp_path / "home").mkdir()
    line = CommandLine(monkeypatch, capsys, tmp_path / "home")
    for name, value in {"DSN": keyed.drill.dsn, "KAFKA": keyed.drill.kafka, "PIPELINES": str(keyed.drill.home)}.items():
        monkeypatch.setenv(f"LOCKSTEP_{name}", value)
    return line


@pytest.mark.long
def test_every_command_answers_or_says_in_one_line_what_it_does_not_do(keyed, lockstep):
    for said in (lockstep("check", "drill"), lockstep("migrate", "drill"), lockstep("run", "drill", "--until-idle")):
        assert said.code == 0, said
    (batch, *_) = sorted({row[3] for row in keyed.rows()})
    for arguments in (
        ("plan", "drill", "--dry-run"),
        ("files", "drill"),
        ("files", "drill", "--batch", str(batch)),
        ("batch", str(batch)),
        ("verify", "drill"),
        ("verify", "drill", "--deep"),
        ("verify", "drill", "--since", str(batch)),
        ("doctor", "drill"),
        ("metrics",),
        ("reap",),
        ("migrate", "drill", "--propose"),
        ("lineage", "drill", "--partition", "0", "--offset", "1"),
        ("replay", "drill", "--batch", str(batch), "--preview"),
        ("replay", "drill", "--batch", str(batch), "--reason", "a test"),
    ):
        said = lockstep(*arguments)
        assert (said.code, "Traceback" in said.err) in {(0, False), (1, False)}, (arguments, said)
        assert said.code == 0 or arguments[0] == "doctor", (arguments, said)
    assert keyed.rows() == keyed.in_database()
    key = keyed.rows()[0][4]
    for refused in (
        ("blame", "drill", "--key", key, "--target", DRILL),
        ("blame", "drill", "--key", key),
        ("erase", "drill", "--key", key, "--column", "id", "--reason", "a test"),
    ):
        said = lockstep(*refused)
        assert said.code not in {0, 70}, (refused, said)
        assert (len(said.err.strip().splitlines()) <= 2, DRILL in said.err or "lake" in said.err) == (True, True), (
            refused,
            said,
        )


@pytest.mark.long
def test_a_preview_shows_what_becomes_of_the_keys_and_moves_no_pointer(keyed):
    keyed.drain()
    before, rows, files = keyed.pointer("drill"), keyed.rows(), keyed.files()
    keyed.code = lambda value: value | {"n": value["n"] + 1}
    found, _ = keyed.preview("replay", "0:0,1:0")
    told = found.document()["targets"]
    assert told[DRILL] == told["public.newest"]
    assert told[DRILL]["changed"] == len(rows)
    assert (keyed.pointer("drill"), keyed.rows(), keyed.files()) == (before, rows, files)


TABLE = Iceberg("shop.customers")
REFUSED = [
    ({"target": Upsert(TABLE, key=("id",), shared_with=("other",))}, "one pipeline writes a keyed table of the lake"),
    ({"target": Upsert(TABLE, key=("id",), feed=Feed())}, "a feed's images are kept by the database"),
    (
        {"target": Upsert(TABLE, key=("id",)), "format": Debezium("id string, n int")},
        r"Iceberg\('shop.customers'\) takes no change records",
    ),
    (
        {"target": Upsert(TABLE, key=("id",)), "guarantee": Idempotent()},
        "Idempotent.. has none: say guarantee=PerBatch",
    ),
    ({"target": Upsert(TABLE, key=("id",)), "guarantee": AtLeastOnce()}, "say guarantee=PerBatch"),
    ({"target": (Append(TABLE), Upsert(TABLE, key=("id",)))}, "customers"),
]


@pytest.mark.parametrize(("more", "why"), REFUSED)
def test_what_a_keyed_table_of_the_lake_cannot_keep_is_refused_at_birth(more, why):
    with pytest.raises(BadDefinition, match=why):
        Pipeline(**{"name": "p", "topic": "t", "format": Json("id string, n int", key="id")} | more)


CUSTOMERS = """create table public.customers (id text primary key, email text, city text, changed_at timestamptz,
    _stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null);"""


class OfCookbook(InKeyed):
    """The recipe's pipeline under the drill's name."""

    @staticmethod
    def record(number: int) -> tuple[str, str | None]:
        key = f"c{number % 9}"
        told = {"id": key, "email": f"{number}@here", "city": "x", "changed_at": f"2026-01-01T00:00:{number % 60:02}Z"}
        return key, None if number % 7 == 3 else json.dumps(told)


@pytest.mark.long
def test_the_cookbooks_recipe_keeps_the_newest_of_each_customer_in_both_tables(made_lake):
    page = (Path(__file__).parents[3] / "docs" / "cookbook.md").read_text()
    found = re.search(r"^## The newest of each customer in the lake\n\n```python\n((?:.*\n)+?)```", page, re.MULTILINE)
    assert found
    recipe = found[1].replace('"customers"', '"drill"').replace('"customers.v1"', '"{topic}"')
    here = made_lake(OfCookbook, f"from lockstep import Iceberg, Json, Pipeline, Upsert\nP = {recipe}", CUSTOMERS)
    here.drain()
    names = ["id", "email", "city", "changed_at", "_stream", "_offset", "_ordinal", "_batch"]
    table = LakeTable("lockstep.shop.customers", here.pointer("customers"))
    rows = [tuple(row[name] for name in names) for batch in table.read(names) for row in batch.to_pylist()]
    assert sorted(rows) == sorted(here.drill.ask(f"select {', '.join(names)} from public.customers"))
    assert {row[1] for row in rows} == {f"{n}@here" for n in range(51, 60) if n % 7 != 3}
    assert failed(here, deep=True) == {}
