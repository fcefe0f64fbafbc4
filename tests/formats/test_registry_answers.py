"""Tests that an answer of a registry has a largest size and a latest end, over real sockets."""

from __future__ import annotations

import gzip
import json
import resource
import time
import zlib
from contextlib import suppress
from typing import Any

import pytest

from lockstep.core.errors import Unreachable
from lockstep.core.registry import registry as registry_of
from lockstep.formats.avro.client import MOST_ANSWER, longest
from lockstep.formats.avro.recent import Recent
from lockstep.formats.avro.schemas import Schemas
from support.fakes.registry import a_record, a_registry

OPTIONS = {"max.retries": 0, "timeout": 2, "retries.max.wait.ms": 1_000}
COMPRESSIONS: dict[str, Any] = {"gzip": gzip.compress, "deflate": zlib.compress, "identity": bytes}
LARGE = b'{"schema": "' + b" " * (12 * MOST_ANSWER) + b'"}'


@pytest.fixture
def server():
    with a_registry() as made:
        made.register("t-value", a_record(("id", "string")))
        yield made


def answering(body: bytes, encoding: str = "identity"):
    def answer(handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", encoding)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        with suppress(ConnectionError):
            handler.wfile.write(body)

    return answer


@pytest.mark.parametrize(
    ("body", "encoding"), [(LARGE, "identity"), (gzip.compress(LARGE), "gzip")], ids=["plain", "gzip"]
)
def test_an_answer_that_is_too_large_ends_early_and_blames_the_registry(server, body, encoding):
    server.odd = answering(body, encoding)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Unreachable, match="schema id 1: the answer is larger than 16 MB"):
        Schemas(registry_of(server.url, OPTIONS, str)).writer(1)
    assert (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    )  # kB; the whole would be 200 MB and more


@pytest.mark.parametrize("encoding", COMPRESSIONS)
def test_a_compressed_answer_is_read(server, encoding):
    text = json.dumps({"schema": json.dumps(a_record(("id", "string")))}).encode()
    body = COMPRESSIONS[encoding](text)
    server.odd = answering(body, encoding)
    assert '"R"' in Schemas(registry_of(server.url, OPTIONS, str)).writer(1)[0]


def test_an_answer_in_another_compression_is_refused_before_it_is_read(server):
    server.odd = answering(b"x" * 1_000, "br")
    with pytest.raises(Unreachable, match="compressed in another way than gzip"):
        Schemas(registry_of(server.url, OPTIONS, str)).writer(1)


def slow_body(handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    by_bytes(handler, b"x")


def slow_head(handler) -> None:
    by_bytes(handler, b"HTTP/1.1 200 OK\r\nX-Slow: ")


def by_bytes(handler, first: bytes) -> None:
    with suppress(OSError):
        handler.wfile.write(first)
        for _ in range(40):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.5)


@pytest.mark.parametrize("odd", [slow_body, slow_head], ids=["body", "head"])
def test_an_answer_that_never_ends_is_given_up(server, odd):
    registry = registry_of(server.url, OPTIONS, str)
    schemas = Schemas(registry)
    server.odd = odd
    begun = time.monotonic()
    with pytest.raises(Unreachable, match="schema id 1: no whole answer within 3 seconds"):
        schemas.writer(1)
    assert longest(registry) == 3
    assert time.monotonic() - begun < 10
    server.odd = None
    assert '"R"' in schemas.writer(1)[0]  # by a new connection


def test_the_time_of_an_answer_is_that_of_all_its_tries():
    assert longest(registry_of("http://a:1", {}, str)) == 48
    assert longest(registry_of("http://a:1,http://b:1", {"timeout": 5, "max.retries": 1}, str)) == 28


def test_schemas_that_were_not_used_for_longest_go_first():
    kept: Recent[str] = Recent(most=3, most_size=10)
    for name in "abc":
        kept.put(name, name.upper(), 1)
    assert kept["a"] == "A"
    kept["d"] = "D"
    assert [name for name in "abcd" if name in kept] == ["a", "c", "d"]
    kept.put("e", "E", 9)
    assert [name for name in "acde" if name in kept] == ["a", "d", "e"]
    kept.put("f", "F", 99)
    assert [name for name in "adef" if name in kept] == ["f"]


def test_a_schema_that_was_dropped_is_asked_for_again(server):
    schemas = Schemas(registry_of(server.url, OPTIONS, str))
    schemas._known = Recent(most=1)  # noqa: SLF001 - so that two are too many
    server.register("t-value", a_record(("n", "int")))
    server.asked.clear()
    for schema_id in (1, 1, 2, 1):
        schemas.writer(schema_id)
    assert server.asked == ["/schemas/ids/1", "/schemas/ids/2", "/schemas/ids/1"]
