"""Tests Protobuf by the writer's schema: what is not exactly a record of it is a reject with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockstep.core.errors import BadData, Unreachable
from lockstep.core.pipeline.definition import Append, Pipeline, Protobuf, RecordLimits, Upsert
from lockstep.core.registry import registry as registry_of
from lockstep.formats.avro.schemas import PROTOBUF, Schemas
from lockstep.formats.protobuf.decoder import MessageDecoder
from lockstep.formats.rows import RecordOutcome
from support.fakes.registry import a_record, a_registry
from support.inputs.protos import a_file, a_message, classes, framed

QUICK: dict[str, Any] = {"max.retries": 0, "timeout": 5}
ITEM = a_message("Item", "string sku = 1", "int32 n = 2")
ORDER = a_message("Order", "string id = 1", "int32 n = 2", "string note = 3", nested=[ITEM])
SHOP = a_file(ORDER, a_message("Other", "string id = 1"))
ORDERED = classes(SHOP)


@pytest.fixture
def registry():
    with a_registry() as made:
        yield made


def decoder(registry, columns="id string, n int", target=None, limits=None, **more: Any) -> MessageDecoder:
    format_ = Protobuf(columns, **more)
    pipeline = Pipeline("p", "t", format_, target or Append("public.p"), record_limits=limits or RecordLimits())
    return MessageDecoder(pipeline, format_, Schemas(registry_of(registry.url, QUICK, str), PROTOBUF))


def row(registry, file, body, columns="n int", **more: Any) -> dict[str, Any]:
    """Returns the row of a record of a file's first message, or fails with its reason."""
    outcome = decoder(registry, columns, **more)(None, framed(registry.register_protobuf("t", file), body), None)
    assert outcome.reason is None, outcome.reason
    return outcome.values


def reason(registry, file, body, columns="n int", **more: Any) -> str:
    outcome = decoder(registry, columns, **more)(None, framed(registry.register_protobuf("t", file), body), None)
    assert outcome.values == {}
    return outcome.reason


def test_a_schema_grown_by_a_field_is_read_beside_the_older_one_and_each_is_asked_for_once(registry):
    old = registry.register_protobuf("t-value", SHOP)
    grown = a_file(a_message("Order", "string id = 1", "int32 n = 2", "string note = 3", "int64 more = 4"))
    new = registry.register_protobuf("t-value", grown)
    decode = decoder(registry, "id string, n int, more bigint")
    first = decode(None, framed(old, ORDERED("shop.Order", id="a", n=1)), None)
    second = decode(None, framed(new, classes(grown)("shop.Order", id="b", n=2, more=2**40)), None)
    decode(None, framed(old, ORDERED("shop.Order", id="c")), None)
    assert first.values == {"id": "a", "n": 1}
    assert second.values == {"id": "b", "n": 2, "more": 2**40}
    assert registry.asked == [f"/schemas/ids/{old}", f"/schemas/ids/{new}"]


def test_ten_schema_ids_of_one_batch_are_each_read_by_their_own_schema(registry):
    decode = decoder(registry, "id string, f9 int")
    rows = []
    for n in range(10):
        file = a_file(a_message("Order", "string id = 1", *(f"int32 f{k} = {k + 2}" for k in range(n + 1))))
        made = classes(file)("shop.Order", id=f"r{n}", **{f"f{n}": n})
        rows.append(decode(None, framed(registry.register_protobuf("t", file), made), None).values)
    assert rows == [{"id": f"r{n}"} for n in range(9)] + [{"id": "r9", "f9": 9}]


