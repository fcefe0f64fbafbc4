"""Tests that every type of Protobuf reaches a column unchanged at its edges, or is refused."""

from __future__ import annotations

import json
import math
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.core.errors import BadData
from lockstep.core.pipeline.definition import Append, Envelope, Pipeline, Protobuf, RecordLimits, Upsert
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.core.registry import registry as registry_of
from lockstep.formats.avro.schemas import PROTOBUF, Schemas
from lockstep.formats.protobuf.decoder import MessageDecoder
from lockstep.formats.second_reading import DELETED, REJECTED, ROW, RereadRecord, SecondReading
from support.fakes.registry import a_registry
from support.inputs.protos import a_file, a_message, classes, framed

QUICK: dict[str, Any] = {"max.retries": 0, "timeout": 5}
WHOLE = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), (-(2**31), 2**31 - 1)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), (-(2**63), 2**63 - 1)),
    **dict.fromkeys(("uint32", "fixed32"), (0, 2**32 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), (0, 2**64 - 1)),
}
BIG = {kind: f"decimal({20 if 'u' in kind or kind == 'fixed64' else 19},0)" for kind in WHOLE}
KNOWN = ".google.protobuf."
COLORS = {"NONE": 0, "RED": 1, "LAST": 2**31 - 1, "LEAST": -(2**31)}


@pytest.fixture(scope="module")
def registry():
    with a_registry() as made:
        yield made


def decoded(registry, file, value, columns: str, **more: Any):
    format_ = Protobuf(columns, **more)
    decode = MessageDecoder(
        Pipeline("p", "t", format_, Append("public.p"), record_limits=RecordLimits()),
        format_,
        Schemas(registry_of(registry.url, QUICK, str), PROTOBUF),
    )
    return decode(None, framed(registry.register_protobuf("t", file), value), None)


def one(registry, kind: str, column: str, value: Any = None, syntax: str = "proto3", enums=None) -> Any:
    """Returns the column of a record with one field of this kind, or the reason why it is a reject."""
    file = a_file(a_message("M", f"{kind} v = 1"), syntax=syntax, enums=enums)
    body = value if isinstance(value, bytes) else classes(file)("shop.M", **({} if value is None else {"v": value}))
    outcome = decoded(registry, file, body, f"v {column}")
    return outcome.values["v"] if outcome.reason is None else outcome.reason


@pytest.mark.parametrize("kind", WHOLE)
def test_whole_numbers_are_exact_at_both_ends(registry, kind):
    least, most = WHOLE[kind]
    narrow = "int" if most < 2**31 else "bigint"
    for value in {least, most, least + 1, 0, 1, -1 if least else 1}:
        assert one(registry, kind, BIG[kind], value) == Decimal(value)
        if most < 2**63:
            assert one(registry, kind, "bigint" if kind in {"uint32", "fixed32"} else narrow, value) == value


@pytest.mark.parametrize("kind", ["uint64", "fixed64"])
def test_an_unsigned_number_above_a_bigint_is_a_reject_there_and_exact_elsewhere(registry, kind):
    assert one(registry, kind, "bigint", 2**63 - 1) == 2**63 - 1
    assert one(registry, kind, "bigint", 2**63) == "column v: does not fit bigint"
    assert one(registry, kind, "decimal(20,0)", 2**64 - 1) == Decimal(2**64 - 1)
    assert one(registry, kind, "string", 2**64 - 1) == "18446744073709551615"


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("int32", "smallint"), ("int32", "string"), ("int32", "decimal(9,0)"), ("int32", "decimal(10,1)"),
        ("uint32", "int"), ("int64", "int"), ("int64", "double"), ("int64", "decimal(18,0)"), ("uint64", "double"),
        ("uint64", "decimal(19,0)"), ("float", "int"), ("double", "float"), ("double", "decimal(38,10)"),
        ("bool", "int"), ("string", "binary"), ("string", "int"), ("bytes", "string"), ("enum .shop.C", "smallint"),
        (f"{KNOWN}Timestamp", "date"), (f"{KNOWN}Timestamp", "bigint"), (f"{KNOWN}Duration", "bigint"),
        (f"{KNOWN}Duration", "decimal(20,9)"), (f"{KNOWN}Duration", "decimal(21,8)"), (f"{KNOWN}Any", "string"),
        (f"{KNOWN}Int64Value", "int"), (f"{KNOWN}StringValue", "binary"), ("repeated int32", "int"),
        ("map string int32", "binary"), (".shop.M", "binary"), (f"{KNOWN}Struct", "binary"),
    ],
)  # fmt: skip
def test_a_column_takes_no_type_that_it_would_bend(registry, kind, column):
    with pytest.raises(BadData, match=f"column v is {column.split('(')[0]}"):
        one(registry, kind, column, b"", enums={"C": COLORS})


