"""Tests that the change records of any history, once decoded, hold everything that the source's table holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep import Debezium
from lockstep.core.records import SOURCE_ORDER, UNAVAILABLE
from lockstep.formats.debezium.decoder import ChangeDecoder
from support.fakes.captured import SCHEMA, CapturedTable

UNITS = {"photo": "base64"}


def folded(table: dict[int, dict[str, Any]], judge: ChangeDecoder, records) -> None:
    """Applies records to a table, one after another: what a record leaves open stays as it is."""
    for record in records:
        outcome = judge(record.key, record.value, None)
        assert outcome.reason is None
        values = dict(outcome.values)
        key = values.pop("id")
        if outcome.deleted:
            table.pop(key, None)
            continue
        for name in filter(None, (values.pop(UNAVAILABLE, "") or "").split(",")):
            values[name] = table.get(key, {}).get(name)
        table[key] = values


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.booleans(), st.booleans(), st.booleans())
def test_the_decoded_records_of_any_history_make_the_sources_table(seed, schemas, flat, tombstones):
    source = CapturedTable(seed, schemas=schemas, flat=flat, tombstones=tombstones)
    judge = ChangeDecoder("shop", Debezium(SCHEMA, units=UNITS))
    table: dict[int, dict[str, Any]] = {}
    for _ in range(15):
        folded(table, judge, source.step())
        assert table == source.rows


@pytest.mark.parametrize("schemas", [True, False])
def test_histories_hold_what_they_are_about(schemas):
    source = CapturedTable(1, schemas=schemas)
    for _ in range(100):
        source.step()
    sent = source.sent
    values = [record.value for record in sent if record.value]
    assert any(b"__debezium_unavailable_value" in value for value in values)
    assert any(b'"op": "d"' in value for value in values)
    assert any(record.value is None for record in sent)
    assert len(set(sent)) < len(sent)


def folded_by_source(table: dict[int, tuple[bytes, dict[str, Any] | None]], outcome) -> None:
    """Applies a record to a table of orders and rows. A deletion leaves its order behind."""
    values = dict(outcome.values)
    key, order = values.pop("id"), values.pop(SOURCE_ORDER)
    was, row = table.get(key, (b"", None))
    if order < was:
        return
    for name in filter(None, (values.pop(UNAVAILABLE, "") or "").split(",")):
        values[name] = (row or {}).get(name)
    table[key] = order, None if outcome.deleted else values


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9), st.booleans(), st.booleans(), st.booleans())
def test_by_the_sources_order_the_table_is_the_source_behind_every_record(seed, schemas, flat, tombstones):
    source = CapturedTable(seed, schemas=schemas, flat=flat, tombstones=tombstones)
    judge = ChangeDecoder("shop", Debezium(SCHEMA, units=UNITS, order="source"))
    table: dict[int, tuple[bytes, dict[str, Any] | None]] = {}
    for _ in range(12):
        source.step()
    for number, record in enumerate(source.sent, 1):
        outcome = judge(record.key, record.value, None)
        assert outcome.reason is None
        folded_by_source(table, outcome)
        rows = {key: row for key, (_, row) in table.items() if row is not None}
        assert rows == source.state(source.sent[:number])
    assert {key: row for key, (_, row) in table.items() if row is not None} == source.rows
