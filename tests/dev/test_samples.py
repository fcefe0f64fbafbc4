"""Tests that the sample data never change, and fit the pipelines."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

import pytest

from lockstep.dev.samples import SAMPLES, Record

MANY = 40_000
STATUSES = {"placed", "paid", "shipped", "delivered", "cancelled"}


def sampled(name: str, *, seed: int = 0, first: int = 0, count: int = MANY) -> list[Record]:
    return list(SAMPLES[name].records(seed, first, count))


def is_a_click(record: Record) -> bool:
    try:
        value = json.loads(record.value or b"")
        datetime.fromisoformat(value["at"])
    except (ValueError, TypeError, UnicodeDecodeError):
        return False
    return "\0" not in value["url"] and value["user"].encode() == record.key


@pytest.mark.parametrize("name", SAMPLES)
def test_one_seed_is_one_sequence_and_another_seed_another(name):
    assert sampled(name, seed=7, count=500) == sampled(name, seed=7, count=500)
    assert sampled(name, seed=7, count=500) != sampled(name, seed=8, count=500)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sequence_goes_on_where_another_call_left_it(name):
    whole = sampled(name, count=1_000)

    assert sampled(name, count=417) + sampled(name, first=417, count=583) == whole


def test_an_order_is_stated_in_the_fields_its_pipeline_reads():
    values = [json.loads(record.value) for record in sampled("orders") if record.value]

    assert {tuple(value) for value in values} == {("order_id", "customer", "amount", "status", "placed_at")}
    assert {value["status"] for value in values} == STATUSES
    assert all(Decimal(value["amount"]) > 0 and isinstance(value["amount"], str) for value in values)
    assert all(value["placed_at"].endswith("Z") and datetime.fromisoformat(value["placed_at"]) for value in values)


def test_an_orders_key_is_its_id():
    assert all(
        record.key.decode() == json.loads(record.value)["order_id"] for record in sampled("orders") if record.value
    )


def test_an_order_is_updated_several_times_and_only_forwards():
    steps = defaultdict(list)
    for record in sampled("orders"):
        steps[record.key].append(json.loads(record.value)["status"] if record.value else None)
    whole = [tuple(life) for life in steps.values() if len(life) == 4]

    assert set(whole) == {("placed", "paid", "shipped", "delivered"), ("placed", "paid", "cancelled", None)}
    assert len(whole) > MANY / 8


def test_one_order_record_in_fifty_is_a_tombstone():
    tombstones = sum(record.value is None for record in sampled("orders"))

    assert 0.015 < tombstones / MANY < 0.025


def test_one_click_in_a_hundred_is_malformed():
    malformed = sum(not is_a_click(record) for record in sampled("clicks"))

    assert 0.008 < malformed / MANY < 0.012


def test_malformed_clicks_are_malformed_in_many_ways():
    bad = [record.value for record in sampled("clicks") if not is_a_click(record)]

    assert b"" in bad
    assert any(value.startswith(b"<click>") for value in bad)
    assert any(value.startswith(b"[") for value in bad)
    assert any(b"\xff\xfe" in value for value in bad)
    assert any(b"\\u0000" in value for value in bad)
    assert any(b"yesterday" in value for value in bad)


def test_no_click_comes_twice():
    ids = [json.loads(record.value)["click_id"] for record in sampled("clicks") if is_a_click(record)]

    assert len(ids) == len(set(ids))


def test_some_clicks_are_late():
    times = [json.loads(record.value)["at"] for record in sampled("clicks") if is_a_click(record)]
    late = sum(now < before for before, now in pairwise(times))

    assert 0.01 < late / MANY < 0.03