def test_message_indexes_lead_to_the_message_of_the_record(registry):
    schema_id = registry.register_protobuf("t", SHOP)
    other, item = ORDERED("shop.Other", id="o"), ORDERED("shop.Order.Item", sku="s", n=3)
    decode = decoder(registry, "id string, sku string, n int")
    assert decode(None, framed(schema_id, other, b"\x02\x02"), None).values == {"id": "o"}
    assert decode(None, framed(schema_id, item, b"\x04\x00\x00"), None).values == {"sku": "s", "n": 3}
    first = ORDERED("shop.Order", id="a", n=1)
    assert decode(None, framed(schema_id, first, b"\x02\x00"), None).values == {"id": "a", "n": 1}
    for indexes, why in (
        (b"\x02\x04", f"message indexes [2] are not in schema id {schema_id}"),
        (b"\x04\x00\x02", f"message indexes [0, 1] are not in schema id {schema_id}"),
        (b"\x02\x01", f"message indexes [-1] are not in schema id {schema_id}"),
        (b"\x01", "-1 message indexes"),
        (b"\xca\x01", "101 message indexes"),
        (b"\xff", "the bytes end within the message indexes, or these are no numbers"),
        (b"\xff" * 9, "the bytes end within the message indexes, or these are no numbers"),
        (b"\x04\x00", "the bytes end within the message indexes, or these are no numbers"),
        (b"", "the bytes end within the message indexes, or these are no numbers"),
    ):
        assert decode(None, framed(schema_id, b"", indexes), None).reason == why, indexes


def test_a_message_that_is_not_the_named_one_is_a_reject(registry):
    schema_id = registry.register_protobuf("t", SHOP)
    decode = decoder(registry, "id string", message="shop.Order")
    assert decode(None, framed(schema_id, ORDERED("shop.Order", id="a")), None).values == {"id": "a"}
    refused = decode(None, framed(schema_id, ORDERED("shop.Other", id="a"), b"\x02\x02"), None)
    assert refused.reason == f"schema id {schema_id} is message shop.Other, not shop.Order"


def test_an_index_behind_a_map_is_taken_only_with_the_messages_name(registry):
    nested = [a_message("A", "string id = 1"), a_message("B", "string id = 1")]
    file = a_file(a_message("Order", "map string int32 m = 1", nested=nested))
    value = framed(registry.register_protobuf("t", file), classes(file)("shop.Order.B", id="b"), b"\x04\x00\x02")
    assert decoder(registry, "id string")(None, value, None).reason == (
        "message indexes [0, 1] of schema id 1 may be shop.Order.A or shop.Order.B: name one as format.message"
    )
    assert decoder(registry, "id string", message="shop.Order.B")(None, value, None).values == {"id": "b"}


def test_references_are_resolved_by_name_and_version(registry):
    item = a_file(a_message("Item", "int32 n = 1", ".google.protobuf.Timestamp at = 2"), package="parts")
    item.name = "parts/item.proto"
    registry.register_protobuf("item", a_file(a_message("Item", "string n = 1"), package="parts"))
    registry.register_protobuf("item", item)
    refers = [{"name": "parts/item.proto", "subject": "item", "version": 2}]
    order = a_file(a_message("Order", "string id = 1", ".parts.Item item = 2"), imports=["parts/item.proto"])
    made = classes(order, item)("shop.Order", id="a", item={"n": 5, "at": {"seconds": 1}})
    value = framed(registry.register_protobuf("t", order, references=refers), made)
    assert decoder(registry, "id string, item string")(None, value, None).values == {
        "id": "a",
        "item": '{"n":5,"at":"1970-01-01T00:00:01Z"}',
    }
    lost = framed(registry.register_protobuf("t", order), made)
    assert "Depends on file 'parts/item.proto'" in decoder(registry, "id string")(None, lost, None).reason


def test_files_that_every_registry_knows_need_no_reference(registry):
    file = a_file(
        a_message("Order", ".google.type.Date day = 1", ".confluent.type.Decimal d = 2"),
        imports=["google/type/date.proto", "confluent/type/decimal.proto", "confluent/meta.proto"],
    )
    made = classes(file)("shop.Order", day={"year": 2026, "month": 5})
    assert row(registry, file, made, "day string, d string") == {
        "day": '{"year":2026,"month":5,"day":0}',
        "d": None,
    }