@pytest.mark.parametrize("value", [0.1, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308])
def test_floating_numbers_are_the_same_to_the_bit(registry, value):
    assert struct.pack("<d", one(registry, "double", "double", value)) == struct.pack("<d", value)
    (narrow,) = struct.unpack("<f", struct.pack("<f", value if abs(value) < 1e38 or math.isinf(value) else 3.4e38))
    for column in ("float", "double"):
        assert struct.pack("<d", one(registry, "float", column, narrow)) == struct.pack("<d", narrow)


def test_text_and_bytes_are_what_was_written(registry):
    assert one(registry, "string", "string", "aé😀\n") == "aé😀\n"
    assert one(registry, "string", "string", b"\x0a\x01\x00") == "column v: holds \\u0000, which Postgres cannot store"
    assert one(registry, "string", "string", b"\x0a\x01\xff").startswith("does not decode by schema id")
    assert one(registry, "string", "string", b"\x0a\x01\xff", syntax="proto2") == "column v: is not valid UTF-8"
    file = a_file(a_message("M", "bytes v = 1"))
    assert decoded(registry, file, b"\x0a\x02\x00\xff", "v binary").values == {"v": b"\x00\xff"}


def test_a_field_that_is_not_set_is_null_only_where_its_presence_is_known(registry):
    enums = {"C": {"NONE": 0, "RED": 1}}
    defaults = {
        "int32 int": 0, "uint64 string": "0", "double double": 0.0, "bool boolean": False, "string string": "",
        "bytes binary": b"", "enum .shop.C string": "NONE", "repeated int32 string": "[]", "map string int32 string": "{}",
    }  # fmt: skip
    for each, default in defaults.items():
        kind, _, column = each.rpartition(" ")
        assert one(registry, kind, column, b"", enums=enums) == default, each
        if not kind.startswith(("repeated", "map")):
            assert one(registry, f"optional {kind}", column, b"", enums=enums) is None, each
            assert one(registry, f"oneof o {kind}", column, b"", enums=enums) is None, each
            assert one(registry, kind, column, b"", syntax="proto2", enums=enums) is None, each
    assert one(registry, "optional int32", "int", b"\x08\x00") == 0
    assert one(registry, ".shop.M", "string", b"") is None
    assert one(registry, f"{KNOWN}Timestamp", "timestamp", b"") is None
    assert one(registry, f"{KNOWN}Struct", "string", b"") is None


def test_a_oneof_has_one_value_and_null_for_the_others(registry):
    file = a_file(a_message("M", "oneof pay string card = 1", "oneof pay int64 cash = 2", "oneof pay .shop.M m = 3"))
    columns = "card string, cash bigint, m string"
    make = classes(file)
    assert decoded(registry, file, make("shop.M", card=""), columns).values == {"card": "", "cash": None, "m": None}
    assert decoded(registry, file, make("shop.M", cash=0), columns).values == {"card": None, "cash": 0, "m": None}
    both = decoded(registry, file, b"\x0a\x01x\x10\x05", columns)
    assert both.values == {"card": None, "cash": 5, "m": None}, "the last one counts, as every parser has it"
    nested = decoded(registry, file, make("shop.M", m={"cash": 1}), columns).values["m"]
    assert json.loads(nested) == {"card": None, "cash": 1, "m": None}


