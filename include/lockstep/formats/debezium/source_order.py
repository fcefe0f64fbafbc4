"""Reads a change's place in the source's log, as bytes that sort as the log does.

A place names the commit first, then the change within it, and at last the source's time. A record of a snapshot stands
before the streamed changes of its own place. It has no time.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

NUMBER_BYTES = 8
MOST_PLACE_DIGITS = 20  # of a number that eight bytes hold
STREAMED, SNAPSHOT = b"\x01", b"\x00"
NO_SNAPSHOT = (None, False, "false")
_BINLOG = re.compile(r".*\.([0-9]{1,18})\Z", re.ASCII | re.DOTALL)
_SERVER_LSN = re.compile(r"([0-9a-f]{8}):([0-9a-f]{8}):([0-9a-f]{4})\Z", re.ASCII | re.IGNORECASE)
NO_PLACE = (
    "source: names no place in its log: neither lsn, file and pos, scn, nor commit_lsn, and ts_ms alone is no order"
)


def source_order(source: Mapping[str, Any], operation: str) -> bytes:
    """Returns the place of a change. Raises `ValueError` with the reason if its source names none."""
    is_snapshot = operation == "r" or source.get("snapshot") not in NO_SNAPSHOT
    kind, commit, change = _place(source)
    stamp = source.get("ts_ms")
    time = 0 if is_snapshot or stamp is None else _number(stamp, "ts_ms")
    return b"".join((kind, commit, SNAPSHOT if is_snapshot else STREAMED, change, _bytes(time)))


def orders_of_postgres(lsn: np.ndarray, before: np.ndarray, time: np.ndarray, snapshots: np.ndarray) -> pa.Array:
    """Returns the places of many changes of Postgres.

    They come from `lsn`, the commit `before` each and its `time`, as `uint64`, 0 where there is none. `snapshots` are flags.
    """
    rows = len(lsn)
    kind, streamed = np.full((rows, 1), ord("P"), np.uint8), np.where(snapshots, SNAPSHOT[0], STREAMED[0])
    numbers = [np.maximum(lsn, before), lsn, np.where(snapshots, np.uint64(0), time)]
    commit, change, stamp = (each.astype(">u8").view(np.uint8).reshape(rows, NUMBER_BYTES) for each in numbers)
    octets = np.concatenate([kind, commit, streamed.astype(np.uint8)[:, None], change, stamp], axis=1)
    offsets = np.arange(rows + 1, dtype=np.int32) * octets.shape[1]
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(octets)])


def _place(source: Mapping[str, Any]) -> tuple[bytes, bytes, bytes]:
    """Returns the source's kind, the place of the commit, and that of the change within it."""
    if source.get("lsn") is not None:
        lsn = _number(source["lsn"], "lsn")
        return b"P", _bytes(max(lsn, _commit_before(source.get("sequence")))), _bytes(lsn)
    if source.get("file") is not None:
        found = _BINLOG.match(source["file"]) if isinstance(source["file"], str) else None
        if found is None:
            raise ValueError("source.file: is no binlog with a number")
        commit = _bytes(int(found[1])) + _bytes(_number(source.get("pos"), "pos"))
        return b"M", commit, _bytes(_number(source.get("row") or 0, "row"))
    if source.get("scn") is not None:
        scn, committed = _number(source["scn"], "scn"), source.get("commit_scn")
        return b"O", _bytes(scn if committed is None else _number(committed, "commit_scn")), _bytes(scn)
    if source.get("commit_lsn") is not None:
        change = source.get("change_lsn")
        serial = _bytes(_number(source.get("event_serial_no") or 0, "event_serial_no"))
        return b"S", _server_lsn(source["commit_lsn"], "commit_lsn"), _server_lsn(change, "change_lsn") + serial
    raise ValueError(NO_PLACE)


def _commit_before(sequence: Any) -> int:
    """Returns the end of the commit before this change's, or 0 if none is named.

    A change of a long transaction lies in the log before commits that it comes behind.
    """
    if sequence is None:
        return 0
    try:
        places = json.loads(sequence)
    except (TypeError, ValueError, RecursionError):
        places = None
    if not isinstance(places, list) or not places:
        raise ValueError("source.sequence: is no list of places")
    before = places[0]
    return 0 if before is None else _number(before, "sequence")


def _number(given: Any, name: str) -> int:
    """Returns a whole number, also one in digits. Raises `ValueError` if it is none that eight bytes hold."""
    if isinstance(given, str) and given.isascii() and given.isdigit() and len(given) <= MOST_PLACE_DIGITS:
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given < 1 << 64:
        raise ValueError(f"source.{name}: is no place in a log")
    return given


def _server_lsn(given: Any, name: str) -> bytes:
    """Returns SQL Server's place, `00000027:00000ac0:0002`. Records of a snapshot have none within the commit."""
    if given in (None, "NULL"):
        return bytes(10)
    found = _SERVER_LSN.match(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError(f"source.{name}: is no place in a log")
    return bytes.fromhex("".join(found.groups()))


def _bytes(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big")
