"""Reads a feed as Kafka's records: key, JSON or Avro value, and headers that say which change it is (E19)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from psycopg2 import sql

from lockstep.core.errors import BadData
from lockstep.core.feed.avro import TableColumn
from lockstep.core.feed.feeds import SCHEMA, feed_name
from lockstep.core.feed.relaying import NUMBER_HEADER, FeedRecord
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, one

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence

    from psycopg2.extensions import cursor
    from psycopg2.sql import Composable

Q = queries("lockstep.ledger.feed", "outgoing")
ROWS_AT_ONCE = 1_000  # a row may have megabytes
OF_THE_LEDGER = ("_stream", "_offset", "_ordinal", "_batch")
# How a value of this type is a JSON value that every reader understands. All others are as Postgres writes them.
TEXT_OF = {
    "timestamptz": "case when isfinite({0}) then to_char({0} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
    " else {0}::text end",
    "bytea": "translate(encode({0}, 'base64'), E'\\n', '')",
}
# The same in a record's key: a table takes -0 and 0 as one key, so both have one text.
KEY_TEXT_OF = TEXT_OF | {"float4": "({0} + 0::float4)", "float8": "({0} + 0::float8)"}
# How a value of this type is a text that an encoder reads. All others are as Postgres writes them.
TYPED_TEXT_OF = {
    "timestamptz": "case when isfinite({0}) then (extract(epoch from {0}) * 1000000)::bigint::text else {0}::text end",
    "date": "case when isfinite({0}) then ({0} - date '1970-01-01')::text else {0}::text end",
    "bytea": "encode({0}, 'hex')",
}


def _header(name: str, value: object) -> tuple[str, bytes]:
    return f"lockstep.{name}", b"" if value is None else str(value).encode()


_OPS = {op: _header("op", op) for op in ("insert", "update", "delete")}
_SOURCE = "lockstep.source"
_LAST = {True: _header("last", "true"), False: _header("last", "false")}


class ValueEncoder(Protocol):
    """Makes values of another form than JSON, from the texts of the columns."""

    def row(self, number: int, texts: Sequence[str | None]) -> dict[str, Any]:
        """Returns a row by column."""

    def encoded(self, value: Mapping[str, Any]) -> bytes:
        """Returns a value's bytes."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A feed as the records of its topic, in the order of their numbers. Without an `encoder`, values are JSON."""

    target: str
    shape: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    written: tuple[TableColumn, ...] = ()
    encoder: ValueEncoder | None = None

    @classmethod
    def of(cls, cur: cursor, target: str, shape: str, key: tuple[str, ...]) -> Outgoing:
        """Returns the feed with the columns that its images have now."""
        cur.execute(Q["columns"], {"images": f"{SCHEMA}.{feed_name(target)}"})
        found = every(cur)
        written = tuple(TableColumn(row.name, row.written) for row in found if row.name not in OF_THE_LEDGER)
        return cls(target, shape, tuple((row.name, row.type) for row in found), key, written)

    def end_of_portion(self, cur: cursor, begin: int, most: int) -> int:
        """Returns the end of the whole change sets from a number on that have at most so many changes.

        A set that alone has more goes in parts. Returns `begin` if there is no change.
        """
        cur.execute(Q["end_of_portion"], {"target": self.target, "begin": begin, "most": most})
        return int(one(cur).until)

    def records(self, cur: cursor, begin: int, until: int) -> Generator[FeedRecord, None, None]:
        """Yields the records of the changes in [begin, until), without erased ones.

        A tombstone may follow the document of a deletion.
        """
        with cur.connection.cursor(name="outgoing") as portion:
            cur.execute("set local enable_bitmapscan = off")  # an image's index has the order of the changes
            portion.execute(self._query(), {"target": self.target, "begin": begin, "until": until})
            with closing(self._in_order(portion)) as rows:  # before the cursor is, also behind a row that is refused
                yield from self._made(rows)

    def number_of_erased(self, cur: cursor, begin: int, until: int) -> int:
        """Returns how many of the changes in [begin, until) an erasure has made blank."""
        images = table_name(f"{SCHEMA}.{feed_name(self.target)}")
        cur.execute(sql.SQL(Q["erased"]).format(images=images), {"target": self.target, "begin": begin, "until": until})
        return int(one(cur).erased)

    def _in_order(self, portion: Any) -> Generator[Any, None, None]:
        """Yields rows while the database computes the next ones. Raises `BadData` for a change behind a later one."""
        last = -1
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(portion.fetchmany, ROWS_AT_ONCE)
            while rows := coming.result():
                coming = ahead.submit(portion.fetchmany, ROWS_AT_ONCE)
                for row in rows:
                    if row.number <= last:
                        why = f"{self.target}: change {row.number} was read behind change {last}"
                        raise BadData(why, next_command="lockstep doctor")
                    last = row.number
                    yield row

    def _made(self, rows: Iterable[Any]) -> Generator[FeedRecord, None, None]:
        for (seq, timeline, kind, batch), of_set in groupby(rows, attrgetter("seq", "timeline", "kind", "batch_id")):
            its_seq, its_line = _header("seq", seq), _header("timeline", timeline)
            its_kind, its_batch = _header("kind", kind), _header("batch", batch)
            for row in of_set:
                source = b"" if row.topic is None else f"{row.topic}-{row.partition}:{row.offset}".encode()
                place = (NUMBER_HEADER, b"%d" % row.number), its_seq, its_line, _OPS[row.op]
                headers = [*place, its_kind, its_batch, (_SOURCE, source), _LAST[row.is_last]]
                key = None if row.key is None else row.key.encode()
                value = self._typed(row) if self.encoder else None if row.value is None else row.value.encode()
                yield FeedRecord(row.number, seq, key, value, headers, row.at_ms)
                if self.shape == "change" and row.op == "delete":
                    yield FeedRecord(row.number, seq, key, None, headers, row.at_ms)

    def _typed(self, row: Any) -> bytes | None:
        """Returns a change's value in the encoder's form."""
        if self.encoder is None or (self.shape == "row" and row.after is None):
            return None
        before, after = (
            None if texts is None else self.encoder.row(row.number, texts) for texts in (row.before, row.after)
        )
        if self.shape == "row":
            return self.encoder.encoded(after or {})
        source = {
            "target": self.target,
            "number": row.number,
            "seq": row.seq,
            "kind": row.kind,
            "batch": row.batch_id,
            "topic": row.topic,
            "partition": row.partition,
            "offset": row.offset,
            "at": row.at_us,
        }
        return self.encoder.encoded({"op": row.op, "before": before, "after": after, "source": source})

    def _query(self) -> Composable:
        images = table_name(f"{SCHEMA}.{feed_name(self.target)}")
        source, sets = self._source(), sql.SQL(Q["sets"]).format(images=images)
        parts: dict[str, Composable] = {
            "changes": sql.SQL(Q["changes"]).format(images=images, sets=sets, stream=source["stream"]),
            "before_image": sql.SQL(Q["before_image"]).format(images=images),
            "offset": source["offset"],
            "key": self._key(),
        }
        if self.encoder:
            before = sql.SQL("null::text[]") if self.shape == "row" else self._texts("b")
            return sql.SQL(Q["typed"]).format(**parts, value=self._texts("i"), before=before)
        query = Q["rows" if self.shape == "row" else "documents"]
        return sql.SQL(query).format(**parts, value=self._row("i"), before=self._row("b"))

    def _key(self) -> Composable:
        if not self.key:
            return sql.SQL("null::text")
        values = [
            _value("i", name, kind, KEY_TEXT_OF) for each in self.key for name, kind in self.columns if name == each
        ]
        if len(values) == 1:
            return sql.SQL("({})::text").format(values[0])
        return sql.SQL("json_build_array({})::text").format(sql.SQL(", ").join(values))

    def _row(self, image: str) -> Composable:
        """Returns the row as JSON, without the ledger's own columns."""
        values = [
            sql.SQL("{} as {}").format(_value(image, name, kind), sql.Identifier(name))
            for name, kind in self.columns
            if name not in OF_THE_LEDGER
        ]
        return sql.SQL("(select row_to_json(p.*) from (select {}) p)").format(sql.SQL(", ").join(values))

    def _texts(self, image: str) -> Composable:
        """Returns the row as an array of texts, without the ledger's own columns."""
        values = [
            sql.SQL("({})::text").format(_value(image, name, kind, TYPED_TEXT_OF))
            for name, kind in self.columns
            if name not in OF_THE_LEDGER
        ]
        return sql.SQL("array[{}]::text[]").format(sql.SQL(", ").join(values))

    def _source(self) -> dict[str, Composable]:
        """Returns the record that made a row. Totals are made by several."""
        names = {name for name, _ in self.columns}
        is_known = {"_stream", "_offset"} <= names
        return {
            "stream": sql.SQL("i._stream" if is_known else "null"),
            "offset": sql.SQL("i._offset" if is_known else "null::bigint"),
        }


def _value(image: str, name: str, kind: str, text_of: Mapping[str, str] = TEXT_OF) -> Composable:
    column = sql.Identifier(image, name)
    return sql.SQL(text_of[kind]).format(column) if kind in text_of else column
