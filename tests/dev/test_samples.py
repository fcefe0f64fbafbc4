"""Tests that the sample data never change, and fit the pipelines."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lockstep.adapters import folders
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.formats import Json
from lockstep.dev.catalogue import SAMPLES
from lockstep.dev.records.produce import sample_named

if TYPE_CHECKING:
    from lockstep.dev.records.samples import SampleRecord

ROOT = Path(__file__).parents[2]
MANY = 40_000
STATUSES = {"placed", "paid", "shipped", "delivered", "cancelled"}


def sampled(name: str, *, seed: int = 0, first: int = 0, count: int = MANY) -> list[SampleRecord]:
    return list(SAMPLES[name].records(seed, first, count))


def is_a_click(record: SampleRecord) -> bool:
    try:
        value = json.loads(record.value or b"")
        datetime.fromisoformat(value["at"])
    except (ValueError, TypeError, UnicodeDecodeError):
        return False
    return "\0" not in value["url"] and value["user"].encode() == record.key


def a_review(value: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(value.decode())
        datetime.fromisoformat(event["time"])
    except (ValueError, TypeError):
        return None
    return event


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


@pytest.fixture
def shipped(monkeypatch):
    """Returns the pipelines that are shipped, by name."""
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(ROOT / "include" / "pipelines"))
    return {name: folders.load(name).pipeline for name in folders.pipeline_names()}


def test_each_shipped_pipeline_but_the_one_of_avro_has_sample_data(shipped):
    assert set(shipped) - set(SAMPLES) == {"payments"}
    assert {name: SAMPLES[name].topic for name in SAMPLES} == {name: shipped[name].topic for name in SAMPLES}


@pytest.mark.parametrize("name", sorted(set(SAMPLES) - {"orders", "clicks", "reviews", "spend"}))
def test_a_sample_has_the_fields_that_its_pipeline_reads_and_its_key(shipped, name):
    format_ = shipped[name].format
    values = [json.loads(record.value) for record in sampled(name, count=2_000)]

    assert isinstance(format_, Json)
    assert {tuple(value) for value in values} == {tuple(column.name for column in format_.columns)}
    times = [text for value in values for name, text in value.items() if name == "at" or name.endswith("_at")]
    assert len(times) == len([datetime.fromisoformat(text) for text in times]) == len(values)
    if format_.key:
        assert all(record.key.decode() == json.loads(record.value)[format_.key] for record in sampled(name, count=500))


def test_a_basket_has_two_versions_and_its_lines_are_a_text_of_json():
    versions = defaultdict(list)
    for record in sampled("baskets", count=1_000):
        versions[record.key].append(json.loads(json.loads(record.value)["lines"]))

    assert {len(each) for each in versions.values()} == {2}
    assert {len(lines) for each in versions.values() for lines in each} == {1, 2, 3}
    assert all(
        set(line) == {"sku", "quantity", "price"} and Decimal(line["price"]) > 0 and 1 <= line["quantity"] <= 4
        for each in versions.values()
        for lines in each
        for line in lines
    )


def test_a_review_is_a_cloud_event_with_emoji_in_escapes_and_in_utf_8(shipped):
    found = [(record.value, a_review(record.value)) for record in sampled("reviews", count=4_000)]
    values, events = zip(*((value, event) for value, event in found if event), strict=True)

    assert {column.name for column in shipped["reviews"].format.columns} < set(events[0])
    assert {tuple(event["data"]) for event in events} == {("productId", "author", "text", "ratings")}
    assert {len(event["data"]["ratings"]) for event in events} == {0, 1, 2, 3}
    assert {each["stars"] for event in events for each in event["data"]["ratings"]} == {1, 2, 3, 4, 5}
    assert sum("👍".encode() in value for value in values) > 300
    assert sum(rb"\ud83d\udc4d" in value for value in values) > 300


def test_one_review_in_a_hundred_is_unusable_in_one_of_four_ways():
    bad = [record.value for record in sampled("reviews", count=4_000) if not a_review(record.value)]

    assert 0.007 < len(bad) / 4_000 < 0.013
    assert any(b"yesterday" in value for value in bad)
    assert any(b"/caf\xe9" in value for value in bad)
    assert any(value.startswith(b"[") for value in bad)
    assert any(value.startswith(b"{") and not value.endswith(b"}") for value in bad)


def test_sales_come_late_very_late_and_from_the_future():
    times = [datetime.fromisoformat(json.loads(record.value)["sold_at"]) for record in sampled("sales", count=8_000)]
    ahead = [moment for moment in times if moment.year == 2099]
    behind = [sale * 10 - (moment - times[0]).total_seconds() for sale, moment in enumerate(times)]

    assert len(ahead) == 2
    assert 40 < sum(seconds == 21_600 for seconds in behind) < 120
    assert 100 < sum(0 < seconds < 5_400 for seconds in behind) < 220
    assert min(times) == times[0]


def test_some_signups_are_of_a_load_test_and_some_have_no_address():
    values = [json.loads(record.value) for record in sampled("signups", count=4_000)]

    assert 0.07 < sum(value["source"] == "load-test" for value in values) / 4_000 < 0.13
    assert 0.015 < sum("@" not in value["email"] for value in values) / 4_000 < 0.035


def test_a_sample_of_avro_is_refused_with_what_it_needs():
    with pytest.raises(
        Refusal, match="payments reads Avro, and its records need a schema registry of your own"
    ) as refusal:
        sample_named("payments")
    assert refusal.value.next_command == "lockstep try payments --file FILE.jsonl --envelope"
