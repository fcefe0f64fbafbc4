"""Records that are tried become what a run makes of the same records, where a run needs Spark, too."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.adapters.folders import load
from lockstep.context.systems import engine_for
from lockstep.core.changes.tried import Record
from lockstep.core.pipeline.columns import parse_columns
from lockstep.testing import tried
from support.inputs.nasty_json import COLUMNS, EACH, NASTY, gathered, values

ROOT = Path(__file__).parents[2]
HIDDEN = {"_stream", "_offset", "_ordinal", "_batch"}
SCHEMA = ", ".join(map(" ".join, COLUMNS.items()))
DDL = ", ".join(f"{column.name} {column.postgres_type}" for column in parse_columns(SCHEMA))
NAMES = "select attname from pg_attribute where attrelid = '{table}'::regclass and attnum > 0 order by attnum"
KEYED = "id string, n int"
KEYED_DDL = "id text primary key, n int"


def run(loaded, topic, produce, records: list[Record]) -> None:
    """Sends the records and runs the pipeline as the command line would: the driver first, then Spark."""
    produce(topic, [(each.key, each.value) for each in records], partition=0)
    at, _, folder = loaded.parts()
    loaded.run(engine_for(folder, at))
    at.close()


def rows(loaded) -> list[dict[str, str]]:
    columns = [name for (name,) in loaded.ask(NAMES.format(table=f"public.{loaded.name}"))]
    found = loaded.ask(f"select * from public.{loaded.name} order by _offset, _ordinal")
    told = [dict(zip(columns, row, strict=True)) for row in found]
    return [{"line": row["_offset"] + 1} | {k: repr(v) for k, v in row.items() if k not in HIDDEN} for row in told]


def rejects(loaded) -> list[tuple]:
    found = loaded.ask('select "offset", reason, key, value from lockstep.reject order by "offset"')
    return [(offset + 1, reason, *(None if b is None else bytes(b) for b in raw)) for offset, reason, *raw in found]


def of_trial(found) -> tuple[list[dict[str, str]], list[tuple]]:
    its = [{"line": row.line} | {k: repr(v) for k, v in row.items()} for row in found.rows]
    return its, [(each.line, each.reason, each.key, each.value) for each in found.rejects]


def test_odd_records_become_the_same_rows_and_rejects_for_the_same_reasons(pipeline, topic, produce):
    name = topic(partitions=1)
    made = pipeline(name, SCHEMA, DDL, max_reject_share="1.0")
    given = [Record(value, b"k") for value in dict.fromkeys([*NASTY, *EACH, *gathered(values, 60)])]

    found = tried(made.name, given)
    run(made, name, produce, given)

    assert of_trial(found) == (rows(made), rejects(made))
    assert len(found.rows) > 400
    assert len(found.rejects) > 200
    assert len({each.reason for each in found.rejects}) > 20
    assert len(found.rows) + len(found.rejects) == len(given)
    assert (found.engine, found.filtered, found.verdict.ok) == ("driver", [], True)


OWN_DELETIONS = """
import json
from lockstep import Delete

def decode(key, value, headers):
    try:
        return Delete({"id": key.decode()}) if value is None else json.loads(value)
    except ValueError:
        raise ValueError("tombstone: its key is not a string" if value is None else "not a JSON object") from None
"""


@pytest.mark.parametrize("own", [False, pytest.param(True, marks=pytest.mark.long)], ids=["json", "own decoder"])
def test_a_deletion_deletes_its_key_in_both(pipeline, topic, produce, own):
    name = topic(partitions=1)
    form = {"form": f'Custom("{KEYED}")'} if own else {}
    made = pipeline(name, KEYED, KEYED_DDL, target="Upsert", key="id", **form)
    if own:
        (load(made.name).path / "decode.py").write_text(OWN_DELETIONS)
    given = [
        Record(b'{"id": "a", "n": 1}', b"a"),
        Record(b'{"id": "b", "n": 2}', b"b"),
        Record(None, b"a"),
        Record(None, b"c"),
        Record(b'{"id": "c", "n": 3}', b"c"),
        Record(None, b"\xff"),
        Record(b"no JSON", b"b"),
    ]

    found = tried(made.name, given)
    run(made, name, produce, given)

    assert of_trial(found) == (rows(made), rejects(made))
    assert [(row.line, dict(row)) for row in found.rows] == [(2, {"id": "b", "n": 2}), (5, {"id": "c", "n": 3})]
    assert [(each.line, each.reason) for each in found.rejects] == [
        (6, "tombstone: its key is not a string"),
        (7, "not a JSON object"),
    ]
    assert [(each.line, each.key) for each in found.deletions] == [(3, {"id": "a"})]
    assert [(each.line, each.by) for each in found.superseded] == [(1, 3), (4, 5)]


TRANSFORM = """
from pyspark.sql import functions as F

