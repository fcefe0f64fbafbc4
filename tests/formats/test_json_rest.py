"""Tests that fields outside the schema are kept as they were written."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockstep.formats.json.rest import MOST_NAMES, QuickGatherer, gathered_rest

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.sampled_from(["id", "n", "é"]) | TEXT, VALUES, max_size=6)
LAYOUTS = st.sampled_from([{}, {"separators": (",", ":")}, {"indent": 1}, {"ensure_ascii": False}])


@given(OBJECTS, LAYOUTS, st.sampled_from(["", " ", "\r\n\t"]))
def test_the_rest_is_the_object_without_the_declared_fields(record, layout, space):
    text = gathered_rest(f"{space}{json.dumps(record, **layout)}{space}", frozenset({"id", "n"}))
    others = {name: value for name, value in record.items() if name not in {"id", "n"}}
    assert (json.loads(text) if text else {}) == others
    assert (text is None) == (not others)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('{"id":1,"big":123456789012345678901234567890.10}', '{"big":123456789012345678901234567890.10}'),
        ('{"x" : 1e400 , "id":"\\u0000"}', '{"x":1e400}'),
        ('{"a":{"b" : [1, 2]},"a":2}', '{"a":{"b" : [1, 2]},"a":2}'),
        ('{"\\u0069d":1}', None),
        ('{"smile":"\\ud83d\\ude00"}', '{"smile":"\\ud83d\\ude00"}'),
        ('{"path":"C:\\\\u0000"}', '{"path":"C:\\\\u0000"}'),
        ("{}", None),
    ],
)
def test_numbers_and_escapes_stay_as_they_were_written(text, rest):
    assert gathered_rest(text, frozenset({"id"})) == rest


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"x":"a\\u0000b"}', "holds \\u0000"),
        ('{"x":{"\\u0000":1}}', "holds \\u0000"),
        ('{"x":"\\ud800"}', "half a surrogate pair"),
    ],
)
def test_what_postgres_could_not_store_is_told(text, why):
    with pytest.raises(ValueError, match=re.escape(why)):
        gathered_rest(text, frozenset({"id"}))


def test_records_of_ever_other_names_are_gathered_and_their_names_are_not_kept():
    gather = QuickGatherer(frozenset({"id"}))
    for number in range(30):
        record = json.dumps({"id": 1} | {f"n{number}_{name}": name for name in range(90)})
        assert gather(record.encode()) == gathered_rest(record, frozenset({"id"}))
    assert 1 < len(gather._order.names) <= MOST_NAMES  # noqa: SLF001 - what it holds