def test_bytes_that_are_no_record_of_a_known_schema_are_rejects(registry):
    shop = registry.register_protobuf("t-value", SHOP)
    avro = registry.register("t-value", a_record(("id", "string")))
    text = registry.register("t-value", {"type": "object"}, schemaType="JSON")
    good = framed(shop, ORDERED("shop.Order", id="a", n=1))
    decode = decoder(registry)
    for value, why in (
        (None, "null value"),
        (b"", "not Confluent's wire format"),
        (b'{"id":"a"}', "not Confluent's wire format"),
        (good[:4], "not Confluent's wire format"),
        (good[:5], "the bytes end within the message indexes"),
        (good[:-1], f"does not decode by schema id {shop}: "),
        (good[:8], f"does not decode by schema id {shop}: "),
        (b"\x00" + (999).to_bytes(4, "big") + good[5:], "schema id 999 is not in the registry"),
        (framed(avro, b"\x02a"), f"schema id {avro} is AVRO, not Protobuf"),
        (framed(text, b""), f"schema id {text} is JSON, not Protobuf"),
        (framed(shop, b"\x0a\x01\x00"), "column id: holds \\u0000"),
        (framed(shop, b"\x0a\x01\xff"), f"does not decode by schema id {shop}: "),
    ):
        outcome = decode(None, value, None)
        assert outcome.values == {}
        assert why in outcome.reason, (value, outcome.reason)
    assert decode(None, good, None).reason is None
    assert decode(None, framed(shop, b""), None).values == {"id": "", "n": 0}, "no bytes are a message of defaults"


KINDS = a_file(
    a_message(
        "M", "int32 n = 1", "uint32 u = 2", "bool b = 3", "sint32 s = 4", "fixed32 f = 5", "repeated int32 r = 6",
        ".shop.M m = 7", "uint64 w = 8", "enum .shop.E e = 9",
    ),
    enums={"E": {"NONE": 0, "ONE": 1}},
)  # fmt: skip


ODD_WIRES = {
    "an int32 of 33 bits": (b"\x08\xff\xff\xff\xff\x1f", "field n has the number 8589934591, which is no int32"),
    "a uint32 of 33 bits": (b"\x10\x80\x80\x80\x80\x10", "field u has the number 4294967296, which is no uint32"),
    "a uint32 of more": (b"\x10\xff\xff\xff\xff\x1f", "field u has the number 8589934591, which is no uint32"),
    "a bool of 2": (b"\x18\x02", "field b has the number 2, which is no bool"),
    "a sint32 of 33 bits": (b"\x20\x80\x80\x80\x80\x10", "field s has the number 4294967296, which is no sint32"),
    "a number of 65 bits": (b"\x40" + b"\xff" * 9 + b"\x02", "a number of more than 64 bits"),
    "an enum of 33 bits": (b"\x48\x80\x80\x80\x80\x10", "field e has the number 4294967296, which is no shop.E"),
    "an item of 33 bits": (b"\x30\x80\x80\x80\x80\x10", "field r has the number 4294967296, which is no int32"),
    "a packed item of 33 bits": (
        b"\x32\x05\x80\x80\x80\x80\x10",
        "field r has the number 4294967296, which is no int32",
    ),
    "text for a number": (b"\x0a\x01a", "field n has wire type 2, and the schema says int32"),
    "a varint for four bytes": (b"\x28\x01", "field f has wire type 0, and the schema says fixed32"),
    "a varint for a message": (b"\x38\x01", "field m has wire type 0, and the schema says message"),
    "text for a number within": (b"\x3a\x03\x0a\x01a", "field n has wire type 2, and the schema says int32"),
    "a group for a message": (b"\x3b\x3c", "field m is a group, and the schema says message"),
    "an unknown group": (b"\xa3\x01\xa4\x01", "field 20 is a group"),
    "the end of no group": (b"\x3c", "Wire format was corrupt"),
    "field 0": (b"\x00\x01", "Wire format was corrupt"),
    "wire type 7": (b"\x0f", "Wire format was corrupt"),
    "no number": (b"\x08", "Wire format was corrupt"),
    "a message cut short": (b"\x3a\x05\x08\x01", "Wire format was corrupt"),
}


