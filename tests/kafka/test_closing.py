"""Tests that a client of Kafka that does not close keeps nobody waiting."""

from __future__ import annotations

import time
from threading import Event
from typing import TYPE_CHECKING, cast

import pytest

from lockstep.adapters.kafka import reading
from lockstep.adapters.kafka.reading import closing_soon
from lockstep.core.errors import BadData

if TYPE_CHECKING:
    from confluent_kafka import Consumer


class Client:
    """A client that closes when it is allowed to."""

    def __init__(self) -> None:
        self.allowed, self.closed = Event(), Event()

    def close(self) -> None:
        self.allowed.wait()
        self.closed.set()


def closing(client: Client) -> None:
    with closing_soon(cast("Consumer", client)) as held:
        assert held is client
        raise BadData("the batch of records at offset 100 cannot be read")


def test_a_client_that_never_closes_is_left_behind_and_the_error_is_told(monkeypatch):
    monkeypatch.setattr(reading, "CLOSE_SECONDS", 0.1)
    client, begun = Client(), time.monotonic()
    with pytest.raises(BadData, match="at offset 100"):
        closing(client)
    assert 0.1 <= time.monotonic() - begun < 5
    assert not client.closed.is_set()
    client.allowed.set()
    assert client.closed.wait(5)


def test_a_client_that_closes_is_waited_for():
    client = Client()
    client.allowed.set()
    with pytest.raises(BadData, match="at offset 100"):
        closing(client)
    assert client.closed.is_set()