@pytest.mark.parametrize(
    ("kind", "column", "value", "made"),
    [
        ("Int32Value", "int", -(2**31), -(2**31)), ("UInt32Value", "bigint", 2**32 - 1, 2**32 - 1),
        ("Int64Value", "bigint", -(2**63), -(2**63)), ("UInt64Value", "decimal(20,0)", 2**64 - 1, Decimal(2**64 - 1)),
        ("UInt64Value", "string", 2**64 - 1, str(2**64 - 1)), ("BoolValue", "boolean", False, False),
        ("StringValue", "string", "", ""), ("BytesValue", "binary", b"\x00", b"\x00"),
        ("DoubleValue", "double", -0.5, -0.5), ("FloatValue", "float", 0.5, 0.5),
    ],
)  # fmt: skip
def test_a_wrapper_is_its_value_or_null(registry, kind, column, value, made):
    file = a_file(a_message("M", f"{KNOWN}{kind} v = 1"))
    make = classes(file)
    zero = type(made)()
    if column != "string" or kind == "StringValue":
        assert decoded(registry, file, make("shop.M", v={}), f"v {column}").values == {"v": zero}
    assert decoded(registry, file, make("shop.M", v={"value": value}), f"v {column}").values == {"v": made}
    assert decoded(registry, file, make("shop.M"), f"v {column}").values == {"v": None}


def test_an_enum_is_its_name_or_its_number_and_an_unknown_number_has_no_name(registry):
    for name, number in COLORS.items():
        assert one(registry, "enum .shop.C", "string", number, enums={"C": COLORS}) == name
        assert one(registry, "enum .shop.C", "int", number, enums={"C": COLORS}) == number
    assert (
        one(registry, "enum .shop.C", "string", b"\x08\x07", enums={"C": COLORS}) == "column v: shop.C has no value 7"
    )
    assert one(registry, "enum .shop.C", "int", b"\x08\x07", enums={"C": COLORS}) == 7
    assert (
        one(registry, "repeated enum .shop.C", "string", b"\x0a\x02\x01\x00", enums={"C": COLORS}) == '["RED","NONE"]'
    )
    assert "has no value 7" in one(registry, "repeated enum .shop.C", "string", b"\x0a\x01\x07", enums={"C": COLORS})
    closed = one(registry, "enum .shop.C", "int", b"\x08\x07", syntax="proto2", enums={"C": COLORS})
    assert closed.endswith("field v has the number 7, which is no shop.C")


@pytest.mark.parametrize(
    ("seconds", "nanos", "made"),
    [
        (0, 0, datetime(1970, 1, 1, tzinfo=UTC)),
        (-62_135_596_800, 0, datetime(1, 1, 1, tzinfo=UTC)),
        (253_402_300_799, 999_999_000, datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)),
        (-1, 999_999_000, datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
        (0, 1, "has digits below the microsecond, which a timestamp would lose"),
        (0, 999_999_999, "has digits below the microsecond, which a timestamp would lose"),
        (-62_135_596_801, 0, "no timestamp of the years 1 to 9999"),
        (253_402_300_800, 0, "no timestamp of the years 1 to 9999"),
        (0, 10**9, "no timestamp of the years 1 to 9999"),
        (0, -1, "no timestamp of the years 1 to 9999"),
        (-(2**63), 0, "no timestamp of the years 1 to 9999"),
    ],
)
def test_a_timestamp_is_exact_or_a_reject(registry, seconds, nanos, made):
    found = one(registry, f"{KNOWN}Timestamp", "timestamp", {"seconds": seconds, "nanos": nanos})
    assert found == made if isinstance(made, datetime) else str(found).endswith(made)


def test_a_timestamp_in_text_keeps_its_nanoseconds(registry):
    for seconds, nanos, made in (
        (-62_135_596_800, 1, "0001-01-01T00:00:00.000000001Z"),
        (0, 500_000_000, "1970-01-01T00:00:00.500Z"),
        (1, 1_000, "1970-01-01T00:00:01.000001Z"),
        (253_402_300_799, 0, "9999-12-31T23:59:59Z"),
    ):
        assert one(registry, f"{KNOWN}Timestamp", "string", {"seconds": seconds, "nanos": nanos}) == made


@pytest.mark.parametrize(
    ("seconds", "nanos", "text", "exact"),
    [
        (0, 0, "0s", "0"),
        (1, 500_000_000, "1.500s", "1.5"),
        (0, -1, "-0.000000001s", "-1E-9"),
        (-3, -1_000, "-3.000001s", "-3.000001"),
        (315_576_000_000, 999_999_999, "315576000000.999999999s", "315576000000.999999999"),
    ],
)
def test_a_duration_is_text_or_exact_seconds(registry, seconds, nanos, text, exact):
    value = {"seconds": seconds, "nanos": nanos}
    assert one(registry, f"{KNOWN}Duration", "string", value) == text
    assert one(registry, f"{KNOWN}Duration", "decimal(21,9)", value) == Decimal(exact)