@pytest.mark.parametrize(("body", "why"), ODD_WIRES.values(), ids=ODD_WIRES)
def test_odd_wires_are_rejects_wherever_the_parser_would_bend_or_skip_them(registry, body, why):
    said = reason(registry, KINDS, body)
    assert said.startswith("does not decode by schema id 1: ")
    assert why in said


def test_legal_forms_that_a_writer_may_choose_are_taken(registry):
    columns = "n int, r string, m string, b boolean"
    whole = b"\x30\x01\x32\x02\x02\x03\x08\x01\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\xa0\x01\x05\xaa\x01\x01x"
    found = row(registry, KINDS, whole, columns)
    assert found == {"n": -1, "r": "[1,2,3]", "m": None, "b": False}, "packed or not, in any order, the last one counts"
    assert row(registry, KINDS, b"\x08\x81\x80\x00", columns)["n"] == 1, "more bytes than the number needs"
    assert row(registry, KINDS, b"\x3a\x02\x08\x01\x3a\x02\x18\x01", columns)["m"] == (
        '{"n":1,"u":0,"b":true,"s":0,"f":0,"r":[],"m":null,"w":0,"e":"NONE"}'
    ), "a message in two parts is one"


def test_a_message_with_a_group_is_a_reject_where_the_group_is_set(registry):
    inner = a_message("G", "int32 n = 1")
    file = a_file(a_message("M", "int32 n = 1", "group .shop.M.G g = 2", nested=[inner]), syntax="proto2")
    assert row(registry, file, b"\x08\x05") == {"n": 5}
    assert reason(registry, file, b"\x08\x05\x13\x08\x01\x14").endswith("field g is a group, and the schema says group")


def test_limits_of_depth_and_values_hold_before_anything_is_decoded(registry):
    nested = b""
    for _ in range(60):
        nested = b"\x3a" + _varint(len(nested)) + nested
    few, many = RecordLimits(depth=60), RecordLimits(depth=61)
    assert "is nested deeper than 60, which is the limit" in reason(registry, KINDS, nested, limits=few)
    assert row(registry, KINDS, nested, limits=many) == {"n": 0}
    packed = b"\x32" + _varint(90) + b"\x01" * 90
    assert "holds more than 99 values" in reason(registry, KINDS, packed, limits=RecordLimits(values=99))
    assert row(registry, KINDS, packed, limits=RecordLimits(values=100)) == {"n": 0}
    empties = b"\x0a\x00" * 300_000
    wide = a_file(
        a_message("T", "repeated .shop.W w = 1"), a_message("W", *(f"int64 f{n} = {n}" for n in range(1, 500)))
    )
    assert "holds more than 1000000 values" in reason(registry, wide, empties, "w string")
    deep = b""
    for _ in range(150):
        deep = b"\x3a" + _varint(len(deep)) + deep
    assert "does not decode" in reason(registry, KINDS, deep, limits=RecordLimits(depth=200)), "the parser's own limit"


def _varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + _varint(number >> 7)


def test_only_schemas_of_the_subject_are_read_where_one_is_named(registry):
    mine, theirs = registry.register_protobuf("mine", SHOP), registry.register_protobuf("theirs", KINDS)
    decode = decoder(registry, "id string", subject="mine")
    assert decode(None, framed(mine, ORDERED("shop.Order", id="a")), None).values == {"id": "a"}
    assert decode(None, framed(theirs, b""), None).reason == f"schema id {theirs} is not one of subject mine"


def test_fields_without_a_column_are_gathered_where_there_is_a_rest(registry):
    schema_id = registry.register_protobuf("t", SHOP)
    decode = decoder(registry, "id string", rest="extra")
    value = framed(schema_id, ORDERED("shop.Order", id="b", n=1))
    assert decode(None, value, None).values == {"id": "b", "extra": '{"n":1,"note":""}'}
    other = decode(None, framed(schema_id, ORDERED("shop.Other", id="b"), b"\x02\x02"), None)
    assert other.values.get("extra") is None


