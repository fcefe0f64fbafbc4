"""Tests Protobuf by columns: each record that is taken is what the decoder makes of it alone, and no other is taken."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

from lockstep.core.pipeline.definition import Append, Pipeline, Protobuf, RecordLimits
from lockstep.core.registry import registry as registry_of
from lockstep.formats.avro.schemas import PROTOBUF, Schemas
from lockstep.formats.protobuf.columns import ProtobufColumns
from lockstep.formats.protobuf.decoder import MessageDecoder
from lockstep.formats.values import arrow_type
from support.fakes.registry import a_registry
from support.inputs.avro_fields import spoiled
from support.inputs.protos import a_file, a_message, classes, framed

TYPES = {
    "id": "string", "ok": "bool", "a": "int32", "b": "sint32", "c": "uint32", "d": "int64", "e": "sint64", "f": "fixed32",
    "g": "sfixed32", "h": "sfixed64", "i": "float", "j": "double", "k": "bytes", "l": "uint64", "m": "fixed64", "n": "string",
}  # fmt: skip
FLAT = [f"{type_} {name} = {number}" for number, (name, type_) in enumerate(TYPES.items(), 1)]
MAYBE = [f"optional {type_} may_{name} = {number}" for number, (name, type_) in enumerate(TYPES.items(), 30)]
ROW = a_file(a_message("Row", *FLAT, *MAYBE), a_message("Other", "string id = 1"))
COLUMNS = (
    "id string, ok boolean, a int, b bigint, c bigint, d bigint, e bigint, f bigint, g int, h bigint, i float, j double, "
    "k binary, may_id string, may_ok boolean, may_a bigint, may_d bigint, may_i double, may_k binary, nobody int"
)
EDGES: dict[str, tuple[Any, ...]] = {
    "bool": (True, False),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), (0, 1, -1, 2**31 - 1, -(2**31), 300)),
    **dict.fromkeys(("uint32", "fixed32"), (0, 1, 2**32 - 1, 128)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), (0, 1, -1, 2**63 - 1, -(2**63), 2**35)),
    **dict.fromkeys(("uint64", "fixed64"), (0, 1, 2**64 - 1)),
    **dict.fromkeys(("float", "double"), (0.0, -0.0, 1.5, math.inf, -math.inf, math.nan)),
    "string": ("", "a", "é", "x" * 200, "\x00"),
    "bytes": (b"", b"\xff\x00", b"y" * 130),
}


@pytest.fixture(scope="module")
def registry():
    with a_registry() as made:
        yield made


def both(registry, columns: str = COLUMNS, needed=frozenset(), limits=None, **more: Any):
    """Returns the decoder by columns, and the one of single records."""
    format_ = Protobuf(columns, **more)
    pipeline = Pipeline("p", "t", format_, Append("public.p"), record_limits=limits or RecordLimits())
    reached = registry_of(registry.url, {"max.retries": 0, "timeout": 5}, str)
    alone = MessageDecoder(pipeline, format_, Schemas(reached, PROTOBUF))
    return ProtobufColumns(pipeline, format_, reached, needed), alone, format_


def places(decoders: Any, records: list[bytes | None]) -> list[int]:
    """Returns the places that are taken, each of which is what the decoder of single records makes of it."""
    by_columns, alone, format_ = decoders
    taken, columns = by_columns(pa.array(records, pa.binary()))
    assert len(taken) == columns.num_rows
    assert sorted(set(taken.tolist())) == taken.tolist()
    outcomes = [alone(None, records[place], None) for place in taken]
    assert [each.reason for each in outcomes] == [None] * len(taken)
    for column in format_.columns:
        expected = pa.array([each.values.get(column.name) for each in outcomes], arrow_type(column))
        found = columns.column(column.name)
        found.validate(full=True)
        assert found.type == expected.type
        assert list(map(repr, found.to_pylist())) == list(map(repr, expected.to_pylist())), column
    return taken.tolist()


def messages(chance: random.Random, count: int) -> list[bytes]:
    made, found = classes(ROW), []
    for _ in range(count):
        names = [name for name in TYPES if chance.random() < 0.6]
        values = {name: chance.choice(EDGES[TYPES[name]]) for name in names}
        values |= {f"may_{name}": chance.choice(EDGES[TYPES[name]]) for name in TYPES if chance.random() < 0.3}
        found.append(bytes(made("shop.Row", **values).SerializeToString()))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_taken_is_what_the_decoder_makes_of_it(registry, seed):
    chance = random.Random(seed)  # noqa: S311 - a seed that can be told is the point
    number = registry.register_protobuf("t-value", ROW)
    good = messages(chance, 300)
    plain = [framed(number, body) for body in good]
    taken = places(both(registry), plain)
    _, alone, _ = both(registry)
    accepted = [n for n, each in enumerate(plain) if alone(None, each, None).reason is None]
    assert len(accepted) > len(taken) > 0.7 * len(accepted), "NUL in a field without a column is left to the decoder"
    bent = [framed(number, spoiled(body, chance) if chance.random() < 0.7 else body) for body in good]
    mixed: list[bytes | None] = [spoiled(each, chance) if chance.random() < 0.1 else each for each in bent]
    assert 20 < len(places(both(registry), [*mixed, None, b""])) < len(mixed)


def test_records_of_several_schemas_are_taken_in_their_order(registry):
    old = a_file(a_message("Row", "string id = 1", "int32 a = 3"))
    numbers = [registry.register_protobuf("t-value", file) for file in (ROW, old)]
    records = [
        framed(numbers[n % 2], classes((ROW, old)[n % 2])("shop.Row", id=str(n), a=n).SerializeToString())
        for n in range(99)
    ]
    assert places(both(registry), records) == list(range(99))


ODD_SCHEMAS = {
    "a list": ["string id = 1", "repeated int32 a = 3"],
    "a choice": ["string id = 1", "oneof o int32 a = 3", "oneof o int32 b = 4"],
    "an enum": ["string id = 1", "enum .shop.E a = 3"],
    "another type": ["int64 id = 1"],
    "a number that may not fit": ["string id = 1", "uint64 d = 6"],
}


@pytest.mark.parametrize("fields", ODD_SCHEMAS.values(), ids=ODD_SCHEMAS)
def test_a_schema_that_is_not_flat_is_left_to_the_decoder(registry, fields):
    file = a_file(a_message("Row", *fields), enums={"E": {"NONE": 0}})
    record = framed(registry.register_protobuf("t-value", file), b"")
    assert places(both(registry), [record, record]) == []


def test_a_record_of_another_message_subject_or_limit_is_left_and_so_is_one_without_its_key(registry):
    number = registry.register_protobuf("t-value", ROW)
    record = framed(number, classes(ROW)("shop.Row", may_id="x").SerializeToString())
    other = record[:5] + b"\x02\x02" + b"\x0a\x01a"  # indexes [1]: the second message
    assert places(both(registry), [other, record]) == [1]
    assert places(both(registry, message="shop.Other"), [record]) == []
    assert places(both(registry, subject="elsewhere"), [record]) == []
    assert places(both(registry, limits=RecordLimits(values=20)), [record]) == []
    assert places(both(registry, columns="may_id string, nobody int", needed=frozenset({"may_id"})), [record]) == [0]
    empty = framed(number, b"")
    assert places(both(registry, columns="may_id string", needed=frozenset({"may_id"})), [record, empty]) == [0]
    assert places(both(registry, columns="id string, rest string", rest="rest"), [record]) == []


ODD_WIRES = {
    "a bool of 2": b"\x10\x02",
    "an int32 of 33 bits": b"\x18\xff\xff\xff\xff\x1f",
    "a sint32 of 33 bits": b"\x20\x80\x80\x80\x80\x10",
    "a uint32 of 33 bits": b"\x28\x80\x80\x80\x80\x10",
    "a number of 65 bits": b"\x30" + b"\xff" * 9 + b"\x02",
    "a number cut short": b"\x30\x80",
    "a text cut short": b"\x0a\x05a",
    "a text of 2^63 bytes": b"\x0a" + b"\xff" * 8 + b"\x7f",
    "a text that is none": b"\x0a\x01\xff",
    "a field twice": b"\x10\x01\x10\x01",
    "another order": b"\x18\x01\x10\x01",
    "an unknown field": b"\x10\x01\xa0\x06\x01",
    "a tag of two bytes where one does": b"\x90\x00\x01",
}


@pytest.mark.parametrize("body", ODD_WIRES.values(), ids=ODD_WIRES)
def test_bytes_that_no_writer_writes_are_left_to_the_decoder(registry, body):
    number = registry.register_protobuf("t-value", ROW)
    good = framed(number, classes(ROW)("shop.Row", id="a", ok=True).SerializeToString())
    assert places(both(registry), [good, framed(number, body), good]) == [0, 2]
