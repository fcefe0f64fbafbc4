"""Tests that a column of any name is only a column, whatever our statements call their tables and values."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import psycopg2
import pytest

import lockstep
from lockstep.adapters.postgres import READER, transaction
from lockstep.ledger.feed.reading import read_changes
from lockstep.ledger.migrate import migrate_target
from support.scenes.drill import Drill
from support.scenes.erasing import erase_key, wrong
from support.scenes.here import Here

NAMES = [
    *"abcdefghijklmnopqrstuvwxyz",
    *re.findall(
        r"\w+",
        """batch_id stream_id offsets offset token key value row number place pipeline topic partition epoch kind target rows
        count records one other old new window select user order excluded newest ends seq told what state before after op name
        reason digest task ordinal is_last at staged totals revision least event index copies is_ours is_readable shares gone
        kept image net log_start watermark late moment left right table log counted claim use_column variable_conflict
        _epoch _ours _is_new _held_until _next _low _said _gone _became _unsure _comparable _erased _of_batch _of_stream
        _records _newest _ends _contributions _late _text _parsed _gathered _body _plain _target _error""",
    ),
]
ORIGIN = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"
ALL = ", ".join(f'"{name}" text' for name in NAMES)
APPENDED = f"create table public.{{table}} ({ALL}, {ORIGIN}, primary key (_stream, _offset, _ordinal))"
KEYED = f'create table public.drill ({ALL}, {ORIGIN}, primary key ("t", "key", "o", "epoch", "one", "other"))'
TOTALS = 'key=("key", "t", "o"), totals=(Count("records"), Max("ends", of="s"))'
SUMS = '"key" text, "t" text, "o" text, records bigint, ends text'
VERSIONS = (
    f"{APPENDED.format(table='drill')[:-1]}, seen_at timestamptz, valid_from timestamptz not null, "
    "valid_until timestamptz, _deleted boolean not null)"
)
WINDOWS = (
    "create table public.drill (window_start timestamptz, window_end timestamptz not null, _revision int not null, "
    f"{SUMS}, {ORIGIN}, primary key (window_start, key, t, o))"
)
# Targets with the statement that makes each.
KINDS = {
    "appended": ('Append("public.drill", feed=Feed())', APPENDED.format(table="drill")),
    "written once": ('Append("public.drill")', APPENDED.format(table="drill_rows")),
    "keyed": ('Upsert("public.drill", key=("t", "key", "o", "epoch", "one", "other"), feed=Feed())', KEYED),
    "ordered": ('Upsert("public.drill", key=("t", "key", "o", "epoch", "one", "other"), order_by="n")', KEYED),
    "versions": ('History("public.drill", key=("t", "key", "o"), order_by="seen_at")', VERSIONS),
    "accumulated": (
        f'Accumulate("public.drill", {TOTALS})',
        f"create table public.drill ({SUMS}, {ORIGIN}, primary key (key, t, o))",
    ),
    "windowed": (
        f'Windows("public.drill", window=Tumbling("60 seconds"), {TOTALS}, lateness="40 seconds", max_late_share=1.0)',
        WINDOWS,
    ),
}
DEFINITION = """
from lockstep import *
P = Pipeline(
    name="drill", topic="TOPIC", format=Json("COLUMNS"), limits=Limits(records=60), target=TARGET, max_reject_share=1.0, EVENT
)
"""
PERSON = "person-4711"
WHOLE_ROW = re.compile(r"\b(?:to_jsonb?|row_to_json)\((?!old\)|new\))[a-z]+\)|(?<![\w.:)])[a-z]::text")


def record(number: int, version: int) -> dict[str, str]:
    its = {name: f"{name}-{number}-{version}" for name in NAMES}
    key = PERSON if number == 5 else f"k{number}"
    # The person is named by another key's record, too.
    return (
        its
        | dict.fromkeys(("epoch", "one", "other"), "d")
        | {"t": key, "key": "b", "o": "c", "u": PERSON if number == 4 else "u"}
        | {"seen_at": f"2026-05-01T12:{number:02}:0{version}Z"}
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_rows_proofs_replays_and_erasures_are_right_whatever_columns_are_called(
    database, kafka, topic, produce, tmp_path, monkeypatch, kind
):
    here = Here(Drill(database, kafka, topic(partitions=2), tmp_path))
    target, table = KINDS[kind]
    columns = ", ".join([*(f"{name} string" for name in NAMES), "seen_at timestamp"])
    event = 'event_time=EventTime("seen_at", delay="1 seconds")' if kind == "windowed" else ""
    texts = {"TOPIC": here.drill.topic, "COLUMNS": columns, "TARGET": target, "EVENT": event}
    definition = re.sub("TOPIC|COLUMNS|TARGET|EVENT", lambda found: texts[found[0]], DEFINITION)
    table = (
        table
        if "seen_at" in table or "records bigint" in table
        else table.replace(f", {ORIGIN}", f", seen_at timestamptz, {ORIGIN}")
    )
    (tmp_path / "drill").mkdir()
    (tmp_path / "drill" / "__init__.py").write_text(definition)
    (tmp_path / "drill" / "target.sql").write_text(
        re.sub(r'"(t|key|o|epoch|one|other)" text', r'"\1" text not null', table)
    )
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(tmp_path))
    migrate_target(here.at.conn, here.folder)
    sent = [record(number, version) for number in range(8) for version in range(2)]
    for partition in range(2):
        its = [(each["t"], json.dumps(each)) for each in sent if int(each["s"].split("-")[1]) % 2 == partition]
        produce(here.drill.topic, its, partition=partition)
    try:
        here.drain()
    except psycopg2.Error as error:
        raise AssertionError(f"a column was taken for something else: {error}") from error

    def rows() -> list[dict[str, Any]]:
        return [
            row
            for (row,) in here.drill.ask(
                "select to_jsonb(x.*) - '_batch' from public.drill x order by _stream, _offset"
            )
        ]

    written = rows()
    assert len(written) == {"appended": 16, "written once": 16, "versions": 16, "windowed": 6}.get(kind, 8)
    if not target.startswith(("Acc", "Win")):
        of_rows = [{name: row[name] for name in NAMES} for row in written]
        assert all(row in [{name: each[name] for name in NAMES} for each in sent] for row in of_rows)
    assert wrong(here) == []
    if "Feed" in target:
        with transaction(here.at.conn, READER) as cur:
            told = read_changes(cur, "drill", "public.drill", None, 100)["changes"]
        assert sorted(change["after"]["x"] for change in told) == sorted(row["x"] for row in written)
    if kind != "windowed":
        difference, _ = here.preview("replay", "0:0", "0:8")
        assert {str(each) for each in re.findall(r"'(?:added|removed|changed)'>: (\d+)", str(difference))} == {"0"}
    here.replay("0:0", "0:8")
    assert rows() == written
    assert wrong(here) == []
    erased = erase_key(here, PERSON, "t")
    assert not [row for row in rows() if row["t"] == PERSON]
    if "u" in written[0]:
        assert any("public.drill" in each for each in erased.left), erased
    assert wrong(here) == []


def test_no_statement_takes_a_row_by_a_name_that_a_column_may_have():
    """Says `t.*` for the row, because `t` alone is a column of a table that has one."""
    files = [
        path
        for path in Path(lockstep.__file__).parent.rglob("*.*")
        if path.suffix in {".sql", ".py"} and path.parent.name != "migrations"
    ]
    found = {path.name: WHOLE_ROW.findall(path.read_text(encoding="utf-8")) for path in files}
    assert {name: rows for name, rows in found.items() if rows} == {}
