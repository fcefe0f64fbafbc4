"""Tests that readers that know nothing of Lockstep see each offset once, after a run, a replay and a fill."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psycopg2
import pyarrow.parquet as pq
import pytest
from psycopg2.extensions import parse_dsn

from lake.conftest import TABLES
from lockstep.adapters.jar_lock import sha256
from lockstep.core.errors import Refusal
from lockstep.dev.setup import jars
from lockstep.steps.proof.verify import verify

if TYPE_CHECKING:
    from lake.conftest import InLake

READERS = Path(__file__).with_name("readers.xml")
READER_JARS = {
    "iceberg-spark-runtime-4.1_2.13-1.11.0.jar": "d6ea6c5d099288daeb7d5a92061bd3d7d8f296492632b42378e5f2f0e3066242",
    "postgresql-42.7.8.jar": "2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7",
}
ROWS = (60, 60, sum(range(60)))  # rows, different offsets, sum of what they hold


@pytest.fixture
def read_back(lake: InLake) -> InLake:
    """The lake after a run, a replay of what it read, and a fill of what it skipped."""
    lake.run()
    lake.skip()
    assert lake.replay("0:0", "0:1")
    assert lake.fill()
    assert len(lake.in_database()) == ROWS[0]
    assert [c.detail for c in verify(lake.at.conn, lake.at.broker, lake.folder, deep=True) if not c.ok] == []
    return lake


@pytest.fixture
def catalog_login(read_back):
    """Yields a login with the rights that docs/lake.md names, and no other."""
    name = f"looks_at_{parse_dsn(read_back.drill.dsn)['dbname']}"
    with closing(psycopg2.connect(read_back.drill.dsn)) as conn, conn.cursor() as cur:
        conn.autocommit = True
        cur.execute(f"create role {name} login password 'reads'")
        cur.execute(f"grant usage on schema lockstep_lake to {name}")
        cur.execute(f"grant select on all tables in schema lockstep_lake to {name}")
        yield name
        cur.execute(f"revoke all on schema lockstep_lake from {name}")
        cur.execute(f"revoke all on all tables in schema lockstep_lake from {name}")
        cur.execute(f"drop role {name}")


@pytest.mark.long
def test_duckdb_and_pyiceberg_see_each_offset_once(read_back):
    for name in TABLES:
        assert by_duckdb(read_back.pointer(name)) == ROWS
        rows = by_pyiceberg(read_back, name)
        assert (len(rows), len({row[:2] for row in rows}), sum(row[2] for row in rows)) == ROWS
        assert [row[:2] for row in rows] == [row[:2] for row in read_back.in_database()]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_spark_sql_sees_each_offset_once_by_its_own_catalog(read_back, catalog_login, tmp_path):
    newest = str(max(row[3] for row in read_back.in_database()))
    fetched = fetched_jars(tmp_path)
    known = parse_dsn(read_back.drill.dsn)
    database = f"jdbc:postgresql://{known['host']}:{known['port']}/{known['dbname']}?currentSchema=lockstep_lake"
    settings = {
        "spark.sql.catalog.lockstep": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lockstep.type": "jdbc",
        "spark.sql.catalog.lockstep.uri": database,
        "spark.sql.catalog.lockstep.jdbc.user": catalog_login,
        "spark.sql.catalog.lockstep.jdbc.password": "reads",
        "spark.sql.catalog.lockstep.jdbc.schema-version": "V1",
        "spark.sql.catalog.lockstep.warehouse": f"file://{read_back.lake}",
    }
    command = [
        sys.executable,
        str(READERS.with_name("spark_reader.py")),
        ",".join(map(str, fetched)),
        json.dumps(settings),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {name: [[*ROWS], newest] for name in TABLES}


def by_duckdb(address: str) -> tuple[Any, ...]:
    """Counts by DuckDB: by its reader of Iceberg where that is installed, else over the snapshot's files."""
    with closing(duckdb.connect()) as other:
        query = "select count(*), count(distinct (_stream, _offset)), sum(n)::int from {of}"
        try:
            other.execute("load iceberg")
        except duckdb.Error:
            paths = [path.removeprefix("file://") for path in paths_of(address)]
            return other.execute(query.format(of="read_parquet(?)"), [paths]).fetchone()
        return other.execute(query.format(of="iceberg_scan(?)"), [address.removeprefix("file://")]).fetchone()


def paths_of(address: str) -> list[str]:
    """Returns the data files of a table as pyiceberg finds them, without any code of Lockstep."""
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - the extra may be missing

    return [task.file.file_path for task in StaticTable.from_metadata(address).scan().plan_files()]


def by_pyiceberg(lake: InLake, name: str) -> list[tuple[int, int, int]]:
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - the extra may be missing

    rows = StaticTable.from_metadata(lake.pointer(name)).scan().to_arrow().to_pylist()
    return sorted((row["_stream"], row["_offset"], row["n"]) for row in rows)


def fetched_jars(place: Path) -> list[Path]:
    """Returns Iceberg's jar for Spark and the catalog's driver. Skips where they cannot be fetched."""
    try:
        jars.retrieve(place / "[artifact]-[revision].[ext]", place / "cache", place / "ivy.log", wanted=READERS)
    except Refusal as refusal:
        pytest.skip(f"Iceberg's jar for Spark is not to be had here: {refusal}")
    assert {name: sha256(place / name) for name in READER_JARS} == READER_JARS
    return [place / name for name in READER_JARS]


@pytest.mark.long
def test_every_file_of_a_snapshot_has_the_field_ids_of_its_table(lake):
    """A reader finds columns by these ids, whatever they are called later."""
    lake.run()
    ids = {field.field_id: field.name for field in lake.table()._table.schema().fields}  # noqa: SLF001
    for path in paths_of(lake.pointer("drill")):
        schema = pq.read_schema(path.removeprefix("file://"))
        assert {int(field.metadata[b"PARQUET:field_id"]): field.name for field in schema} == ids