@pytest.mark.parametrize(("seconds", "nanos"), [(315_576_000_001, 0), (1, -1), (-1, 1), (0, 10**9), (0, -(10**9))])
def test_a_duration_that_is_none_is_a_reject(registry, seconds, nanos):
    found = one(registry, f"{KNOWN}Duration", "string", {"seconds": seconds, "nanos": nanos})
    assert found == f"column v: {seconds} seconds and {nanos} nanoseconds are no duration"


def test_nested_values_are_json_by_the_schemas_names(registry):
    file = a_file(
        a_message("M", "repeated .shop.Line lines = 1", f"{KNOWN}Struct doc = 2", f"repeated {KNOWN}Int64Value w = 3"),
        a_message(
            "Line", "string sku = 1", "uint64 big = 2", "bytes raw = 3", f"{KNOWN}Timestamp at = 4",
            f"{KNOWN}Duration took = 5", f"{KNOWN}StringValue note = 6", "enum .shop.C color = 7", "optional int32 n = 8",
            "float f = 9",
        ),
        enums={"C": COLORS},
    )  # fmt: skip
    line = {
        "sku": "é",
        "big": 2**64 - 1,
        "raw": b"\xff",
        "at": {"nanos": 1},
        "took": {"seconds": 2},
        "color": 1,
        "f": 0.5,
    }
    made = classes(file)("shop.M", lines=[line, {}], w=[{"value": -1}, {}])
    made.doc.update({"b": [1, None, True], "a": {"x": "y"}})
    assert decoded(registry, file, made, "lines string, doc string, w string").values == {
        "lines": '[{"sku":"é","big":18446744073709551615,"raw":"/w==","at":"1970-01-01T00:00:00.000000001Z","took":"2s",'
        '"note":null,"color":"RED","n":null,"f":0.5},{"sku":"","big":0,"raw":"","at":null,"took":null,"note":null,'
        '"color":"NONE","n":null,"f":0.0}]',
        "doc": '{"a":{"x":"y"},"b":[1.0,null,true]}',
        "w": "[-1,0]",
    }
    odd = classes(file)("shop.M", lines=[{"f": math.nan}])
    assert decoded(registry, file, odd, "lines string").reason.startswith("column lines: Out of range float values")
    none = decoded(registry, file, b"\x12\x05\x0a\x03\x0a\x01a", "doc string")
    assert none.reason == "column doc: holds a google.protobuf.Value of no kind"


def test_a_field_that_the_schema_requires_is_there_or_the_record_is_a_reject(registry):
    file = a_file(a_message("M", "required int32 r = 1", "int32 n = 2", ".shop.M m = 3"), syntax="proto2")
    assert decoded(registry, file, b"\x08\x01", "r int, n int").values == {"r": 1, "n": None}
    for body, name in ((b"\x10\x01", "r"), (b"\x08\x01\x1a\x00", "m.r")):
        lacking = decoded(registry, file, body, "n int").reason
        assert lacking.endswith(f"lacks {name}, which the schema requires")


def test_fields_that_python_has_names_for_are_read_as_any_other(registry):
    file = a_file(
        a_message("M", "int32 clear = 1", "string class = 2", "int32 HasField = 3", "repeated int32 from = 4")
    )
    assert decoded(registry, file, b"\x08\x05\x12\x01c\x18\x07", "clear int, class string", rest="more").values == {
        "clear": 5,
        "class": "c",
        "more": '{"HasField":7,"from":[]}',
    }


