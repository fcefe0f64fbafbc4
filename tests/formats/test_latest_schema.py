"""Tests how the registry's newest schema is compared with a definition: fields that are new, gone, narrower, wider."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep import Append, Avro, Debezium, Json, Pipeline, Protobuf, Topics, Upsert
from lockstep.core.registry import Registry
from lockstep.formats.avro import schemas
from lockstep.steps.inspect.registry import schema_shift
from support.fakes.registry import a_record, a_registry
from support.inputs.protos import a_file, a_message

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


@pytest.fixture
def registry():
    with a_registry() as served:
        yield served
    schemas.schemas.cache_clear()


def shift(registry, format_: Any, subject: str = "t-value"):
    target = Upsert("public.t", key=("id",)) if isinstance(format_, Debezium) else Append("public.t")
    found = schema_shift(Pipeline("t", "t", format_, target), Registry(registry.url))
    assert found is None or found.subject == subject
    return found


def told(found) -> list[tuple[str, str, str | None]]:
    return [(str(each.kind), each.name, each.line) for each in found.shifts]


def test_avro_that_grows_loses_narrows_and_widens(registry):
    registry.register("t-value", a_record(("id", "string")))
    registry.register(
        "t-value",
        a_record(
            ("id", "string"), ("amount", DECIMAL), ("n", "int"), ("m", ["null", "long"]), ("flag", "string"),
            ("note", ["null", "string"]), ("at", MILLIS), ("Odd", "int"), ("both", ["int", "string"]),
        ),
    )  # fmt: skip
    found = shift(registry, Avro("id string, amount decimal(10,2), n bigint, m int, flag boolean, gone date"))
    assert found.schema_id == 2
    assert told(found) == [
        ("widened", "amount", "amount decimal(12,2)"),
        ("narrowed", "n", None),
        ("widened", "m", "m bigint"),
        ("changed", "flag", None),
        ("lost", "gone", None),
        ("new", "note", "note string"),
        ("new", "at", "at timestamp"),
        ("new", "Odd", None),
        ("new", "both", None),
    ]
    assert found.columns == (
        "id string, amount decimal(12,2), n bigint, m bigint, flag boolean, gone date, note string, at timestamp"
    )
    said = {each.name: str(each) for each in found.shifts}
    assert said["note"] == "field note is string and has no column: paste note string"
    assert said["n"] == "field n is int, narrower than bigint: the column holds it, and stays as it is"
    assert said["m"] == "field m is long, and int cannot hold it: such a batch stops: paste m bigint"
    assert said["flag"].startswith("field flag is string, which fits string, and no safe change makes that of boolean")
    assert said["gone"].startswith("field gone is gone: new rows hold null")
    assert "a name is lower case letters" in said["Odd"]


def test_what_is_pasted_leaves_nothing_to_tell(registry):
    registry.register("t-value", a_record(("id", "string"), ("n", "long"), ("note", "string")))
    first = shift(registry, Avro("id string, n int"))
    assert told(first) == [("widened", "n", "n bigint"), ("new", "note", "note string")]
    assert told(shift(registry, Avro(first.columns))) == []


def test_a_lost_field_of_the_key_says_that_records_are_rejects(registry):
    registry.register("t-value", a_record(("n", "long")))
    found = shift(registry, Avro("id string, n bigint", key="id"))
    assert told(found) == [("lost", "id", None)]
    (lost,) = found.shifts
    assert "each new record is a reject, for the key or order needs it" in str(lost)


def test_the_subject_is_the_formats_else_the_topics(registry):
    assert shift(registry, Avro("id string")) is None
    registry.register("other", a_record(("id", "string"), ("n", "long")))
    assert shift(registry, Avro("id string")) is None
    assert told(shift(registry, Avro("id string", subject="other"), "other")) == [("new", "n", "n bigint")]
    assert shift(registry, Json("id string")) is None


def test_of_several_topics_the_first_subject_that_differs_is_told(registry):
    for topic, fields in (("eu", ("id",)), ("uk", ("id", "note")), ("x.us", ("id", "vat"))):
        registry.register(f"{topic}-value", a_record(*((name, "string") for name in fields)))

    def told_of(topic: Any) -> tuple[str, list[str]]:
        found = schema_shift(Pipeline("t", topic, Avro("id string"), Append("public.t")), Registry(registry.url))
        assert found is not None
        return found.subject, [each.name for each in found.shifts]

    assert told_of(("eu", "x.us", "nowhere")) == ("x.us-value", ["vat"])
    assert told_of(("eu",)) == ("eu-value", [])
    assert told_of(Topics("[eu].*")) == ("uk-value", ["note"])
    registry.register("eu-value", a_record(("id", "string"), ("more", "string")))
    assert told_of(("eu", "uk")) == ("eu-value", ["more"]), "asked anew"


def test_protobuf_that_grows_loses_narrows_and_widens(registry):
    fields = (
        "string id = 1",
        "int32 n = 2",
        "int64 m = 3",
        "enum .shop.Kind kind = 4",
        "string note = 5",
        "uint64 big = 6",
    )
    file = a_file(a_message("Other", "string x = 1"), a_message("Order", *fields), enums={"Kind": {"A": 0}})
    registry.register_protobuf("t-value", file)
    found = shift(registry, Protobuf("id string, n bigint, m int, gone date", message="shop.Order"))
    assert told(found) == [
        ("narrowed", "n", None),
        ("widened", "m", "m bigint"),
        ("lost", "gone", None),
        ("new", "kind", "kind string"),
        ("new", "note", "note string"),
        ("new", "big", "big bigint"),
    ]
    assert told(shift(registry, Protobuf("x string, id string"))) == [("lost", "id", None)]
    assert shift(registry, Protobuf("id string", message="shop.Missing")) is None


def test_json_schema_that_grows_loses_narrows_and_changes(registry):
    properties = {
        "id": {"type": "string"},
        "n": {"type": ["integer", "null"]},
        "amount": {"type": "string"},
        "flag": {"$ref": "#/$defs/word"},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]},
        "at": {"type": "string", "format": "date-time"},
        "count": {"type": "integer"},
        "lines": {"type": "array"},
        "any": {},
    }
    schema = {"type": "object", "properties": properties, "$defs": {"word": {"type": "string"}}}
    registry.register_json("t-value", schema)
    found = shift(registry, Json("id string, n double, amount decimal(12,2), flag boolean, gone date", registry=True))
    assert told(found) == [
        ("narrowed", "n", None),
        ("changed", "flag", None),
        ("lost", "gone", None),
        ("new", "note", "note string"),
        ("new", "at", "at timestamp"),
        ("new", "count", "count bigint"),
        ("new", "lines", "lines string"),
        ("new", "any", None),
    ]


def test_the_row_of_change_records_is_compared(registry):
    row = a_record(("id", "long"), ("n", "int"), ("note", ["null", "string"]), ("amount", DECIMAL), name="Value")
    fields = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "op", "type": "string"},
    ]
    registry.register("t-value", {"type": "record", "name": "Envelope", "fields": fields})
    found = shift(registry, Debezium("id bigint, n bigint, gone string", wire=Avro(), order="source"))
    assert told(found) == [
        ("narrowed", "n", None),
        ("lost", "gone", None),
        ("new", "note", "note string"),
        ("new", "amount", "amount decimal(38,2)"),
    ]
