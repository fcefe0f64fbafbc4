"""Tests a pipeline's own decoder: a dict is a row, None is filtered, and a ValueError is a reject.

Its values must fit the columns.
"""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.definition import Custom
from lockstep.formats.own_code import function_of
from lockstep.formats.own_decoder import OwnDecoder


def outcome(schema: str, body: str, value: bytes | None = b"v", key: bytes | None = b"k", headers: str | None = None):
    source = f"import datetime, decimal\ndef decode(key, value, headers):\n    {body}\n"
    return OwnDecoder(Custom(schema), source)(key, value, headers)


def test_it_is_given_key_value_and_headers_as_bytes():
    headers = json.dumps([{"key": "trace", "value": b64encode(b"\xff").decode()}, {"key": "none"}])
    made = outcome("a binary, b binary, c string", "return {'a': key, 'b': value, 'c': repr(headers)}", headers=headers)
    assert made.values == {"a": b"k", "b": b"v", "c": "[('trace', b'\\xff'), ('none', None)]"}
    assert outcome("c string", "return {'c': repr(headers)}").values == {"c": "[]"}


def test_none_is_filtered_and_a_value_error_is_a_reject_with_its_reason():
    assert outcome("a string", "return None").filtered
    assert outcome("a string", "raise ValueError('no such\\n unit')").reason == "no such\n unit"
    assert "gives no reason" in outcome("a string", "raise ValueError").reason
    assert outcome("a string, b int", "return {'a': 'x'}").values == {"a": "x", "b": None}


@pytest.mark.parametrize(
    ("column", "gives", "reason"),
    [
        ("a int", "{'a': '3'}", "column a: not a int"),
        ("a int", "{'a': True}", "column a: not a int"),
        ("a int", "{'a': 2**31}", "column a: does not fit int"),
        ("a smallint", "{'a': -2**15 - 1}", "column a: does not fit smallint"),
        ("a string", "{'a': b'x'}", "column a: not a string"),
        ("a string", "{'a': 'x\\0'}", "column a: holds \\u0000"),
        ("a string", "{'a': '\\ud800'}", "column a: holds half a surrogate pair"),
        ("a boolean", "{'a': 1}", "column a: not a boolean"),
        ("a decimal(4,2)", "{'a': decimal.Decimal('1.234')}", "column a: does not fit decimal(4,2)"),
        ("a decimal(4,2)", "{'a': decimal.Decimal('100')}", "column a: does not fit decimal(4,2)"),
        ("a decimal(4,2)", "{'a': decimal.Decimal('NaN')}", "column a: does not fit decimal(4,2)"),
        ("a decimal(4,2)", "{'a': 1.5}", "column a: not a decimal(4,2)"),
        ("a double", "{'a': 2**53 + 1}", "column a: does not fit double"),
        ("a float", "{'a': 1e300}", "column a: does not fit float"),
        ("a float", "{'a': 2**24 + 1}", "column a: does not fit float"),
        ("a float", "{'a': 1e-60}", "column a: does not fit float"),
        ("a date", "{'a': datetime.datetime(2026, 1, 1)}", "column a: not a date"),
        ("a timestamp", "{'a': datetime.date(2026, 1, 1)}", "column a: not a timestamp"),
        ("a string", "{'b': 'x'}", "column b: not in the schema"),
    ],
)
def test_what_does_not_fit_its_column_is_a_reject_naming_it(column, gives, reason):
    assert reason in outcome(column, f"return {gives}").reason


def test_every_type_is_taken_to_the_digit():
    schema = "s string, n smallint, f float, d double, e decimal(4,2), day date, at timestamp, b binary"
    body = (
        "return {'s': 'x', 'n': -2**15, 'f': 1, 'd': 0.1, 'e': 7, 'day': datetime.date(1, 1, 1), 'b': bytearray(b'b'),"
        " 'at': datetime.datetime(2026, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))}"
    )
    assert outcome(schema, body).values == {
        "s": "x",
        "n": -(2**15),
        "f": 1.0,
        "d": 0.1,
        "e": Decimal("7.00"),
        "day": date(1, 1, 1),
        "at": datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))).astimezone(UTC),
        "b": b"b",
    }


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, "decode.py: missing; it holds decode"),
        ("def decode(:\n", "decode.py:1: syntax"),
        ("import nowhere\n", "decode.py: ModuleNotFoundError: No module named 'nowhere'"),
        ("decode = 3\n", "defines no function decode"),
    ],
)
def test_a_decoder_that_cannot_be_loaded_is_refused_in_one_line(source, words):
    with pytest.raises(BadDefinition, match=words) as caught:
        function_of("decode", source)
    assert "\n" not in str(caught.value)


def test_what_is_no_dict_is_the_codes_fault():
    with pytest.raises(TypeError, match="returns list, and must return a dict or None"):
        outcome("a string", "return []")
