"""Tests that a record too large for Postgres is reported as that, and not as a lost connection."""

from __future__ import annotations

import json
import random

import psycopg2
import pytest

from lockstep.core.errors import BadData, Refusal
from lockstep.engine.chosen import engine_of
from lockstep.ledger.migrate import migrate_target
from support.engines import IN_PROCESS
from support.scenes.drill import Drill
from support.scenes.here import Here

ORIGIN = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"
WIDE = [f"c{n}" for n in range(540)]
LONG = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=6000))  # noqa: S311 - no secret
DEFINITION = """
from lockstep import Append, Json, Limits, PerPartition, Pipeline, Upsert
P = Pipeline(name="drill", topic="{topic}", format=Json("{columns}"), limits=Limits(records=60), target={target})
"""
CASES = {
    "a row by staging": (
        WIDE,
        'Append("public.drill")',
        "public.drill",
        "_stream, _offset, _ordinal, _batch",
        "row is too big",
    ),
    "a row written once": (
        WIDE,
        'Append("public.drill")',
        "public.drill_rows",
        "_stream, _offset, _ordinal",
        "row is too big",
    ),
    "a key": (
        ["id"],
        'Upsert("public.drill", key=("id",)), guarantee=PerPartition()',
        "public.drill",
        "id",
        "index row size",
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_what_is_too_large_for_a_page_or_an_index_is_refused_in_one_line(
    database, kafka, topic, produce, tmp_path, monkeypatch, case
):
    columns, target, table, key, said = CASES[case]
    (tmp_path / "drill").mkdir()
    here = Here(Drill(database, kafka, topic(partitions=1), tmp_path))
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(tmp_path))
    definition = DEFINITION.format(
        topic=here.drill.topic, columns=", ".join(f"{c} string" for c in columns), target=target
    )
    (tmp_path / "drill" / "__init__.py").write_text(definition)
    names = ", ".join(f"{c} text" + " not null" * (c == "id") for c in columns)
    by = " partition by list (_batch)" if "_batch" in key else ""
    (tmp_path / "drill" / "target.sql").write_text(
        f"create table {table} ({names}, {ORIGIN}, primary key ({key})){by};"
    )
    migrate_target(here.at.conn, here.folder)
    engine = engine_of(here.folder, here.at.broker, here.at.dsn, lambda: None, IN_PROCESS)
    produce(here.drill.topic, [("k", json.dumps({c: LONG if c == "id" else c * 4 for c in columns}))])
    monkeypatch.setattr(Here, "engine", engine)
    with pytest.raises((Refusal, psycopg2.Error)) as refused:
        here.run()
    assert (type(refused.value), said in str(refused.value)) == (BadData, True), refused.value
