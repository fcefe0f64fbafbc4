"""Tests how a change's place in the source's log becomes bytes that sort as the log does."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from lockstep import Debezium
from lockstep.core.records import SOURCE_ORDER
from lockstep.formats.debezium.decoder import ChangeDecoder
from lockstep.formats.debezium.source_order import source_order

KEY = b'{"id": 1}'
LOGS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "postgres": [
        ("r", {"lsn": 100, "sequence": '[null,"100"]', "snapshot": "true", "ts_ms": 9}),
        ("c", {"lsn": 100, "sequence": '["90","100"]', "snapshot": "false", "ts_ms": 5}),
        ("u", {"lsn": 256, "sequence": '["120","256"]', "ts_ms": 6}),
        ("u", {"lsn": 240, "sequence": '["300","240"]', "ts_ms": 6}),  # of a transaction that committed later
        ("d", {"lsn": 310, "ts_ms": 7}),
    ],
    "mysql": [
        ("r", {"file": "mysql-bin.000009", "pos": 154, "row": 0, "snapshot": "last", "ts_ms": 9_000}),
        ("c", {"file": "mysql-bin.000009", "pos": 154, "row": 0, "snapshot": "false", "ts_ms": 5_000}),
        ("c", {"file": "mysql-bin.000009", "pos": 154, "row": 1, "ts_ms": 5_000}),
        ("u", {"file": "mysql-bin.000009", "pos": 1_154, "row": 0, "ts_ms": 6_000}),
        ("d", {"file": "mysql-bin.000010", "pos": 4, "row": 0, "ts_ms": 6_000}),
        ("c", {"file": "mysql-bin.1000000", "pos": 4, "row": 0, "ts_ms": 6_000}),
    ],
    "oracle": [
        ("r", {"scn": "2000", "snapshot": "true", "ts_ms": 9}),
        ("u", {"scn": "1990", "commit_scn": "2000", "ts_ms": 5}),
        ("u", {"scn": "1995", "commit_scn": "2000", "ts_ms": 5}),
        ("u", {"scn": "1980", "commit_scn": "10001", "ts_ms": 6}),
    ],
    "sqlserver": [
        ("r", {"commit_lsn": "00000027:00000758:0005", "change_lsn": None, "snapshot": "true", "ts_ms": 9}),
        ("c", {"commit_lsn": "00000027:00000758:0005", "change_lsn": "00000027:00000758:0003", "event_serial_no": 1}),
        ("u", {"commit_lsn": "00000027:00000758:0005", "change_lsn": "00000027:00000758:0003", "event_serial_no": 2}),
        ("u", {"commit_lsn": "00000027:00000ac0:0002", "change_lsn": "00000027:00000758:0001", "event_serial_no": 1}),
    ],
}


@pytest.mark.parametrize("log", LOGS)
def test_later_changes_have_later_bytes(log):
    orders = [source_order(source, operation) for operation, source in LOGS[log]]
    assert all(earlier < later for earlier, later in pairwise(orders)), [each.hex() for each in orders]
    assert len({*map(len, orders)}) == 1


NONE = "source: names no place in its log: neither lsn, file and pos, scn, nor commit_lsn, and ts_ms alone is no order"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"ts_ms": 5}, NONE),
        ({}, NONE),
        (None, NONE),
        ({"lsn": "x"}, "source.lsn: is no place in a log"),
        ({"lsn": -1}, "source.lsn: is no place in a log"),
        ({"lsn": True}, "source.lsn: is no place in a log"),
        ({"lsn": 1 << 64}, "source.lsn: is no place in a log"),
        ({"lsn": 5, "sequence": "5"}, "source.sequence: is no list of places"),
        ({"lsn": 5, "sequence": '"12"'}, "source.sequence: is no list of places"),
        ({"lsn": 5, "sequence": '{"7": 1}'}, "source.sequence: is no list of places"),
        ({"lsn": 5, "sequence": "[]"}, "source.sequence: is no list of places"),
        ({"lsn": 5, "sequence": "[" * 100_000}, "source.sequence: is no list of places"),
        ({"lsn": 5, "sequence": '["x"]'}, "source.sequence: is no place in a log"),
        ({"lsn": 5, "ts_ms": "soon"}, "source.ts_ms: is no place in a log"),
        ({"file": "binlog", "pos": 5}, "source.file: is no binlog with a number"),
        ({"file": "binlog.1"}, "source.pos: is no place in a log"),
        ({"scn": "5", "commit_scn": []}, "source.commit_scn: is no place in a log"),
        ({"commit_lsn": "5"}, "source.commit_lsn: is no place in a log"),
    ],
)
@pytest.mark.parametrize("operation", ["u", "d"])
def test_a_change_without_a_place_is_a_reject(source, reason, operation):
    judge = ChangeDecoder("shop", Debezium("id bigint, name string", order="source"))
    value = {"op": operation, "before": {"id": 1}, "after": {"id": 1, "name": "a"}, "source": source}
    assert judge(KEY, json.dumps(value).encode(), None).reason == reason


def change(operation: str, lsn: int) -> bytes:
    return json.dumps({"op": operation, "after": {"id": 1, "name": "a"}, "source": {"lsn": lsn}}).encode()


def test_a_tombstone_has_the_order_of_the_deletion_before_it_and_of_no_other():
    judge = ChangeDecoder("shop", Debezium("id bigint, name string", order="source"))
    deleted = judge(KEY, change("d", 7), None)
    assert deleted.values == judge(KEY, None, None).values == {"id": 1, SOURCE_ORDER: source_order({"lsn": 7}, "d")}
    assert judge(b'{"id": 2}', None, None).values == {"id": 2}
    judge(KEY, change("c", 8), None)
    assert judge(KEY, None, None).values == {"id": 1}


def test_the_topics_order_needs_no_place():
    judge = ChangeDecoder("shop", Debezium("id bigint, name string"))
    assert judge(KEY, b'{"op": "u", "after": {"id": 1}, "source": {}}', None).values == {"id": 1, "name": None}
