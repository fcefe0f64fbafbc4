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
from lockstep.core.pipeline.definition import Accumulate, Append, Count, Custom, Upsert
from lockstep.formats.own_code import function_of, refuse_vain_deletion
from lockstep.formats.own_decoder import OwnDecoder
from support.inputs import hostile

ONE = (Upsert("public.p", key=("id",)),)
TWO = (Append("public.log"), Upsert("public.p", key=("shop", "id")), Upsert("public.q", key=("id", "shop")))


def outcome(
    schema: str,
    body: str,
    value: bytes | None = b"v",
    key: bytes | None = b"k",
    headers: str | None = None,
    targets=ONE,
):
    source = f"import datetime, decimal\nfrom lockstep import Delete\ndef decode(key, value, headers):\n    {body}\n"
    return OwnDecoder(Custom(schema), source, targets)(key, value, headers)


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
    with pytest.raises(TypeError, match="returns list, and must return a dict, Delete or None"):
        outcome("a string", "return []")


def test_a_delete_is_the_deletion_of_exactly_one_key():
    made = outcome("id int, n int", "return Delete({'id': 7})")
    assert (made.values, made.deleted, made.reason, made.filtered) == ({"id": 7}, True, None, False)
    both = outcome("id int, shop string, n int", "return Delete({'id': 7, 'shop': 's'})", targets=TWO)
    assert (both.values, both.deleted) == ({"shop": "s", "id": 7}, True)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("7", "Delete: its key is int, and must be a dict of id"),
        ("None", "Delete: its key is NoneType, and must be a dict of id"),
        ("{}", "Delete: its key names nothing, and the target's key is id"),
        ("{'n': 1}", "Delete: its key names n, and the target's key is id"),
        ("{'id': 1, 'n': 1}", "Delete: its key names id, n, and the target's key is id"),
        ("{1: 1, b'x': 2}", "Delete: its key names 1, b'x', and the target's key is id"),
        ("{'id': '7'}", "Delete: column id: not a int"),
        ("{'id': True}", "Delete: column id: not a int"),
        ("{'id': 2**31}", "Delete: column id: does not fit int"),
        ("{'id': None}", "Delete: column id: null"),
    ],
)
def test_a_delete_whose_key_names_no_row_is_a_reject_with_the_reason(key, reason):
    made = outcome("id int, n int", f"return Delete({key})")
    assert (made.reason, made.deleted, made.values) == (reason, False, {})


@pytest.mark.parametrize("place", range(len(hostile.DELETE_KEYS)))
def test_a_hostile_key_of_a_delete_is_a_reject_and_the_code_goes_on(place):
    source = "from lockstep import Delete\nKEYS = []\ndef decode(key, value, headers):\n    return Delete(KEYS[0])\n"
    decode = OwnDecoder(Custom("id int, n int"), source, ONE)
    decode._function.__globals__["KEYS"].append(hostile.DELETE_KEYS[place])  # noqa: SLF001 - the decoder's own module
    made = decode(None, b"v", None)
    assert made.reason.startswith("Delete: ")
    assert (made.deleted, made.filtered, made.values) == (False, False, {})


@pytest.mark.parametrize(
    ("targets", "why"),
    [
        ((Append("public.p"),), "the target is Append, and only Upsert and History know a row by its key"),
        (
            (Append("public.p"), Accumulate("public.a", ("id",), (Count("n"),))),
            "the target is Append and Accumulate, and only Upsert and History know a row by its key",
        ),
        (
            (Upsert("public.p", key=("id",), order_by="n"),),
            "target.order_by of public.p is 'n', and a deletion has no such value",
        ),
        (
            (Upsert("public.p", key=("id",)), Upsert("public.q", key=("n",))),
            "public.p and public.q have different keys, and one deletion names one key",
        ),
        ((Upsert("public.p", key=("nr",)),), "the key column nr of public.p is none of the format's"),
    ],
    ids=["append", "totals", "order_by", "two keys", "a transform's key"],
)
def test_a_delete_that_no_target_takes_is_refused_by_its_line_or_a_reject_where_no_line_shows_it(targets, why):
    format_ = Custom("id int, n int")
    for head, use in (
        ("from lockstep import Delete", "Delete"),
        ("from lockstep import Delete as Gone", "Gone"),
        ("import lockstep", "lockstep.Delete"),
        ("import lockstep as ls", "ls.Delete"),
    ):
        source = f"{head}\n\ndef decode(key, value, headers):\n    return {use}({{'id': 1}})\n"
        with pytest.raises(BadDefinition) as refused:
            refuse_vain_deletion(format_, source, targets)
        assert str(refused.value) == f"decode.py:4: Delete: {why}"
        refuse_vain_deletion(format_, source, ONE)
        made = OwnDecoder(format_, source, targets)(None, b"v", None)
        assert (made.reason, made.deleted) == (f"Delete: {why}", False)
    hidden = (
        "import lockstep\ndef decode(key, value, headers):\n    return getattr(lockstep, 'Del' + 'ete')({'id': 1})\n"
    )
    refuse_vain_deletion(format_, hidden, targets)
    assert OwnDecoder(format_, hidden, targets)(None, b"v", None).reason == f"Delete: {why}"
    other = "class Delete: ...\ndef decode(key, value, headers):\n    return Delete and None\n"
    refuse_vain_deletion(format_, other, targets)
