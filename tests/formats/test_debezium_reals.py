"""Tests that no number is rounded on its way into a column of floats or doubles without a reject that says so."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.inputs.change_records import decoded, of_field

FLOAT_OF_THIRD = struct.unpack("<f", struct.pack("<f", 1 / 3))[0]


def of_text(number: str, column: str):
    text = f'{{"op": "c", "source": {{}}, "after": {{"id": 1, "v": {number}}}}}'
    return decoded(text.encode(), schema=f"id bigint, v {column}")


@pytest.mark.parametrize(
    ("number", "column", "schema"),
    [
        (1234567.891, "float", ("double",)),
        (0.1, "float", ("double",)),
        (1e-60, "float", ("double",)),
        (1e60, "float", ("double",)),
        (16777217, "float", ("double",)),
        (16777217, "float", ("float",)),
        (16777217, "float", ()),
        (1234567.891, "float", ()),
        (1e-60, "float", ()),
        (1e60, "float", ()),
        (9007199254740993, "double", ()),
        (9007199254740993, "double", ("double",)),
        (9007199254740993, "double", ("int64",)),
    ],
)
def test_a_number_that_would_be_rounded_is_a_reject(number, column, schema):
    outcome = of_field(number, column, *schema)
    assert outcome.reason == f"column v: does not fit {column}"
    assert outcome.values == {}


@pytest.mark.parametrize(
    ("number", "column"),
    [
        ("0.1234567890123456789", "double"),
        ("9007199254740993.0", "double"),
        ("1e-400", "double"),
        ("16777217.00", "float"),
        ("0.1234567890123456789", "float"),
    ],
)
def test_a_fraction_of_more_digits_than_a_column_holds_is_a_reject(number, column):
    assert of_text(number, column).reason == f"column v: does not fit {column}"


@pytest.mark.parametrize(
    ("number", "column", "schema"),
    [
        (0.5, "float", ("double",)),
        (FLOAT_OF_THIRD, "float", ("double",)),
        (FLOAT_OF_THIRD, "float", ()),
        (16777216, "float", ("double",)),
        (16777216, "float", ()),
        (9007199254740992, "double", ()),
        (1e300, "double", ()),
        (0, "float", ()),
        (0.0, "float", ("double",)),
        (5e-324, "double", ("double",)),
    ],
)
def test_a_number_that_a_column_holds_is_taken(number, column, schema):
    assert of_field(number, column, *schema).values == {"id": 1, "v": number}


@pytest.mark.parametrize("schema", [("float",), ()])
def test_a_fraction_that_a_float_was_written_as_is_that_float_again(schema):
    (third,) = (of_field(0.33333334, "float", *schema).values["v"],)
    assert struct.pack("<f", third) == struct.pack("<f", 1 / 3)
    assert struct.pack("<f", of_field(0.1, "float", *schema).values["v"]) == struct.pack("<f", 0.1)
    smallest = of_field(1.4e-45, "float", *schema).values["v"]
    assert struct.pack("<f", smallest) == b"\1\0\0\0"


finite: dict[str, Any] = {"allow_nan": False, "allow_infinity": False}


@settings(max_examples=300, deadline=None)
@given(st.floats(width=32, **finite), st.integers(8, 20))
def test_every_float_comes_back_in_whatever_digits_it_is_written(real, digits):
    """Nine digits tell a float from the next one. A float that was a double on its way may be written in seventeen."""
    assert struct.pack("<f", of_text(f"{real:.{digits}e}", "float").values["v"]) == struct.pack("<f", real)
    assert struct.pack("<f", of_field(real, "float", "float").values["v"]) == struct.pack("<f", real)


@settings(max_examples=300, deadline=None)
@given(st.floats(**finite), st.sampled_from([("double",), ()]))
def test_every_double_comes_back(real, schema):
    value = of_field(real, "double", *schema).values["v"]
    assert (value, math.copysign(1, value)) == (real, math.copysign(1, real))
