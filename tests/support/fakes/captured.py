"""Provides a source table of four columns, and the change records that a connector would write of it."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

PLACEHOLDER = "__debezium_unavailable_value"
LARGE = ("doc", "photo")  # the source's log has no value of these that an update leaves as it is
SCHEMA = "id bigint, name string, doc string, photo binary"
FIELDS = {"id": "int64", "name": "string", "doc": "string", "photo": "bytes"}


class CapturedRecord(NamedTuple):
    """A record as a connector sends it, with the place of its change in the source's log. A truncation has no key."""

    key: bytes | None
    value: bytes | None
    lsn: int = 0


@dataclass
class CapturedTable:
    """A table, and everything that its connector has sent. Rows are dicts of name, doc and photo by id.

    With `schemas`, records carry their schemas. With `flat`, they are rows without an envelope. Without `tombstones`, none
    follows a deletion. With `truncates`, a step may empty the table.
    """

    seed: int
    schemas: bool = False
    flat: bool = False
    tombstones: bool = True
    truncates: bool = False
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    sent: list[CapturedRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311 - a seed that can be told is the point
        self._count = 0
        self.lsn = self._committed = 1_000  # where the source's log ends, and its newest commit
        self._changes: list[list[CapturedRecord]] = []
        self._states: dict[bytes, dict[int, tuple[int, dict[str, Any]] | None]] = {}

    def state(self, read: Iterable[CapturedRecord]) -> dict[int, dict[str, Any]]:
        """Returns the rows as of the last changes, by the source's log, that these records tell of."""
        reached: dict[bytes, int] = {}
        emptied = 0
        for record in read:
            if record.key is None:
                emptied = max(emptied, record.lsn)
            else:
                reached[record.key] = max(reached.get(record.key, 0), record.lsn)
        its = {key: self._states[key][lsn] for key, lsn in reached.items() if lsn > emptied}
        return dict(row for row in its.values() if row is not None)

    def snapshot(self) -> None:
        """Sends every row as it is, as an incremental snapshot does."""
        for key, row in sorted(self.rows.items()):
            self._send("r", key, None, row)

    def truncate(self) -> None:
        """Empties the table at once."""
        self.rows = {}
        self._committed, self.lsn = self.lsn, self.lsn + 8
        source = self._source("t")
        payload: dict[str, Any] = {"op": "t", "before": None, "after": None, "source": source}
        if self.flat:
            payload = {"__op": "t"} | {f"__source_{name}": value for name, value in source.items()}
        record = CapturedRecord(None, self._wrapped(payload, []), self.lsn)
        self.sent.append(record)
        self._changes.append([record])

    def step(self) -> list[CapturedRecord]:
        """Does something to the table, or to the connector. Returns the records that are sent of it."""
        begin = len(self.sent)
        for _ in range(self.random.randint(1, 4)):
            acts = [*[self.insert] * 4, *[self.update] * 5, self.delete, self.move]
            self.random.choice(acts)()
        if self.truncates and self.random.random() < 0.12:
            self.truncate()
        if self.random.random() < 0.15:
            self.snapshot()
        if self.random.random() < 0.3:
            self.restart()
        return self.sent[begin:]

    def insert(self) -> None:
        key = self.random.randint(1, 6)
        if key not in self.rows:
            self.rows[key] = self._row()
            self._send("c", key, None, self.rows[key])

    def update(self) -> None:
        """Changes a row. Of the large columns, those that stay as they are become placeholders."""
        if not self.rows:
            return
        key = self.random.choice(sorted(self.rows))
        before, after = dict(self.rows[key]), self._row()
        unchanged = [name for name in LARGE if before[name] is not None and self.random.random() < 0.6]
        for name in unchanged:
            after[name] = before[name]
        self.rows[key] = after
        self._send("u", key, None, after, unavailable=unchanged)

    def delete(self) -> None:
        if self.rows:
            key = self.random.choice(sorted(self.rows))
            self._gone(key, self.rows.pop(key))

    def move(self) -> None:
        """Changes a row's key: a deletion of the old one, an insertion of the new one."""
        free = [key for key in range(1, 7) if key not in self.rows]
        if self.rows and free:
            key, other = self.random.choice(sorted(self.rows)), self.random.choice(free)
            row = self.rows.pop(key)
            self._gone(key, row)
            self.rows[other] = row
            self._send("c", other, None, row)

    def restart(self) -> None:
        """Sends the newest changes again, as a connector that has lost its place. A tombstone comes with its deletion."""
        for records in self._changes[-self.random.randint(1, 5) :]:
            self.sent += records

    def _row(self) -> dict[str, Any]:
        self._count += 1
        photo = None if self.random.random() < 0.3 else bytes([self._count % 256, 255])
        return {"name": f"n{self._count}", "doc": f"doc {self._count}", "photo": photo}

    def _gone(self, key: int, row: dict[str, Any]) -> None:
        self._send("d", key, row, None)
        if self.tombstones:
            self._changes[-1].append(CapturedRecord(self._key(key), None, self.lsn))
            self.sent.append(self._changes[-1][-1])

    def _send(
        self,
        op: str,
        key: int,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
        unavailable: list[str] = [],  # noqa: B006 - nobody writes to it
    ) -> None:
        sides = {
            side: None if row is None else self._written(key, row, unavailable if side == "after" else [])
            for side, row in (("before", before), ("after", after))
        }
        fields = [{"field": name, "type": type_, "optional": True} for name, type_ in FIELDS.items()]
        if op != "r":
            self._committed, self.lsn = self.lsn, self.lsn + self.random.randint(1, 9)
        self._states.setdefault(self._key(key), {})[self.lsn] = None if after is None else (key, dict(after))
        source = self._source(op)
        payload: dict[str, Any] = sides | {"op": op, "source": source, "ts_ms": 1}
        if self.flat:
            payload = (sides["after"] or sides["before"] or {}) | {"__deleted": "true" if op == "d" else "false"}
            payload |= {f"__source_{name}": value for name, value in source.items()}
        else:
            fields = [{"field": side, "type": "struct", "fields": fields} for side in ("before", "after")]
        record = CapturedRecord(self._key(key), self._wrapped(payload, fields), self.lsn)
        self.sent.append(record)
        if op != "r":
            self._changes.append([record])

    def _source(self, op: str) -> dict[str, Any]:
        """Returns the source's description of itself, as its connector for Postgres writes it."""
        snapshot = "incremental" if op == "r" else "false"
        sequence = json.dumps([str(self._committed), str(self.lsn)])
        return {
            "connector": "postgresql",
            "lsn": self.lsn,
            "sequence": sequence,
            "snapshot": snapshot,
            "ts_ms": self.lsn,
        }

    def _key(self, key: int) -> bytes:
        return self._wrapped({"id": key}, [{"field": "id", "type": "int64"}])

    def _written(self, key: int, row: dict[str, Any], unavailable: list[str]) -> dict[str, Any]:
        written = {"id": key} | row
        for name in unavailable:
            written[name] = PLACEHOLDER.encode() if FIELDS[name] == "bytes" else PLACEHOLDER
        return {
            name: b64encode(value).decode() if isinstance(value, bytes) else value for name, value in written.items()
        }

    def _wrapped(self, payload: dict[str, Any], fields: list[dict[str, Any]]) -> bytes:
        document = {"schema": {"type": "struct", "fields": fields}, "payload": payload} if self.schemas else payload
        return json.dumps(document).encode()
