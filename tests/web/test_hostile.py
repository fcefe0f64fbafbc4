"""Tests hostile addresses and records: every answer is a page or a 4xx, and none exhausts the server."""

from __future__ import annotations

import json
import resource
import time
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

PLACES = ("record?partition=0&offset={}", "record?partition={}&offset=0", "record?key={}", "coverage?from={}")
PLACES += (  # type: ignore[assignment]
    "coverage?until={}&along=time",
    "batches?before={}",
    "batches?run={}",
    "batches/{}",
    "runs/{}",
    "coverage?first={}",
    "feed?target={}",
    "feed?before={}",
    "feed/{}",
    "feed/1?from={}",
    "time?target={}",
    "time?last={}&first=0",
    "late?before={}",
    "late?partition={}",
)
PAYLOADS = (
    "<script>alert(1)</script>",
    "\0",
    "9" * 5_000,
    "-1",
    "9223372036854775808",
    "x" * 8_000,
    "\r\nSet-Cookie: a=b",
    "../../etc/passwd",
    "{{7*7}}${7*7}",
    "\u202e\x1b[2J\ufffe",
)
ADDRESSES = [place.format(quote(payload, safe="")) for place in PLACES for payload in PAYLOADS]
ADDRESSES += [
    "record?partition=0&offset=%ff%fe",
    "record?" + "&".join(f"key={n}" for n in range(2_000)),
    "record?%00=1",
    "record?key=%ED%A0%80",
    "coverage?from=٣&until=²",
    "coverage?colour=%3Cb%3E&along=%3Cb%3E",
]


@pytest.mark.parametrize("along", ["drill", "a%00b"])
def test_no_address_is_answered_with_a_fault(pages, along):
    assert len(ADDRESSES) >= 60
    for address in ADDRESSES:
        answer = pages(f"/dags/{along}/{address}", follow_redirects=False)
        assert answer.status_code < 500, (address[:100], answer.status_code, answer.text[-300:])
        assert "<script>alert(1)" not in answer.text
        assert "set-cookie" not in answer.headers
        assert answer.headers.get("location", "/lockstep/").startswith("/lockstep/")
    assert pages("/dags/drill/record?key=%00").status_code == 400


def deep(depth: int, pad: int) -> bytes:
    return b'{"id":' + b"[" * depth + b"0" * pad + b"]" * depth + b"}"


def test_every_record_is_a_page_and_what_is_deep_or_long_costs_little(pages, here, kafka):
    values = {
        "deep": deep(450, 450_000),
        "deeper": deep(990, 0),
        "deepest": deep(400_000, 0),
        "objects": b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
        "surrogate": b'{"id":"\\ud800"}',
        "surrogate key": b'{"\\udfff":1}',
        "digits": b'{"id":' + b"9" * 5_000 + b"}",
        "not utf-8": b"\xff\xfe{" * 30_000,
        "script": b'{"id":"<script>alert(1)</script>"}',
        "cut in a character": "é".encode() * 50_000,
        "nan": b'{"id":NaN,"n":1e999999}',
        "empty": b"",
    }
    here.drain()
    producer = Producer({"bootstrap.servers": kafka})
    places = {}
    for name, value in values.items():
        headers = [("h\u202e", b"\xff\x00"), ("h", None)] * 200
        producer.produce(
            here.drill.topic,
            value,
            name,
            2,
            headers=headers,
            on_delivery=lambda _, m, n=name: places.update({n: m.offset()}),
        )
    assert producer.flush(30) == 0
    for name, offset in places.items():
        before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        until = time.monotonic() + 60
        while "is being asked" in (answer := pages(f"/dags/drill/record?partition=2&offset={offset}")).text:
            assert time.monotonic() < until
            time.sleep(0.3)
        assert answer.status_code == 200, (name, answer.text[-300:])
        assert "<script>alert(1)" not in answer.text
        assert len(answer.text) < 400_000, name
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000, name
        assert time.process_time() - begun < 20, name
    shown = pages(f"/dags/drill/record?partition=2&offset={places['surrogate']}").text
    assert "\\ud800" in shown
    assert json.loads(values["surrogate"])["id"] == "\ud800", "JSON takes it, and UTF-8 does not"
