"""Tests `Json(registry=True, validate=True)`: a record that its schema does not allow is a reject, in a bounded time."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from lockstep.core.pipeline.definition import Append, Json, Pipeline, RecordLimits
from lockstep.core.registry import registry as registry_of
from lockstep.formats.avro.schemas import JSON, Schemas
from lockstep.formats.json.contracts import contract
from lockstep.formats.json.heads import BODY, HeadJudge
from support.fakes.registry import a_registry, headed
from support.inputs import hostile
from support.scenes.bounded import within

QUICK: dict[str, Any] = {"max.retries": 0, "timeout": 5}
LIMITS = RecordLimits()
SEVEN = "http://json-schema.org/draft-07/schema#"
LAST = "https://json-schema.org/draft/2020-12/schema"


@pytest.fixture
def registry():
    with a_registry() as made:
        yield made


def judge(registry, limits=LIMITS) -> HeadJudge:
    format_ = Json("id string", registry=True, validate=True)
    pipeline = Pipeline("p", "t", format_, Append("public.p"), record_limits=limits)
    return HeadJudge(pipeline, format_, Schemas(registry_of(registry.url, QUICK, str), JSON))


def fault(schema: Any, body: Any, references: dict[str, Any] | None = None, limits=LIMITS) -> str | None:
    """Returns why the schema does not allow a body, or None if it does."""
    texts = {name: json.dumps(each) for name, each in (references or {}).items()}
    text = schema if isinstance(schema, str) else json.dumps(schema)
    try:
        contract(7, text, texts, limits).require(body if isinstance(body, bytes) else json.dumps(body).encode())
    except ValueError as error:
        return str(error)
    return None


def test_a_record_that_its_schema_does_not_allow_is_a_reject_that_names_field_and_keyword(registry):
    item = {"type": "object", "required": ["sku"], "properties": {"qty": {"type": "integer", "minimum": 1}}}
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"id": {"type": "string"}, "lines": {"type": "array", "items": item}},
    }
    schema_id = registry.register_json("t-value", schema)
    take = judge(registry)

    def reason(body: Any) -> str | None:
        return take(None, headed(schema_id, body), None).reason

    says = f"says schema id {schema_id}"
    assert reason({"id": "a", "lines": [{"sku": "s", "qty": 2}]}) is None
    assert reason({"id": 1}) == f'field id: breaks type "string", {says}'
    assert reason({"lines": [{"sku": "s"}, {"sku": "s", "qty": 0}]}) == f"field lines/1/qty: breaks minimum 1, {says}"
    assert reason({"lines": [{}]}) == f"field lines/0: 'sku' is a required property, {says}"
    assert reason({"other": 1}) == f"field other: not allowed, {says}"
    assert reason([]) == f'the record: breaks type "object", {says}'
    good = headed(schema_id, {"id": "a"})
    assert take(None, good, None).values == {BODY: good[5:]}
    assert registry.asked == [f"/schemas/ids/{schema_id}"]


def test_each_record_is_checked_by_its_own_schema_and_no_value_is_in_a_reason(registry):
    old = registry.register_json("t-value", {"properties": {"n": {"maximum": 5}}})
    new = registry.register_json("t-value", {"properties": {"n": {"maximum": 50}}})
    take = judge(registry)
    assert take(None, headed(old, {"n": 7}), None).reason == f"field n: breaks maximum 5, says schema id {old}"
    assert take(None, headed(new, {"n": 7}), None).reason is None
    for schema in ({"enum": ["a"]}, {"const": 1}, {"maxLength": 1}, {"pattern": "^a$"}, {"not": {}}, False):
        told = fault(schema, "secret-4711")
        assert told
        assert "4711" not in told


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"multipleOf": 0.1}, [0.3, 1.1, -7, 0], [0.35]),
        ({"multipleOf": 0.01}, [4.35, 1e300], [0.001]),
        ({"multipleOf": 3}, [9, b"9.0", b"3e1000000", b"0e-999"], [b"1e1000000", b"3.3"]),
        ({"multipleOf": 1e-300}, [b"3e999999"], [b"1e-301", b"1e-999999"]),
        ({"type": "integer"}, [1, b"1.0", b"1e3", b"-0.0"], [b"1.5", b"1e-3", True, "1"]),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}, [1], [b"1.0"]),
        ({"type": "number"}, [1, b"1.5", b"1e999999"], [True, "1"]),
        ({"minimum": 9007199254740993}, [9007199254740993], [9007199254740992]),
        ({"exclusiveMaximum": 0.1}, [b"0.09999999999999999999999"], [b"0.1", b"0.10000"]),
        ({"minLength": 2.0}, ["ab", "e\u0301"], ["\U0001f600"]),
        ({"uniqueItems": True}, [[1, True, "1", [1], {"a": 1}, {"a": 2}, None, 0, False]], [[1, 1.0]]),
        ({"uniqueItems": True}, [[[1, 2], [2, 1]]], [[{"a": [1], "b": 2}, {"b": 2, "a": [1.0]}]]),
        ({"enum": [1, "a", None]}, [1, b"1.0", "a", None], [True, "b", [1]]),
        ({"const": {"a": 1}}, [{"a": 1}], [{"a": True}, {}]),
        ({"pattern": "^\\d+$"}, ["12"], ["12\n", "\u0661", ""]),
        ({"pattern": "\\u00e9"}, ["\u00e9"], ["e"]),
        ({"pattern": "\\\\u00e9"}, ["\\u00e9"], ["\u00e9"]),
        ({"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
         [{"x1": "a", "b": 1}], [{"x1": 1}, {"b": "a"}]),
        ({"properties": {"a": True}, "patternProperties": {"^x": True}, "additionalProperties": False},
         [{"a": 1, "x": 2}], [{"ax": 1}]),
        ({"propertyNames": {"pattern": "^[a-z]+$"}}, [{"a": 1}], [{"A": 1}]),
        ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, ["a", 3], [2]),
        ({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}, [2, 3], [6, 5]),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, [{}, {"a": 1, "b": 1}], [{"a": 1}]),
        ({"format": "email"}, ["no address"], []),
        ({"$schema": LAST, "prefixItems": [{"type": "string"}], "items": False}, [["a"]], [[1], ["a", 1]]),
        ({"$schema": LAST, "allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}, [{"a": 1}], [{"b": 1}]),
        ({"$schema": SEVEN, "properties": {"next": {"$ref": "#"}}, "maxProperties": 1},
         [{"next": {"next": {}}}], [{"next": {"a": 1, "b": 1}}]),
        (True, [1, None, {}], []),
        (False, [], [1, None, {}]),
    ],
    ids=lambda case: str(case)[:30],
)  # fmt: skip
def test_each_keyword_is_exact(schema, good, bad):
    assert [fault(schema, each) for each in good] == [None] * len(good)
    assert all(fault(schema, each) for each in bad)


TWO_WAYS = [
    b"", b"{", b"{}{}", b"nul", b"\xff", b"\xef\xbb\xbf{}", b"NaN", b"[Infinity]", b'{"a":1,"a":2}', b"9" * 1_001,
    b"1e99999999999999999999", b"[" * 100_000, b'"\x01"', b"01",
]  # fmt: skip


@pytest.mark.parametrize("body", TWO_WAYS, ids=lambda body: repr(body)[:20])
def test_what_two_parsers_could_read_differently_is_a_reject(body):
    assert fault({}, body)
    assert "\n" not in fault({}, body)


def test_references_are_resolved_from_the_registry_alone(registry):
    registry.register_json("address", {"$id": "http://shop/address.json", "required": ["city"]})
    reference = {"name": "address.json", "subject": "address", "version": 1}
    schema = {"$id": "http://shop/order.json", "properties": {"to": {"$ref": "address.json"}}}
    schema_id = registry.register_json("t-value", schema, references=[reference])
    elsewhere = registry.register_json("t-value", {"$ref": f"{registry.url}/elsewhere.json"})
    local = registry.register_json("t-value", {"$ref": "file:///etc/hostname"})
    take = judge(registry)
    assert take(None, headed(schema_id, {"to": {"city": "x"}}), None).reason is None
    assert "field to: 'city' is a required property" in take(None, headed(schema_id, {"to": {}}), None).reason
    registry.asked.clear()
    told = take(None, headed(elsewhere, {}), None).reason
    assert told.startswith(f"cannot be checked by schema id {elsewhere}: the registry names no {registry.url}/else")
    assert "the registry names no file:///etc/hostname" in take(None, headed(local, {}), None).reason
    assert registry.asked == [f"/schemas/ids/{elsewhere}", f"/schemas/ids/{local}"]


def test_a_reference_without_a_base_is_found_by_its_name_and_its_own_id():
    others = {"a.json": {"$id": "urn:a", "definitions": {"n": {"minimum": 3}}}}
    for ref in ("a.json#/definitions/n", "urn:a#/definitions/n"):
        assert fault({"$ref": ref}, 3, others) is None
        assert fault({"$ref": ref}, 2, others) == "the record: breaks minimum 3, says schema id 7"
    assert fault({"$ref": SEVEN}, {"type": "x"})
    assert fault({"$ref": SEVEN}, {"type": "string"}) is None


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nothing"}, "is not valid under any of the given schemas"),
        ({"$schema": "http://example.com/own", "type": "string"}, "its $schema is none of draft-04"),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "its $schema is none of draft-04"),
        ({"$schema": 5}, "its $schema is none of draft-04"),
        ("[]", "it is no object"),
        ("{", "JSON"),
        ("{}" * 3, "JSON"),
        ('{"not":' * 5_000 + "{}" + "}" * 5_000, "ecursion"),
        ('{"not":' * 500 + "{}" + "}" * 500, "nested deeper than 100 records"),
        ({"$schema": LAST, "patternProperties": {"a": True}, "unevaluatedProperties": False}, "is not checked here"),
    ],
    ids=lambda case: str(case)[:40],
)
def test_what_is_no_schema_rejects_its_records_with_the_reason(registry, schema, words):
    schema_id = registry.register_json("t-value", schema)
    told = judge(registry)(None, headed(schema_id, {}), None).reason
    assert told.startswith(f"schema id {schema_id} cannot be read: ")
    assert words in told


@pytest.mark.parametrize("case", hostile.CONTRACTS)
def test_a_hostile_schema_or_record_is_a_reject_within_seconds(case):
    schema, body = hostile.CONTRACTS[case]
    fault({}, {})  # the package is slow to import

    def judged() -> tuple[str | None, float]:
        begun = time.process_time()
        return fault(schema, body, limits=RecordLimits(values=100_000)), time.process_time() - begun

    told, seconds = within(judged)
    assert told
    assert seconds < 4


def test_every_hostile_record_is_what_json_and_its_schema_allow_or_a_reject_in_one_line():
    schema = {"properties": {"n": {"multipleOf": 0.1}, "id": {"pattern": "^(a+)+$"}}, "uniqueItems": True}
    one = contract(7, json.dumps(schema), {}, LIMITS)
    begun, told = time.process_time(), set()
    for _, value, _ in hostile.records():
        try:
            one.require(value or b"")
        except ValueError as error:
            told.add(str(error))
    assert len(told) > 20
    assert all("\n" not in each and len(each) < 300 for each in told)
    assert time.process_time() - begun < 10


def test_checks_are_counted_and_their_depth_is():
    doubling = {"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    deep: dict[str, Any] = {}
    for _ in range(40):
        deep = {"a": deep}
    few = RecordLimits(values=10_000)
    assert fault(doubling, deep, limits=few) == (
        "cannot be checked by schema id 7: it takes more than 10000 checks, which is the limit (record_limits.values)"
    )
    assert fault({"properties": {"a": {"$ref": "#"}}}, deep) is None
    for _ in range(60):
        deep = {"a": deep}
    assert fault({}, deep) == "is nested deeper than 100 (record_limits.depth)"
    chain = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}]} for n in range(150)}
    chained = {"definitions": {**chain, "d150": {}}, "$ref": "#/definitions/d0"}
    assert "more than 200 checks within each other" in fault(chained, {})
    assert "more than 50 checks" in str(fault(doubling, {"a": {"a": {"a": {"a": {}}}}}, limits=RecordLimits(values=50)))
    one = contract(7, json.dumps(doubling), {}, RecordLimits(values=50))
    for _ in range(30):
        one.require(b'{"a": {"a": {}}}')  # each record has the whole budget