FIELDS = [
    *(f"{kind} {kind} = {n}" for n, kind in enumerate(WHOLE, 1)),
    "bool flag = 20", "float f = 21", "double d = 22", "string s = 23", "bytes b = 24", "enum .shop.C c = 25",
    f"{KNOWN}Timestamp at = 26", f"{KNOWN}Duration took = 27", f"{KNOWN}UInt64Value w = 28", "optional int32 o = 29",
    "oneof x string y = 30", "oneof x int32 z = 31", "repeated sint64 r = 32", "map int32 string m = 33",
    "repeated .shop.M ms = 34",
]  # fmt: skip
ALL = a_file(a_message("M", *FIELDS), enums={"C": COLORS})
MADE = classes(ALL)
COLUMNS = ", ".join(f"{kind} {BIG[kind]}" for kind in WHOLE) + (
    ", flag boolean, f float, d double, s string, b binary, c int, at timestamp, took decimal(21,9), w decimal(20,0), "
    "o int, y string, z int, r string, m string, ms string"
)
TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=5)
PLAIN = {
    **{kind: st.sampled_from(ends) | st.integers(*ends) for kind, ends in WHOLE.items()},
    "flag": st.booleans(),
    "f": st.floats(width=32, allow_nan=False),
    "d": st.floats(allow_nan=False),
    "s": TEXTS,
    "b": st.binary(max_size=5),
    "c": st.sampled_from(list(COLORS.values())),
    "o": st.integers(-(2**31), 2**31 - 1),
    "r": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    "m": st.dictionaries(st.integers(-(2**31), 2**31 - 1), TEXTS, max_size=3),
    "at": st.datetimes().map(lambda at: at.replace(tzinfo=UTC)),
    "took": st.integers(-(10**17), 10**17),
    "w": st.integers(0, 2**64 - 1),
}
ONE_OF = st.dictionaries(st.sampled_from(["y", "z"]), st.just(None), max_size=1)


@settings(max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries({}, optional=PLAIN), st.none() | TEXTS | st.integers(-(2**31), 2**31 - 1), st.integers(0, 2)
)
def test_whatever_a_writer_says_comes_back(registry, said, either, nested):
    values = dict(said)
    given_ = {name: value for name, value in values.items() if name not in {"at", "took", "w"}}
    if either is not None:
        given_["y" if isinstance(either, str) else "z"] = either
    made = MADE("shop.M", **given_, ms=[{"int32": 1}] * nested)
    if "at" in values:
        made.at.FromDatetime(values["at"].replace(tzinfo=None))
    if "took" in values:
        micros = timedelta(microseconds=values["took"])
        made.took.FromTimedelta(micros)
    if "w" in values:
        made.w.value = values["w"]
    outcome = decoded(registry, ALL, made, COLUMNS)
    assert outcome.reason is None
    row = outcome.values
    assert {kind: row[kind] for kind in WHOLE} == {kind: Decimal(values.get(kind, 0)) for kind in WHOLE}
    defaults = {"flag": False, "f": 0.0, "d": 0.0, "s": "", "b": b"", "c": 0}
    assert {name: row[name] for name in defaults} == {name: values.get(name, no) for name, no in defaults.items()}
    assert [row[name] for name in ("o", "at")] == [values.get(name) for name in ("o", "at")]
    assert row["w"] == (Decimal(values["w"]) if "w" in values else None)
    assert row["took"] == (Decimal(values["took"]).scaleb(-6) if "took" in values else None)
    assert (row["y"], row["z"]) == (
        either if isinstance(either, str) else None,
        either if isinstance(either, int) else None,
    )
    assert json.loads(row["r"]) == values.get("r", [])
    assert json.loads(row["m"]) == {str(key): text for key, text in sorted(values.get("m", {}).items())}
    assert [each["int32"] for each in json.loads(row["ms"])] == [1] * nested


def test_a_second_reading_gives_the_same_rows_deletions_and_rejects(registry):
    schema_id = registry.register_protobuf("second", ALL)
    format_ = Protobuf("int32 int, s string, extra string", message="shop.M", key="int32", rest="extra")
    pipeline = Pipeline("p", "t", format_, Upsert("public.p", key=("int32",)), envelope=Envelope(offset="nr"))
    folder = PipelineFolder(pipeline, Path(), None, None, None, None)
    read = SecondReading(folder, registry_of(registry.url, QUICK, str))
    given_ = [
        (b"7", framed(schema_id, MADE("shop.M", int32=7, s="a"))),
        (b"7", None),
        (framed(schema_id, MADE("shop.M", int32=8)), None),
        (b"x", None),
        (b"9", b"{}"),
    ]
    rows = read([RereadRecord(0, n, key, value, None, 0) for n, (key, value) in enumerate(given_)]).to_pylist()
    assert [row["Became"] for row in rows] == [ROW, DELETED, DELETED, REJECTED, REJECTED]
    assert [row["int32"] for row in rows[:3]] == [7, 7, 8]
    assert rows[0]["s"] == "a"
    assert json.loads(rows[0]["extra"])["int64"] == 0
