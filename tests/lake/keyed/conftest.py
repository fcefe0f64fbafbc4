"""Provides pipelines that upsert into the lake and into the database, so that both can be compared."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import pytest

from lake.conftest import InLake
from support.scenes.here import NEWEST

# The extra `lake` is installed with the locks. Without it, these tests are left out.
collect_ignore_glob = [] if find_spec("pyiceberg") else ["test_*.py"]

BOTH = """
from lockstep import Append, Iceberg, Json, Limits, Pipeline, Upsert
P = Pipeline(
    name="drill", topic="{topic}", format=Json("id string, n int", key="id"), limits=Limits(records=40),
    target=(Upsert(Iceberg("sales.drill"), key=("id",)), Upsert("public.newest", key=("id",))),
)
"""
KEYS = 23  # of so many records in a row each has another key


class InKeyed(InLake):
    """The drill into two tables with one row per key, one of the lake and one of the database."""

    def produce(self, count: int) -> None:
        """Sends records of a few keys. Each seventh deletes its key."""
        numbers = range(self._sent, self._sent + count)
        self._send(self.drill.topic, [self.record(number) for number in numbers])
        self._sent += count

    def put(self, *records: tuple[str, int | None]) -> None:
        """Sends values of keys. None deletes the key."""
        sent = [(key, None if n is None else json.dumps({"id": key, "n": n})) for key, n in records]
        self._send(self.drill.topic, sent)

    @staticmethod
    def record(number: int) -> tuple[str, str | None]:
        key = f"r{number % KEYS}"
        return key, None if number % 7 == 3 else json.dumps({"id": key, "n": number})

    def in_database(self) -> list[tuple[Any, ...]]:
        return self.drill.ask("select _stream, _offset, _ordinal, _batch, id, n from public.newest order by 1, 2, 3")

    def by_key(self) -> dict[str, int]:
        return {row[4]: row[5] for row in self.rows()}


@pytest.fixture
def keyed(made_lake):
    """Yields the drill with 60 records over two partitions, and its tables made."""
    return made_lake(InKeyed, BOTH, NEWEST)
