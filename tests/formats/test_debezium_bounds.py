"""Tests that no number, name or length of a change record costs more than its bytes."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from types import SimpleNamespace

import pyarrow as pa
import pytest

from lockstep import Debezium
from lockstep.formats.debezium import templates
from lockstep.formats.debezium.decoder import ChangeDecoder
from lockstep.formats.debezium.of_avro import connect_schema
from lockstep.formats.debezium.templates import Templates
from support.inputs.change_records import decoded, field, of_field, with_schema
from support.scenes.bounded import within

DECIMAL = "org.apache.kafka.connect.data.Decimal"
VARIABLE = "io.debezium.data.VariableScaleDecimal"
ONE = b64encode(b"\x01").decode()
NO_SCALE = "column v: is a decimal, and its schema names no scale as a whole number"
TOO_FAR = "column v: is a decimal, and its scale is not between -1000 and 1000"
# What a schema or a record may say for the scale of a decimal.
SCALES = [
    ("1e999999999", NO_SCALE), ("1e100000", NO_SCALE), ("-1e999999999", NO_SCALE), ("2.0", NO_SCALE), ("true", NO_SCALE),
    ('"1e9"', NO_SCALE), ('"' + "9" * 100_000 + '"', NO_SCALE), ('"1_0"', NO_SCALE), ('"\\u0663"', NO_SCALE), ("[]", NO_SCALE),
    ("9" * 1_000, TOO_FAR), ("1001", TOO_FAR), ('"-1001"', TOO_FAR),
]  # fmt: skip


def by_schema(scale: str) -> bytes:
    schema = field("v", "bytes", DECIMAL, parameters={"scale": "SCALE"})
    record = with_schema({"op": "c", "source": {}, "after": {"id": 1, "v": ONE}}, field("id", "int64"), schema)
    return json.dumps(record).replace('"SCALE"', scale).encode()


def by_value(scale: str) -> bytes:
    after = {"id": 1, "v": {"scale": "SCALE", "value": ONE}}
    record = with_schema(
        {"op": "c", "source": {}, "after": after}, field("id", "int64"), field("v", "struct", VARIABLE)
    )
    return json.dumps(record).replace('"SCALE"', scale).encode()


@pytest.mark.parametrize("written", [by_schema, by_value])
@pytest.mark.parametrize(("scale", "reason"), SCALES, ids=lambda case: case[:20])
def test_a_scale_is_looked_at_before_it_is_a_number(written, scale, reason):
    record = written(scale)
    outcome = within(lambda: decoded(record, schema="id bigint, v decimal(12,2)"))
    assert outcome.reason == reason


@pytest.mark.parametrize("scale", [2, "2", "+", -1])
def test_a_scale_of_few_digits_is_what_it_says(scale):
    outcome = of_field(ONE, "decimal(12,2)", "bytes", DECIMAL, parameters={"scale": scale})
    wanted = {2: "0.01", "2": "0.01", -1: "10.00"}.get(scale)
    assert (outcome.reason is None) == (wanted is not None)
    assert wanted is None or str(outcome.values["v"]) == wanted


def test_a_scale_of_avro_that_is_infinite_is_a_reject_and_ends_no_task():
    type_ = json.loads(f'{{"type": "bytes", "connect.name": "{DECIMAL}", "scale": 1e999}}')
    made = connect_schema({"type": "record", "name": "r", "fields": [{"name": "v", "type": type_}]}, {})
    take = ChangeDecoder("p", Debezium("v decimal(12,2)", key=("v",)), lambda _: ({"v": b"\x01", "__op": "c"}, made))
    assert take(None, b"", None).reason == NO_SCALE


def a_wide_row(number: int, names: int) -> bytes:
    after = {"id": number} | {f"n{number}_{place}": 0 for place in range(names)}
    return json.dumps({"op": "c", "source": {"lsn": 5}, "after": after}).encode()


def test_records_of_many_names_make_no_costly_templates():
    """Without a limit, each of these ten records costs three seconds, and one of 60 MB costs a quarter of an hour."""
    format_ = Debezium("id bigint", key=("id",))
    rows = [a_wide_row(number, 10_000) for number in range(10)]

    def taken() -> int:
        take = Templates(ChangeDecoder("shop", format_), format_, frozenset())
        return len(take(pa.array(rows, pa.binary()))[0])

    assert within(taken) == 0
    rows = [a_wide_row(1, 1_000)] * 3
    assert within(taken) == 3


def test_templates_of_one_task_cost_so_much_together_and_no_more(monkeypatch):
    format_ = Debezium("id bigint", key=("id",))
    rows = [a_wide_row(number, 100).replace(b": 0}", b": [{}]}") for number in range(40)]
    compiled: list[str] = []
    monkeypatch.setattr(templates, "MOST_TEMPLATES", 100)
    monkeypatch.setattr(templates, "MOST_COMPILED", 2**17)
    monkeypatch.setattr(
        templates, "re", SimpleNamespace(compile=lambda text: compiled.append(text) or re.compile(text))
    )
    Templates(ChangeDecoder("shop", format_), format_, frozenset())(pa.array(rows, pa.binary()))
    assert 1 < len(compiled) < 20
    assert sum(map(len, compiled)) <= 2**17


def test_schemas_that_never_come_again_are_not_kept():
    take = ChangeDecoder("shop", Debezium("id bigint, v string", key=("id",)))
    for number in range(3_000):
        fields = field("id", "int64"), field("v", "string", f"shop.Name{number}")
        record = with_schema({"op": "c", "source": {}, "after": {"id": 1, "v": "x"}}, *fields)
        assert take(None, json.dumps(record).encode(), None).values == {"id": 1, "v": "x"}
    assert len(take._takers) <= 1_000  # noqa: SLF001 - what a task keeps shows nowhere else