def test_a_tombstones_key_is_plain_text_or_protobuf(registry):
    key = registry.register_protobuf("t-key", a_file(a_message("K", "string id = 1")))
    other = registry.register_protobuf("t-key", a_file(a_message("K", "string nr = 1")))
    unset = registry.register_protobuf("t-key", a_file(a_message("K", "optional string id = 1")))
    decode = decoder(registry, key="id", target=Upsert("public.p", key=("id",)), message="shop.Order")
    unknown = decode(b"\x00\x00\x00\x03\xe7x", None, None)
    assert (unknown.deleted, unknown.reason) == (True, "tombstone: its key is not a string"), (
        "an unknown id is no Protobuf"
    )
    assert decode(b"o1", None, None) == RecordOutcome({"id": "o1"}, deleted=True)
    assert decode(framed(key, b"\x0a\x02o1"), None, None).values == {"id": "o1"}
    assert "has no field id" in decode(framed(other, b""), None, None).reason
    assert decode(framed(unset, b""), None, None).reason == "tombstone: its key is not a string"


@pytest.mark.parametrize("trouble", [(500, b'{"error_code": 50001}'), (404, b"<html>no registry</html>"), (403, b"")])
def test_a_registry_that_gives_no_answer_is_away_and_rejects_nothing(registry, trouble):
    registry.trouble = trouble
    with pytest.raises(Unreachable, match="does not answer for schema id 1"):
        decoder(registry)(None, framed(1, b""), None)


def test_a_registry_that_has_only_the_text_of_a_schema_is_refused_with_the_remedy(registry):
    schema_id = registry.register_protobuf("t", SHOP, text='syntax = "proto3"; message Order { string id = 1; }')
    with pytest.raises(Unreachable) as refused:
        decoder(registry)(None, framed(schema_id, b""), None)
    assert str(refused.value) == (
        "the schema registry gives schema id 1 as .proto text, and not as a serialized descriptor  "
        "Next: use a registry that answers format=serialized, as Confluent's does"
    )


@pytest.mark.parametrize("name", ["google.protobuf.Timestamp", "google.protobuf.Int64Value"])
def test_a_schema_cannot_give_a_well_known_name_another_meaning(registry, name):
    package, _, short = name.rpartition(".")
    mine = a_file(a_message(short, "string a = 1", "string b = 2"), package=package)
    assert "cannot be read: TypeError" in reason(registry, mine, b"", "a string")


def test_a_type_that_a_column_would_bend_stops_the_batch(registry):
    file = a_file(a_message("Order", "int64 n = 1", "repeated .google.protobuf.Any a = 2"))
    value = framed(registry.register_protobuf("t", file), b"")
    with pytest.raises(BadData) as bent:
        decoder(registry, "n int")(None, value, None)
    assert str(bent.value) == (
        "p: column n is int, and schema id 1 writes int64, which would not keep every value  "
        "Next: change the column's type in the definition, then lockstep run p"
    )
    why = "column {} is string, and schema id 1 writes repeated google.protobuf.Any, which holds google.protobuf.Any"
    with pytest.raises(BadData, match=why.format("a")):
        decoder(registry, "a string")(None, value, None)
    with pytest.raises(BadData, match=why.format("extra")):
        decoder(registry, "n bigint", rest="extra")(None, value, None)
    assert decoder(registry, "n bigint")(None, value, None).values == {"n": 0}


def test_json_is_the_same_whatever_the_order_of_a_maps_entries(registry):
    file = a_file(a_message("M", "map string int32 m = 1", "map int32 string k = 2", "map bool bytes b = 3"))
    entries = [b"\x0a\x05\x0a\x01" + bytes([letter]) + b"\x10\x01" for letter in b"bca"]
    for order in (entries, entries[::-1]):
        assert row(registry, file, b"".join(order), "m string") == {"m": '{"a":1,"b":1,"c":1}'}
    made = classes(file)("shop.M", k={10: "x", -1: "y", 2: "z"}, b={True: b"\xff", False: b""})
    found = row(registry, file, made, "k string, b string")
    assert found == {"k": '{"-1":"y","2":"z","10":"x"}', "b": '{"false":"","true":"/w=="}'}
    assert json.loads(found["b"]) == {"false": "", "true": "/w=="}
