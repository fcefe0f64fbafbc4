"""Tests Avro by columns: each record that is taken, alone or among others, is what it is to the decoder of one record."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_writer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockstep.core.errors import BadData, BadDefinition, Unreachable
from lockstep.core.pipeline.definition import Append, Avro, Pipeline, RecordLimits, Upsert
from lockstep.core.pipeline.targets import needed_columns
from lockstep.core.registry import registry as registry_of
from lockstep.formats.avro import readers
from lockstep.formats.avro.columns import AvroColumns
from lockstep.formats.avro.decoder import Decoder
from lockstep.formats.avro.writers import Writers
from lockstep.formats.judged import RecordDecoder
from lockstep.formats.values import arrow_type
from support.fakes.registry import a_record, a_registry
from support.inputs.avro_fields import EDGES, FIELDS, OTHERS, spoiled

COLUMNS = "id string, n int, amount decimal(12,2), at timestamp"
PLAIN = a_record(
    ("id", "string"), ("n", ["null", "int"]),
    ("amount", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    ("at", {"type": "long", "logicalType": "timestamp-millis"}),
)  # fmt: skip
AT = datetime(2026, 5, 1, 12, tzinfo=UTC)


class Known:
    """A registry of these schemas, by id from 1 on."""

    def __init__(self, *schemas: Any) -> None:
        self._texts = [json.dumps(schema) for schema in schemas]

    def writer(self, schema_id: int) -> tuple[str, dict[str, str]]:
        return self._texts[schema_id - 1], {}


def both(columns: str, *schemas: Any, target=None, limits=None, **more: Any) -> tuple[AvroColumns, Decoder]:
    """Returns the decoder by columns and the one of single records, over the same schemas."""
    format_, known = Avro(columns, **more), Known(*schemas)
    pipeline = Pipeline("p", "t", format_, target or Append("public.p"), record_limits=limits or RecordLimits())
    needed = frozenset(needed_columns(pipeline.targets, pipeline.event_time))
    by_columns = AvroColumns(pipeline, format_, registry_of("http://nobody:1", {}, str), needed)
    by_columns._writers = Writers(known, pipeline.record_limits)  # type: ignore[arg-type]  # noqa: SLF001
    return by_columns, Decoder(pipeline, format_, known)  # type: ignore[arg-type]


def body(schema: Any, row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    schemaless_writer(out, parsed(json.dumps(schema)), row)
    return out.getvalue()


@cache
def parsed(text: str) -> Any:
    return parse_schema(json.loads(text))


def framed(data: bytes, schema_id: int = 1) -> bytes:
    return b"\x00" + schema_id.to_bytes(4, "big") + data


def record(n: int, schema_id: int = 1) -> bytes:
    return framed(body(PLAIN, {"id": f"r{n}", "n": n if n % 3 else None, "amount": Decimal(n), "at": AT}), schema_id)


def places(decoders: tuple[AvroColumns, Decoder], records: list[bytes | None]) -> list[int]:
    """Returns the indexes of the decoded records, after a comparison of each with the decoder of single records."""
    by_columns, alone = decoders
    taken, columns = by_columns(pa.array(records, pa.binary()))
    assert len(taken) == columns.num_rows
    assert sorted(set(taken.tolist())) == taken.tolist()
    outcomes = [alone(None, records[place], None) for place in taken]
    assert [each.reason for each in outcomes] == [None] * len(taken)
    for column in alone._format.columns:  # noqa: SLF001 - a test's own look
        expected = pa.array([each.values.get(column.name) for each in outcomes], arrow_type(column))
        found = columns.column(column.name)
        found.validate(full=True)
        assert found.type == expected.type
        assert list(map(repr, found.to_pylist())) == list(map(repr, expected.to_pylist())), column
    return taken.tolist()


def test_all_of_many_good_records_are_taken_in_their_order_whichever_schema_wrote_them():
    newer = a_record(*((f["name"], f["type"]) for f in PLAIN["fields"][:2]), ("more", "boolean"))
    records = [record(n) if n % 2 else framed(body(newer, {"id": "é", "n": n, "more": True}), 2) for n in range(999)]
    assert places(both(COLUMNS, PLAIN, newer), records) == list(range(999))


def test_a_bad_record_costs_no_neighbour_anything():
    good = record(1)
    bad = [None, b"", good[:4], good[:-1], good + b"x", b"\x01" + good[1:], b'{"id":1}', framed(b""), framed(b"\x01")]
    records = [each for one in bad for each in (record(2), one, record(3))]
    assert places(both(COLUMNS, PLAIN), records) == [n for n in range(len(records)) if n % 3 != 1]


def test_two_bad_records_that_are_good_together_are_none():
    """As one block, the first would end within the second: `a\\x02` and `b`."""
    text = a_record(("id", "string"))
    assert places(both("id string", text), [framed(b"\x04a"), framed(b"\x02\x02b"), framed(b"\x02c")]) == [2]


@pytest.mark.parametrize("kind", EDGES)
def test_values_at_the_edge_are_taken_and_those_past_it_are_not(kind):
    type_, column, good, doubtful = EDGES[kind]
    for columns in (f"x {column}", "y string"):  # a field without a column is looked at, too
        decoders = both(columns, a_record(("x", type_), ("z", "boolean")))
        records = [framed(each + b"\x01") for each in [*good, *doubtful, *good]]
        assert places(decoders, records) == [n for n in range(len(records)) if not 0 <= n - len(good) < len(doubtful)]


WHOLE = {
    "array": {"type": "array", "items": "int"}, "map": {"type": "map", "values": "int"},
    "record": a_record(("x", "int"), name="N"),
    "union of two values": ["null", "int", "string"], "union of one": ["int"],
    "nanos": {"type": "long", "logicalType": "timestamp-nanos"}, "time": {"type": "int", "logicalType": "time-millis"},
    "unheard of": {"type": "int", "logicalType": "unheard-of"},
    "size below zero": {"type": "fixed", "name": "F", "size": -1},
}  # fmt: skip


@pytest.mark.parametrize("kind", WHOLE)
def test_a_schema_with_any_other_type_is_left_whole_even_if_no_column_takes_it(kind):
    decoders = both("id string", a_record(("id", "string"), ("x", WHOLE[kind])), PLAIN)
    records = [framed(b"\x02a" + tail) for tail in (b"", b"\x00", b"\x02", b"\x02\x02", b"\x02\x02\x00")]
    assert places(decoders, [*records, record(1, 2)]) == [5]


def test_a_schema_that_the_definition_does_not_match_is_left_and_then_refused_as_ever():
    schema = a_record(("id", "string"), ("n", "long"))
    decoders = both("id string, n int", schema, PLAIN)
    assert decoders[0](pa.array([framed(b"\x02a\x02"), record(1, 2)], pa.binary()))[0].tolist() == [1]
    with pytest.raises(BadData, match="column n is int, and schema id 1 writes long"):
        decoders[1](None, framed(b"\x02a\x02"), None)


def test_what_the_registry_does_not_know_or_the_limits_forbid_is_left():
    with a_registry() as server:
        known = server.register("mine", PLAIN)
        other = server.register("theirs", a_record(("id", "string")))
        format_ = Avro(COLUMNS, subject="mine")
        pipeline = Pipeline("p", "t", format_, Append("public.p"))
        decode = AvroColumns(pipeline, format_, registry_of(server.url, {"max.retries": 0}, str), frozenset())
        records = [record(1, known), record(1, 77), framed(b"\x02a", other), record(2, known)]
        assert decode(pa.array(records, pa.binary()))[0].tolist() == [0, 3]
        server.trouble = 500, b""
        with pytest.raises(Unreachable, match="does not answer for schema id 88"):
            decode(pa.array([record(1, 88)], pa.binary()))
    with pytest.raises(BadDefinition, match="LOCKSTEP_REGISTRY is not set"):
        RecordDecoder(pipeline, None, None, keeps_bytes=False).begun()


def test_a_schema_whose_records_may_be_past_a_limit_is_left():
    """A long record of another schema is taken: it has as many values as fields. The decoder counts them all the same."""
    text, wide = a_record(("id", "string")), a_record(*((f"f{n}", "null") for n in range(80)))
    records = [framed(b"\x1e" + b"a" * 15), framed(b"", 2), framed(b"\x02a")]
    assert places(both("id string", text, wide, limits=RecordLimits(values=80)), records) == [0, 2]


def test_a_record_without_the_targets_key_is_left():
    decoders = both(COLUMNS, PLAIN, target=Upsert("public.p", key=("n",)), key="n")
    assert places(decoders, [record(n) for n in range(7)]) == [1, 2, 4, 5]


def test_an_error_that_nobody_foresaw_leaves_the_schemas_records(monkeypatch):
    def fails(*_: Any):
        raise pa.ArrowInvalid("no")

    monkeypatch.setitem(readers.READERS, "string", fails)
    other = a_record(("n", "int"))
    try:
        taken = places(both(COLUMNS, PLAIN, other), [record(1), framed(b"\x02", 2), record(2)])
    except pa.ArrowInvalid:
        pytest.fail("the error ends the whole batch")
    assert taken == [1]


def test_each_value_that_is_taken_is_the_decoders_whatever_the_bytes():
    taken = whole = 0

    @settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.data(), st.integers(0, 2**32))
    def each(data: st.DataObject, seed: int) -> None:
        nonlocal taken, whole
        chosen = data.draw(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=6))
        others = data.draw(st.lists(st.sampled_from(OTHERS), max_size=1)) if seed % 5 == 0 else []
        wraps = [
            data.draw(st.sampled_from([lambda t: t, lambda t: ["null", t], lambda t: [t, "null"]])) for _ in chosen
        ]
        fields = [
            (f"f{n}", wrap(type_)) for n, (type_, wrap) in enumerate(zip(each_named_once(chosen), wraps, strict=True))
        ]
        schema = a_record(*fields, *((f"o{n}", type_) for n, (type_, _) in enumerate(others)))
        columns = [f"f{n} {data.draw(st.sampled_from(fits))}" for n, (_, fits, _) in enumerate(chosen)]
        declared = data.draw(st.permutations([*columns, "absent int"]))[: data.draw(st.integers(1, len(columns) + 1))]
        chance, records = random.Random(seed), []  # noqa: S311 - spread, not secrecy
        for _ in range(4):
            row = {
                f"f{n}": data.draw(st.none() | values if isinstance(fields[n][1], list) else values)
                for n, (_, _, values) in enumerate(chosen)
            }
            good = body(schema, row | {f"o{n}": data.draw(values) for n, (_, values) in enumerate(others)})
            records += [framed(good), *(framed(spoiled(good, chance)) for _ in range(4))]
        decoders = both(", ".join(declared), schema)
        found = places(decoders, records)
        chance.shuffle(records)
        assert len(places(decoders, records)) == len(found), "neighbours make no difference"
        if not others:
            taken += len({*found} & {0, 5, 10, 15})
            whole += 4

    each()
    assert whole > 150
    assert taken >= 0.9 * whole  # texts with NUL are left


def each_named_once(chosen: list[Any]) -> list[Any]:
    """Returns the types of fields. A named type that occurs again is its name."""
    types = [type_ for type_, _, _ in chosen]
    return [type_["name"] if "name" in type_ and type_ in types[:n] else type_ for n, type_ in enumerate(types)]


def test_bytes_of_any_kind_crash_nothing():
    schema = a_record(*((f"f{n}", ["null", type_]) for n, (type_, _, _) in enumerate(FIELDS)))
    decoders = both("f0 string", schema)
    chance = np.random.default_rng(7)
    records = [framed(bytes(chance.integers(0, 256, int(chance.integers(0, 80)), np.uint8))) for _ in range(2_000)]
    places(decoders, records)
    places(both("f0 string", a_record(("f0", "string"))), [framed(b"\x00" * n) for n in range(40)])
