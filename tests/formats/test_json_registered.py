"""Tests JSON by the registry: the head is off, its id is known and of JSON Schema, and the rest is what `Json` reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lockstep.core.errors import BadDefinition, Unreachable
from lockstep.core.pipeline.definition import Append, Avro, Json, Pipeline, RecordLimits, Upsert
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.core.planning.routes import Way, route
from lockstep.core.registry import registry as registry_of
from lockstep.formats.avro.decoder import Decoder
from lockstep.formats.avro.schemas import JSON, Schemas
from lockstep.formats.json.columns import columnar
from lockstep.formats.json.heads import BODY, PLAIN_KEY, HeadedColumns, HeadJudge
from lockstep.formats.judged import RecordDecoder
from lockstep.formats.judges import judge_of
from lockstep.formats.second_reading import DELETED, REJECTED, ROW, RereadRecord, SecondReading
from support.engines import IN_PROCESS
from support.fakes.registry import a_record, a_registry, headed
from support.inputs.raw_records import raw_batch

QUICK: dict[str, Any] = {"max.retries": 0, "timeout": 5}
ORDER = {"type": "object", "properties": {"id": {"type": "string"}}}


@pytest.fixture
def registry():
    with a_registry() as made:
        yield made


def judge(registry, columns="id string, n int", limits=None, target=None, **more: Any) -> HeadJudge:
    format_ = Json(columns, registry=True, **more)
    pipeline = Pipeline("p", "t", format_, target or Append("public.p"), record_limits=limits or RecordLimits())
    return HeadJudge(pipeline, format_, Schemas(registry_of(registry.url, QUICK, str), JSON))


def _folder(pipeline: Pipeline) -> PipelineFolder:
    return PipelineFolder(pipeline, Path(), None, None, None)


def test_the_head_is_off_and_nothing_else(registry):
    schema_id = registry.register_json("t-value", ORDER)
    take = judge(registry)
    for body in (b' {"id": "a"}\n', b"", b"\xff", b"\x00\x00\x00\x00\x01{}"):
        assert take(None, headed(schema_id, body), None).values == {BODY: body}
    assert take(None, None, None).values == {PLAIN_KEY: None}
    assert registry.asked == [f"/schemas/ids/{schema_id}"]


def test_what_has_no_known_head_is_a_reject_with_its_reason(registry):
    schema_id = registry.register_json("t-value", ORDER)
    other = registry.register("t-avro", a_record(("id", "string")))
    take = judge(registry, subject="t-value")
    elsewhere = registry.register_json("u-value", {"type": "array"})

    def reason(value: bytes) -> str:
        outcome = take(None, value, None)
        assert outcome.values == {}
        return outcome.reason

    for plain in (b'{"id": "a"}', b"", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01{}"):
        assert reason(plain).startswith("not Confluent's wire format"), plain
    assert reason(headed(77, {})) == "schema id 77 is not in the registry"
    assert reason(headed(other, {})) == f"schema id {other} is not one of subject t-value"
    assert reason(headed(elsewhere, {})) == f"schema id {elsewhere} is not one of subject t-value"
    assert judge(registry)(None, headed(other, {}), None).reason == f"schema id {other} is AVRO, not Json"
    assert take(None, headed(schema_id, {}), None).reason is None


def test_a_registry_that_does_not_answer_blames_no_record(registry):
    registry.trouble = (500, b"{}")
    with pytest.raises(Unreachable):
        judge(registry)(None, headed(1, {}), None)


def test_unknown_ids_are_asked_for_once_and_only_so_many(registry):
    take = judge(registry, limits=RecordLimits(schemas=3))
    reasons = [take(None, headed(900 + n % 5, {}), None).reason for n in range(50)]
    assert len(registry.asked) == 3
    assert reasons[0] == reasons[5] == "schema id 900 is not in the registry"
    assert reasons[4] == "schema id 904 was not asked for: the registry refused 3 others, which is the limit"


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'"a"', b"a"),
        (b"17", b"17"),
        (b"-0.10", b"-0.10"),
        (b"true", b"true"),
        (b'{"id": "a"}', b"a"),
        (b'{"id": 17, "x": []}', b"17"),
    ],
)
def test_a_tombstones_key_may_have_a_head_of_its_own(registry, body, key):
    schema_id = registry.register_json("t-key", {})
    take = judge(registry, key="id", target=Upsert("public.p", key=("id",)))
    assert take(headed(schema_id, body), None, None).values == {PLAIN_KEY: key}


def test_a_key_that_says_no_value_is_a_reject_and_one_of_an_unknown_id_stays_as_it_is(registry):
    schema_id = registry.register_json("t-key", {})
    take = judge(registry, key="id", target=Upsert("public.p", key=("id",)))
    for body in (b"", b"null", b"[1]", b'{"id": null}', b'{"id": {}}', b"\xff", b'"\\ud800"', b"[" * 100_000):
        assert take(headed(schema_id, body), None, None).reason == "tombstone: its key is not a string", body
    missing = take(headed(schema_id, b'{"ID": 1}'), None, None).reason
    assert missing == f"tombstone: its key, schema id {schema_id}, has no field id"
    assert take(headed(99, b"1"), None, None).values == {PLAIN_KEY: headed(99, b"1")}
    registry.asked.clear()
    assert judge(registry, key="id")(headed(schema_id, b"1"), None, None).values == {PLAIN_KEY: headed(schema_id, b"1")}
    assert registry.asked == []  # nothing is deleted there, so no key is read


@pytest.mark.parametrize("first", ["key", "value"])
def test_what_is_known_of_an_id_as_a_keys_says_nothing_of_it_as_a_values(registry, first):
    """Avro and JSON Schema share this: a subject holds for values, whichever the task has met first."""
    avro = registry.register("t-key", "string")
    format_ = Avro("id string", key="id", subject="t-value")
    pipeline = Pipeline("p", "t", format_, Upsert("public.p", key=("id",)))
    decode = Decoder(pipeline, format_, Schemas(registry_of(registry.url, QUICK, str)))
    by_json = registry.register_json("t-key", {})
    take = judge(registry, key="id", subject="t-value", target=Upsert("public.p", key=("id",)))
    for act, key, schema_id in ((decode, registry.encode(avro, "a"), avro), (take, headed(by_json, "a"), by_json)):
        calls = [lambda act=act, key=key: act(key, None, None), lambda act=act, key=key: act(None, key, None)]
        outcomes = [call() for call in (calls if first == "key" else reversed(calls))]
        of_key, of_value = outcomes if first == "key" else reversed(outcomes)
        assert list(of_key.values.values()) in (["a"], [b"a"])
        assert of_value.reason == f"schema id {schema_id} is not one of subject t-value"


def test_a_second_reading_takes_the_head_off_and_proves_the_values(registry):
    schema_id = registry.register_json("t-value", ORDER)
    key_id = registry.register_json("t-key", {})
    format_ = Json("id string, n int, extra string", key="id", rest="extra", registry=True)
    folder = _folder(Pipeline("p", "t", format_, Upsert("public.p", key=("id",))))
    values = [headed(schema_id, b'{"id":"a","n":1,"x":1.0}'), b'{"id":"b"}', headed(schema_id, b"\xff"), None]
    records = [RereadRecord(0, n, headed(key_id, "a"), value, None, -1) for n, value in enumerate(values)]
    place = registry_of(registry.url, QUICK, str)
    rows = SecondReading(folder, place)(records).to_pylist()
    assert [row["Became"] for row in rows] == [ROW, REJECTED, REJECTED, DELETED]
    assert (rows[0]["id"], rows[0]["n"], rows[0]["extra"], rows[3]["id"]) == ("a", 1, '{"x":1.0}', "a")
    odd = SecondReading(folder, place)([records[0]._replace(value=headed(schema_id, b'{"id":"a","id":"b"}'))])
    assert (odd.to_pylist()[0]["Became"], odd.to_pylist()[0]["id"]) == (ROW, "b")
    with pytest.raises(BadDefinition, match="LOCKSTEP_REGISTRY is not set"):
        SecondReading(folder, None)


def test_such_records_are_read_as_others_and_older_definitions_keep_their_hash():
    plain = Json("id string")
    folder = _folder(Pipeline("p", "t", plain, Append("public.p")))
    assert folder.pipeline.document()["format"] == {"kind": "Json", "schema": "id string", "key": None}
    by_registry = _folder(replace(folder.pipeline, format=replace(plain, registry=True)))
    assert by_registry.pipeline.document()["format"]["registry"] is True
    assert route(folder, IN_PROCESS).way is Way.PROCESS
    assert route(by_registry, IN_PROCESS).way is Way.PROCESS


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"registry": 1}, "format.registry is 1: it must be True or False"),
        ({"registry": True, "validate": None}, "format.validate is None: it must be True or False"),
        ({"validate": True}, "format.validate needs the registry's schemas: say registry=True, too"),
        ({"subject": "t-value"}, "format.subject needs the registry's schemas: say registry=True, too"),
        ({"registry": True, "subject": ""}, "format.subject is '': it must be a subject's name"),
    ],
    ids=str,
)
def test_a_definition_that_says_half_is_refused(options, words):
    with pytest.raises(BadDefinition) as refused:
        Json("id string", **options)
    assert str(refused.value) == words


@pytest.mark.parametrize("validates", [False, True])
def test_what_is_behind_a_head_is_decoded_by_columns_as_the_judge_reads_it(registry, validates):
    schema_id = registry.register_json("t-value", ORDER)
    format_ = Json("id string, n int", registry=True, validate=validates, rest="others", key="id")
    pipeline = Pipeline("p", "t", format_, Upsert("public.p", key=("id",)))
    reached = registry_of(registry.url, QUICK, str)
    bodies = [
        b'{"id":"a","n":1}',
        b'{"id":"b","x":[1, 2]}',
        b'{"id":{"a":1}}',
        b'{"n":2}',
        b"[]",
        b'{"id":"c","id":"d"}',
        b"",
    ]
    values = [*(headed(schema_id, body) for body in bodies), headed(99, bodies[0]), bodies[0], b"", None]

    places, columns = HeadedColumns(pipeline, format_, reached, columnar(pipeline))(pa.array(values, pa.binary()))
    (decoded,) = RecordDecoder(pipeline, None, reached, keeps_bytes=False)([raw_batch(values)])

    assert places.tolist() == ([0, 1] if validates else [0, 1, 2])
    judge = judge_of(pipeline, None, reached)
    outcomes = [judge(b"k", value, None) for value in values]
    needed = "column id: null, and the target's key or order needs it"
    reasons = [each.reason or (None if each.deleted or each.values.get("id") else needed) for each in outcomes]
    assert decoded.column("_reason").to_pylist() == reasons
    for name in ("id", "n", "others"):
        expected = [None if reason else each.values.get(name) for each, reason in zip(outcomes, reasons, strict=True)]
        assert decoded.column(name).to_pylist() == expected
    assert columns.column("others").to_pylist()[:2] == [None, '{"x":[1, 2]}']
