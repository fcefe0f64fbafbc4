"""Tests that records taken by a template are what the decoder makes of each, and that all others are left to it."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from lockstep import Debezium, Pipeline, Upsert
from lockstep.core.errors import BadData
from lockstep.engine.raw_schema import RAW_SCHEMA
from lockstep.formats.debezium.decoder import ChangeDecoder
from lockstep.formats.debezium.templates import MOST_TEMPLATES, Templates
from lockstep.formats.judged import RecordDecoder
from lockstep.formats.rows import RecordOutcome, shortened_reason
from support.fakes.captured import PLACEHOLDER, CapturedTable

SCHEMA = (
    "id bigint, name string, small smallint, ok boolean, price decimal(10,2), day date, seen timestamp, photo binary, "
    "half double"
)
UNITS = {"price": "text", "day": "days", "seen": "micros", "photo": "base64"}
TYPES = {
    "id": "int64", "name": "string", "small": "int16", "ok": "boolean", "price": "string", "day": "int32", "seen": "int64",
    "photo": "bytes", "half": "double",
}  # fmt: skip
NAMES = {"day": "io.debezium.time.Date", "seen": "io.debezium.time.MicroTimestamp"}
IN_BASE64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
ODD: dict[str, list[Any]] = {
    "id": [None, 2**63, -(2**63), "7", 1.0, 10**30, -0.0, True],
    "name": [None, "", "ü", "\\", 'a"b', "\u0000", "\ud800", PLACEHOLDER, IN_BASE64, 7, [1], {"a": 1}],
    "small": [None, 32_768, -32_768, 1e2, "1", PLACEHOLDER],
    "ok": [None, 1, "true", 0],
    "price": [None, "1.5", "1.555", "1e3", "NaN", 7, PLACEHOLDER, "99999999.999"],
    "day": [None, 20_000, -1, "2026-05-01", "x", 10**9, 1.5],
    "seen": [None, 1_777_777_777_000_000, "2026-05-01T12:00:00Z", 10**18, "x"],
    "photo": [None, "AQ==", "x", PLACEHOLDER, ""],
    "half": [None, 0.1, 1e400, 1234567.891, 7, "NaN", 16777217],
}
SOURCE: dict[str, list[Any]] = {
    "lsn": [None, 0, 2**63, "77", -1, 1.5],
    "sequence": [None, '["90","100"]', '["90", "100"]', '[null,"100"]', "x", '["9999999999999999999","1"]', "[]"],
    "snapshot": ["true", "last", "false", None, "incremental", False, 7],
    "ts_ms": [None, 5, "5", 1.5, -1],
}
EVERY_ODD = [(name, value) for each in (ODD, SOURCE) for name, values in each.items() for value in values]
MYSQL = {"file": "binlog.000007", "pos": 120, "row": 1, "snapshot": "false", "ts_ms": 7}
RAW = {"_stream": 1, "_ordinal": 0, "_headers": None, "_topic": "t", "_partition": 0, "_timestamp": None}


def usual(pick: random.Random) -> dict[str, Any]:
    return {
        "id": pick.randint(-9, 99),
        "name": f"n {pick.randint(0, 9)}",
        "small": pick.randint(-9, 9),
        "ok": pick.random() < 0.5,
        "price": f"{pick.randint(0, 99)}.50",
        "day": 20_000 + pick.randint(0, 9),
        "seen": 1_777_777_777_000_000 + pick.randint(0, 9),
        "photo": "AQ==",
        "half": pick.choice([0.5, 1, 0.1]),
    }


def source_of(pick: random.Random, *, mysql: bool) -> dict[str, Any]:
    if mysql:
        return MYSQL | {"pos": pick.randint(1, 999)}
    places = {"lsn": pick.randint(1, 10**12), "sequence": f'["{pick.randint(1, 10**12)}","5"]'}
    return {"version": "2.7", **places, "snapshot": "false", "ts_ms": 1_777_777_777_000, "xmin": None}


def spoiled(pick: random.Random, data: bytes) -> bytes | None:
    """Returns bytes that are no record, or one that JSON does not allow."""
    replaced = [
        (b"n ", b"\xff"), (b'"op"', b'"op":"c","op"'), (b'"xmin"', b'"lsn"'), (b'"id"', b'"name"'), (b": 1", b": 01"),
        (b"n ", b"\t"), (b'"ts_ms":1,', b'"ts_ms":NaN,'),
    ]  # fmt: skip
    others = [None, b"null", b"", data[:-1], data + b" ", data + b"}"]
    return pick.choice([*others, *(data.replace(*each, 1) for each in replaced)])


def record(
    pick: random.Random,
    odds: float,
    *,
    schemas: bool,
    mysql: bool,
    odd: dict[str, Any] = {},  # noqa: B006 - unchanged
) -> tuple[bytes | None, bytes | None]:
    """Returns a change record of a few ways of writing, in which a value may be odd. Those of `odd` are."""
    row, source = usual(pick), source_of(pick, mysql=mysql)
    op: Any = pick.choice("cccuur")
    if pick.random() < odds:
        odd = dict([pick.choice(EVERY_ODD)])
    row |= {name: value for name, value in odd.items() if name in ODD}
    source |= {name: value for name, value in odd.items() if name in SOURCE}
    if pick.random() < odds:
        op = pick.choice(["d", "m", "x", None, 1])
    sides = {"before": usual(pick) if op in ("u", "d") else None, "after": None if op == "d" else row}
    payload = sides | {"source": source, "op": op, "ts_ms": 1, "transaction": None}
    fields = [{"field": name, "type": type_, "name": NAMES.get(name)} for name, type_ in TYPES.items()]
    schema = [{"field": side, "type": "struct", "fields": fields} for side in ("before", "after")]
    document = {"schema": {"type": "struct", "fields": schema}, "payload": payload} if schemas else payload
    data = json.dumps(document, separators=pick.choice([(",", ":"), (",", ":"), (", ", ": ")])).encode()
    key = json.dumps({"id": row["id"] if type(row["id"]) is int else 1}).encode()
    return key, spoiled(pick, data) if pick.random() < odds else data


def batch_of(records: list[tuple[bytes | None, bytes | None]], begin: int = 0) -> pa.RecordBatch:
    rows = [
        {**RAW, "_offset": begin + place, "_key": key, "_value": value, "_bytes": len(key or b"") + len(value or b"")}
        for place, (key, value) in enumerate(records)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)


def one_by_one(pipeline: Pipeline, records: list[tuple[bytes | None, bytes | None]]) -> list[RecordOutcome]:
    judge, found = ChangeDecoder(pipeline.name, pipeline.format), []  # type: ignore[arg-type]
    for key, value in records:
        outcome = judge(key, value, None)
        if not (outcome.reason or outcome.deleted or outcome.filtered) and outcome.values.get("id") is None:
            outcome = RecordOutcome(reason="column id: null, and the target's key or order needs it")
        found.append(outcome)
    return found


def pipeline_of(**how: Any) -> Pipeline:
    form = Debezium(SCHEMA, units=how.pop("units", UNITS), **how)
    return Pipeline("shop", "shop.public.orders", form, Upsert("public.shop", key=("id",)))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("order", ["log", "source"])
def test_a_batch_is_what_the_decoder_makes_of_each_record(seed, order):
    pick = random.Random(seed)  # noqa: S311 - a seed that can be told is the point
    schemas, mysql = seed % 3 == 1, seed % 3 == 2
    pipeline = pipeline_of(order=order, units={} if schemas else UNITS)
    records = [record(pick, 0.08, schemas=schemas, mysql=mysql) for _ in range(300)]
    records += [record(pick, 0.0, schemas=schemas, mysql=mysql, odd=dict([each])) for each in EVERY_ODD]
    for place, (key, value) in enumerate(records):  # a tombstone behind a deletion
        if value and b'"op":"d"' in value and place + 3 < len(records):
            records[place + pick.randint(1, 3)] = key, None
    wanted = one_by_one(pipeline, records)
    decode = RecordDecoder(pipeline, None, None, keeps_bytes=False)
    found = pa.Table.from_batches(list(decode([batch_of(records[:170]), batch_of(records[170:], 170)])))
    assert found.column("_reason").to_pylist() == [shortened_reason(outcome.reason) for outcome in wanted]
    assert found.column("_deleted").to_pylist() == [outcome.deleted for outcome in wanted]
    assert found.column("_filtered").to_pylist() == [outcome.filtered for outcome in wanted]
    names = [column.name for column in pipeline.staged_columns]
    for name in names:
        its = pa.chunked_array(
            [pa.array([outcome.values.get(name) for outcome in wanted], found.schema.field(name).type)]
        )
        assert found.column(name).combine_chunks().equals(its.combine_chunks()), name
    kept = [None if outcome.reason is None else value for outcome, (_, value) in zip(wanted, records, strict=True)]
    assert found.column("_value").to_pylist() == kept
    assert {outcome.reason is None for outcome in wanted} == {True, False}


@pytest.mark.parametrize("schemas", [True, False])
def test_most_plain_records_match_a_template_and_no_other_does(schemas):
    pick = random.Random(1)  # noqa: S311 - as above
    pipeline = pipeline_of(order="source", units={} if schemas else UNITS)
    templates = Templates(ChangeDecoder("shop", pipeline.format), pipeline.format, frozenset({"id"}))  # type: ignore[arg-type]
    records = [record(pick, 0.0, schemas=schemas, mysql=False) for _ in range(500)]
    places, columns = templates(pa.array([value for _, value in records], pa.binary()))
    assert places.tolist() == list(range(500))
    assert columns.column("id").to_pylist() == [json.loads(key or b"")["id"] for key, _ in records]
    odd = [value for _, value in (record(pick, 0.5, schemas=schemas, mysql=False) for _ in range(300))]
    places, columns = templates(pa.array(odd, pa.binary()))
    judge = ChangeDecoder("shop", pipeline.format)  # type: ignore[arg-type]
    for place, values in zip(places.tolist(), columns.to_pylist(), strict=True):
        outcome = judge(None, odd[place], None)
        assert (outcome.reason, outcome.deleted) == (None, False)
        assert values["id"] == outcome.values["id"]
    assert 0 < len(places) < len(odd)


def test_a_table_that_is_written_in_many_ways_has_a_few_templates():
    pipeline = pipeline_of()
    templates = Templates(ChangeDecoder("shop", pipeline.format), pipeline.format, frozenset())  # type: ignore[arg-type]
    values = [json.dumps({"op": "c", f"x{n}": 1, "source": {}, "after": {"id": n}}).encode() for n in range(50)]
    places, _ = templates(pa.array(values, pa.binary()))
    assert len(places) == MOST_TEMPLATES
    source = CapturedTable(3)
    for _ in range(30):
        source.step()
    mirror = Debezium("id bigint, name string, doc string, photo binary", units={"photo": "base64"})
    its = Templates(ChangeDecoder("shop", mirror), mirror, frozenset({"id"}))
    places, _ = its(pa.array([sent.value for sent in source.sent], pa.binary()))
    assert len(places) > len(source.sent) / 3


@pytest.mark.parametrize(("topic", "option"), [("shop.v1", ""), (("shop.v1", "shop.v2"), " --topic t")])
def test_a_truncation_names_its_record_and_its_topic_where_there_are_several(topic, option):
    pipeline = Pipeline("shop", topic, Debezium(SCHEMA, units=UNITS), Upsert("public.shop", key=("id",)))
    truncation = None, b'{"op": "t", "source": {}, "before": null, "after": null}'
    records = [record(random.Random(1), 0.0, schemas=False, mysql=False), truncation]  # noqa: S311 - as above
    with pytest.raises(BadData, match=r"and rows stay here: .* partition 0 offset 1") as no:
        list(RecordDecoder(pipeline, None, None, keeps_bytes=False)([batch_of(records)]))
    assert no.value.next_command == f"lockstep skip shop{option} --to 0:2 --reason ..."


@pytest.mark.parametrize("cut", [1, 3, 4])
def test_a_row_that_a_template_takes_ends_the_memory_of_its_keys_deletion(cut):
    """A tombstone whose own deletion is gone has no order, although an older deletion of its key was judged before."""
    pick, pipeline = random.Random(1), pipeline_of(order="source")  # noqa: S311 - as above
    row, deletion = (json.loads(record(pick, 0.0, schemas=False, mysql=False)[1] or b"") for _ in range(2))
    key = json.dumps({"id": 5}).encode()
    row |= {"op": "c", "after": row["after"] | {"id": 5}, "before": None}
    deletion |= {"op": "d", "before": {"id": 5}, "after": None}
    other = b'{"id": 6}', json.dumps(row | {"after": row["after"] | {"id": 6}}).encode()
    made, gone = (key, json.dumps(row).encode()), (key, json.dumps(deletion).encode())
    records = [made, gone, made, other, (key, None), gone, other, (key, None)]
    wanted = one_by_one(pipeline, records)
    decode = RecordDecoder(pipeline, None, None, keeps_bytes=False)
    found = pa.Table.from_batches(list(decode([batch_of(records[:cut]), batch_of(records[cut:], cut)])))
    orders = found.column("_source_order").to_pylist()
    assert orders == [outcome.values.get("_source_order") for outcome in wanted]
    assert orders[4] is None
    assert orders[7] == orders[5]