def transform(records):
    kept = records.where("n > 0").withColumn("n", F.col("n") * 2)
    return kept.withColumn("_ordinal", F.lit(0)).union(
        kept.where("n > 10").withColumn("id", F.concat("id", F.lit("+"))).withColumn("_ordinal", F.lit(1)))
"""


def test_a_transforms_rows_filters_and_rejects_are_the_same(pipeline, topic, produce):
    name = topic(partitions=1)
    made = pipeline(name, KEYED, "id text, n int", transform=TRANSFORM)
    given = [{"id": "a", "n": 1}, {"id": "b", "n": -1}, {"id": "c", "n": 9}, {"id": "d", "n": "x"}]
    sent = [Record(json.dumps(each).encode()) for each in given]

    found = tried(made.name, given)  # type: ignore[arg-type]
    run(made, name, produce, sent)

    assert of_trial(found) == (rows(made), rejects(made))
    assert found.rows == [{"id": "a", "n": 2}, {"id": "c", "n": 18}, {"id": "c+", "n": 18}]
    assert found.filtered == [2]
    assert [(each.line, each.reason) for each in found.rejects] == [(4, "column n: not a int")]


def test_a_transform_that_fails_is_the_verdict(pipeline, topic):
    broken = TRANSFORM.replace('F.col("n") * 2', 'F.raise_error(F.lit("no such tariff")).cast("int")')
    made = pipeline(topic(partitions=1), KEYED, "id text, n int", transform=broken)
    found = tried(made.name, [{"id": "a", "n": 1}])
    assert found.rows == []
    (refusal,) = found.verdict.refusals
    assert "no such tariff" in refusal
    assert "\n" not in refusal


DECODE = """
def decode(key, value, headers):
    if value == b"skip":
        return None
    name, _, number = value.decode().partition(":")
    if not number:
        raise ValueError("no number")
    return {"id": name, "n": int(number), "who": key.decode() if key else None, "how": len(headers)}
"""


def test_a_decoder_of_ones_own_sees_key_and_headers(pipeline, topic):
    schema = "id string, n int, who string, how int"
    made = pipeline(topic(partitions=1), schema, "id text, n int, who text, how int", form=f'Custom("{schema}")')
    (load(made.name).path / "decode.py").write_text(DECODE)
    given = [b"a:1", "b:2", Record(b"c:3", b"me", (("h", b"1"),)), b"skip", b"nothing"]

    found = tried(made.name, given)  # type: ignore[arg-type]

    assert [(row.line, *row.values()) for row in found.rows] == [
        (1, "a", 1, None, 0),
        (2, "b", 2, None, 0),
        (3, "c", 3, "me", 1),
    ]
    assert found.filtered == [4]
    assert (found.rejects[0].line, found.rejects[0].reason, found.rejects[0].value) == (5, "no number", b"nothing")


def test_a_record_above_the_limit_is_a_reject_with_its_size(pipeline, topic, produce):
    name = topic(partitions=1)
    made = pipeline(name, KEYED, "id text, n int", record_limits="RecordLimits(bytes=2000)")
    given = [Record(b'{"id": "a", "n": 1}'), Record(b'{"id": "%s"}' % (b"x" * 3000))]

    found = tried(made.name, given)
    run(made, name, produce, given)

    assert of_trial(found) == (rows(made), rejects(made))
    (reject,) = found.rejects
    assert (reject.line, reject.value) == (2, None)
    assert reject.reason == "is 3010 bytes after decompression; the limit is 2000 (record_limits.bytes)"


@pytest.mark.long
def test_the_example_of_the_page_passes_as_it_stands(tmp_path):
    text = (ROOT / "docs" / "testing.md").read_text()
    (example,) = re.findall(r"```python\n(# test_orders\.py\n.*?)```", text, re.DOTALL)
    (tmp_path / "test_orders.py").write_text(example)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_orders.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{example.count('def test_')} passed" in done.stdout
