"""Tests that Debezium's placeholder is known in whatever form a connector writes it, and never reaches the target."""

from __future__ import annotations

import hashlib
import uuid
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest

from support.inputs.change_records import change, decoded, of_field

DECIMAL = "org.apache.kafka.connect.data.Decimal"

PLACEHOLDER = "__debezium_unavailable_value"
HSTORE = '{"__debezium_unavailable_value":"__debezium_unavailable_value"}'  # hstore.handling.mode=json, the default
OF_UUIDS = str(uuid.UUID(bytes=hashlib.md5(PLACEHOLDER.encode()).digest(), version=3))  # noqa: S324 - as Java makes it


@pytest.mark.parametrize(
    ("column", "schema", "value"),
    [
        ("string", ("string",), PLACEHOLDER),
        ("string", (), PLACEHOLDER),
        ("string", ("string", "io.debezium.data.Json"), PLACEHOLDER),
        ("binary", ("bytes",), b64encode(PLACEHOLDER.encode()).decode()),
        ("binary", (), PLACEHOLDER.encode().hex()),
        ("decimal(12,2)", ("bytes", DECIMAL), b64encode(PLACEHOLDER.encode()).decode()),
        ("decimal(12,2)", (), PLACEHOLDER),
        ("string", ("array",), [PLACEHOLDER]),
        ("string", ("array",), [b64encode(PLACEHOLDER.encode()).decode()]),
        ("string", ("array",), list(PLACEHOLDER.encode())),
        ("string", ("array",), [OF_UUIDS]),
        ("string", ("map",), {PLACEHOLDER: PLACEHOLDER}),
        ("string", ("string", "io.debezium.data.Json"), HSTORE),
        ("string", (), HSTORE),
    ],
)
def test_a_value_that_the_sources_log_does_not_hold_is_marked_and_never_decoded(column, schema, value):
    assert of_field(value, column, *schema).values == {"id": 1, "v": None, "_unavailable": "v"}


def test_all_unavailable_values_of_a_record_are_marked():
    record = change("u", after={"id": 1, "a": PLACEHOLDER, "b": "x", "c": PLACEHOLDER})
    assert decoded(record, schema="c string, id int, b string, a string").values == {
        "id": 1,
        "a": None,
        "b": "x",
        "c": None,
        "_unavailable": "c,a",
    }


def test_a_connector_may_have_a_placeholder_of_its_own():
    record = change("u", after={"id": 1, "name": "-"})
    assert decoded(record, placeholder="-").values == {"id": 1, "name": None, "_unavailable": "name"}
    assert decoded(record).values == {"id": 1, "name": "-"}


def test_text_around_a_placeholder_is_text():
    record = change("u", after={"id": 1, "name": f"{PLACEHOLDER}!"})
    assert decoded(record).values == {"id": 1, "name": f"{PLACEHOLDER}!"}


def test_a_key_is_never_unavailable():
    record = change("u", after={"id": 1, "name": PLACEHOLDER})
    assert decoded(record, key=("name",)).reason == "column name: its value is unavailable, and it is the key"


@pytest.mark.parametrize(
    ("value", "column", "schema"),
    [
        ("ABC", "string", ("string",)),
        ("QUJD", "binary", ("bytes",)),
        ("414243", "binary", ()),
        ([65, 66, 67], "string", ("array",)),
        (["ABC"], "string", ("array",)),
        ({"ABC": "ABC"}, "string", ("map",)),
        ('{"ABC":"ABC"}', "string", ("string", "io.debezium.data.Json")),
    ],
)
def test_a_placeholder_may_be_written_in_hexadecimal_as_the_connector_takes_it(value, column, schema):
    marked = {"id": 1, "v": None, "_unavailable": "v"}
    assert of_field(value, column, *schema, placeholder="hex:414243").values == marked


def test_a_hexadecimal_placeholder_is_not_its_own_text():
    assert of_field("hex:414243", "string", placeholder="hex:414243").values["v"] == "hex:414243"
    assert of_field("414", "string", placeholder="hex:41").values["v"] == "414"


def test_a_placeholder_that_is_no_text_is_known_by_its_bytes():
    of: dict[str, Any] = {"placeholder": "hex:fffe"}
    marked = {"id": 1, "v": None, "_unavailable": "v"}
    assert of_field("//4=", "binary", "bytes", **of).values == marked
    assert of_field(urlsafe_b64encode(b"\xff\xfe").decode(), "binary", "bytes", **of).values == marked
    assert of_field("\ufffd\ufffd", "string", "string", **of).values == marked
    assert of_field([-1, -2], "string", "array", **of).values == marked


@pytest.mark.parametrize("numbers", [[-61, -87, 33], [195, 169, 33], [-61.0, -87.0, 33.0]])
def test_the_bytes_of_a_placeholder_are_javas_in_an_array_of_numbers(numbers):
    marked = {"id": 1, "v": None, "_unavailable": "v"}
    assert of_field(numbers, "string", "array", placeholder="é!").values == marked


@pytest.mark.parametrize(("placeholder", "value"), [('a"b', '{"a\\"b":"a\\"b"}'), ("é!", '{"é!":"é!"}')])
def test_a_map_in_a_text_is_known_as_jackson_writes_it(placeholder, value):
    assert of_field(value, "string", "string", placeholder=placeholder).values["_unavailable"] == "v"


def test_a_map_that_holds_more_than_a_placeholder_is_a_value():
    more = HSTORE.replace("}", ',"a":"b"}')
    assert of_field(more, "string", "string").values == {"id": 1, "v": more}
