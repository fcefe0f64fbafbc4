"""Tests that what deletes files leaves the folders of others alone: by the database, and without its guards by the code."""

from __future__ import annotations

import psycopg2
import pytest

from lockstep.adapters.archive.store import ArchiveStore
from lockstep.adapters.iceberg.folder import require_inside
from lockstep.adapters.postgres import connect, transaction
from lockstep.core.errors import Refusal
from lockstep.core.lake.within import is_below
from lockstep.steps.lake.sweep import sweep_lake

AWAY = {
    "another folder": "{victim}",
    "a folder above": "{table}/data/lockstep/../../../../victim",
    "a folder above in other letters": "{table}/data/lockstep/%2E%2e/%2e./victim",
    "the table's own files": "{table}/data",
    "another attempt's": "{table}/data/lockstep/{batch}.999",
}
FORGED = """insert into lockstep.lake_prefix (batch_id, token, place, location)
    select batch_id, token, {place}, '{location}' from lockstep.attempt order by token desc limit 1"""


@pytest.fixture
def victim(tmp_path):
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "kept.txt").write_text("somebody's")
    return folder


def away(lake, victim, where: str) -> str:
    table = lake.drill.ask(
        "select regexp_replace(metadata_location, '/metadata/.*', '') from lockstep_lake.iceberg_tables"
    )
    ((batch,),) = lake.drill.ask("select max(batch_id) from lockstep.batch")
    return where.format(victim=f"file://{victim}", table=table[0][0], batch=batch)


@pytest.mark.parametrize("where", AWAY.values(), ids=AWAY)
def test_the_database_refuses_a_folder_that_is_not_the_attempts_own(lake, victim, where):
    lake.run()
    with pytest.raises(psycopg2.Error) as refused, transaction(lake.at.conn, "lockstep_stager") as cur:
        cur.execute(FORGED.format(place=0, location=away(lake, victim, where)))
    assert refused.value.diag.constraint_name == "own_folder"


@pytest.mark.parametrize("where", AWAY.values(), ids=AWAY)
def test_without_the_databases_guard_reap_deletes_nothing_there(lake, victim, where):
    lake.run()
    before = lake.files()
    with transaction(lake.at.conn, "lockstep_owner") as cur:
        cur.execute("alter table lockstep.lake_prefix disable trigger own_folder")
        cur.execute("update lockstep.lake_prefix set location = %s, swept_at = null", (away(lake, victim, where),))
    try:
        sweep_lake(lake.at.conn)
    except Refusal as refusal:
        assert "nothing there was deleted" in refusal.message  # noqa: PT017 - it may also be left alone
    assert (victim / "kept.txt").exists()
    assert lake.files() == before


def test_a_folder_that_a_link_leads_out_of_the_table_is_left_alone(tmp_path, victim):
    table = tmp_path / "table"
    (table / "data").mkdir(parents=True)
    (table / "data" / "lockstep").symlink_to(victim)
    with pytest.raises(Refusal, match="nothing there was deleted"):
        require_inside(f"file://{table}/data/lockstep/1.1", f"file://{table}")
    require_inside(f"file://{table}/data/1.1", f"file://{table}")


@pytest.mark.parametrize(
    "path", ["../victim/kept.txt", "{victim}/kept.txt", "drill/../../victim/kept.txt", "link/kept.txt", ""]
)
def test_an_archives_path_that_leaves_its_place_is_neither_read_nor_removed(tmp_path, victim, path):
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "link").symlink_to(victim)
    store = ArchiveStore(f"file://{tmp_path}/archive")
    path = path.format(victim=victim)
    for act in (store.content, store.remove):
        with pytest.raises(Refusal, match="not a file below it"):
            act(path)
    assert (victim / "kept.txt").exists()


@pytest.mark.parametrize(
    "path", ["../victim/a.parquet", "/srv/a.parquet", "drill/../a.parquet", "a.parquet", "drill/./a.parquet"]
)
def test_the_database_refuses_a_path_that_leaves_the_archive(database, path):
    conn = connect(database)
    with transaction(conn, "lockstep_owner") as cur:
        cur.execute("alter table lockstep.archived disable trigger archived_in_time")
    with pytest.raises(psycopg2.Error) as refused, transaction(conn, "lockstep_owner") as cur:
        cur.execute(
            "insert into lockstep.archived"
            " (stream_id, offsets, path, records, bytes, digest_sum, digest_squares, sha256, log_start)"
            f" values (1, '[0,5)', '{path}', 5, 5, 0, 0, repeat('a', 64), 0)"
        )
    conn.close()
    assert refused.value.diag.constraint_name == "archived_below_its_place"


@pytest.mark.parametrize(
    ("address", "folder", "is_in"),
    [
        ("file:///l/t/data/a", "file:///l/t", True),
        ("file:///l/t/data/a", "file:///l/t/", True),
        ("s3://b/t/a b.parquet", "s3://b/t", True),
        ("file:///l/t2/a", "file:///l/t", False),
        ("file:///l/t", "file:///l/t", False),
        ("file:///l/t/../a", "file:///l/t", False),
        ("file:///l/t/%2e%2e/a", "file:///l/t", False),
        ("file:///l/t/..%2fa", "file:///l/t", False),
        ("file:///l/t//a", "file:///l/t", False),
        ("file:///a", "file:///", False),
        ("/a", "", False),
    ],
)
def test_an_address_is_below_a_folder_as_it_is_written_and_the_database_says_the_same(database, address, folder, is_in):
    assert is_below(address, folder) == is_in
    conn = connect(database)
    with transaction(conn, "lockstep_reader") as cur:
        cur.execute("select lockstep.is_below(%s, %s)", (address, folder))
        assert cur.fetchone() == (is_in,)
    conn.close()


def test_a_file_outside_of_the_table_is_not_named_as_gone(lake, victim):
    lake.run()
    decide = """insert into lockstep.decision (pipeline, kind, who, why, detail) values ('drill', 'upkeep', 'me', 'r',
        '{"step": "expire", "table": "lockstep.sales.drill", "before": "a", "after": "b"}') returning decision_id"""
    row = """insert into lockstep.lake_gone (path, catalog, namespace, name, decision_id)
        values ('{path}', 'lockstep', 'sales', 'drill', (select max(decision_id) from lockstep.decision))"""
    outside, inside = (
        row.format(path=f"file://{victim}/kept.txt"),
        row.format(path=away(lake, victim, "{table}/data/a.parquet")),
    )
    assert refused_by(lake, f"{decide}; {outside}") == "own_folder"
    assert refused_by(lake, f"{decide}; {inside}") is None
    assert refused_by(lake, inside.replace("a.parquet", "b.parquet")) == "gone_by_decision"


def refused_by(lake, statement: str) -> str | None:
    try:
        with transaction(lake.at.conn, "lockstep_committer") as cur:
            cur.execute(statement)
    except psycopg2.Error as error:
        return error.diag.constraint_name
    return None
