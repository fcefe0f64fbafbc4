"""Checks the promises independently: plain SQL and a separate consumer. Imports nothing of the product.

Usage: checker.py DSN KAFKA PIPELINE [TABLE [KEY]]. Exits 1 and prints each violation when a promise does not hold.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import psycopg2
from confluent_kafka import TopicPartition

from support.oracles.committed_log import consumer, visible
from support.oracles.contents import Becomes, Look, compare, same_id
from support.oracles.ledger_laws import LEDGER, LEFT_BEHIND, OWNED

Log = Callable[[int, list[tuple[int, int]]], dict[int, tuple]]
Key = str | Callable[[dict[int, dict[int, tuple]], Counter], list[str]] | None

EXAMPLES = {"orders": ("public.orders", "order_id"), "clicks": ("public.clicks", None)}


@dataclass(frozen=True)
class How:
    """The proof that a look must give.

    `becomes` says what each record must become. With None, the look compares coordinates only. `unique` is the column
    of the record's id. `least` is the number of rows and rejects that must be compared. `rest` says that nothing runs
    any more, so nothing may be left behind. `may` holds what the guarantee does not promise: "double" (at least once)
    or "lose" (at most once). Each of the pipeline's `targets` gets the same rows, and a look reads one of them.
    """

    becomes: Becomes | None = same_id
    unique: str | None = None
    least: int = 0
    rest: bool = False
    may: Collection[str] = ()
    targets: int = 1


def check(
    dsn: str, kafka: str | Log, pipeline: str, table: str | None = None, key: Key = None, **how: Any
) -> list[str]:
    """Lists every promise that does not hold, one line each. `how` is that of `look`."""
    return look(dsn, kafka, pipeline, table, key, **how).violations


def look(dsn: str, kafka: str | Log, pipeline: str, table: str | None = None, key: Key = None, **named: Any) -> Look:
    """Compares coordinates and values. `named` are the fields of `How`.

    A table without a key is appended to. Instead of a key, a function may check the rows, given the records that were
    read. `kafka` is a broker's address, or a log in its place: it maps stream and covered ranges to offset -> (key,
    value).
    """
    how = How(**named)
    if table is None:
        table, key = EXAMPLES[pipeline]
    found = Look()
    conn = psycopg2.connect(dsn)
    with conn, conn.cursor() as cur:
        for what, query in (LEDGER | (LEFT_BEHIND if how.rest else {})).items():
            cur.execute(query)
            found.violations += [f"{what}: {row}" for row in cur.fetchall()]
        cur.execute(
            'select stream_id, topic, partition, epoch, start_offset, "position", retired_at is not null '
            "from lockstep.stream where pipeline = %s",
            (pipeline,),
        )
        streams = cur.fetchall()
        read = {}
        for stream_id, topic, partition, _, start, position, _ in streams:
            found.violations += _tiles(cur, stream_id, start, position)
            covered = _covered(cur, stream_id)
            read[stream_id] = (
                visible(kafka, topic, partition, covered) if isinstance(kafka, str) else kafka(stream_id, covered)
            )
            found.violations += _digests(cur, stream_id, read[stream_id])
        rejects = _coordinates(cur, 'select stream_id, "offset" from lockstep.reject')
        rows = _coordinates(cur, f"select _stream, _offset from {table}")
        found.violations += _outside(streams, rows, "row") + _outside(streams, rejects, "reject")
        if key is None:
            _append(read, rows, rejects, found, how.may)
            found.violations += [] if how.may else _rows_per_batch(cur, table, pipeline, how.targets)
        elif callable(key):
            found.add("wrong", key(read, rejects))
        else:
            found.add("wrong", _upsert(cur, table, key, {s[0]: s[3] for s in streams}, read, rejects))
        if how.becomes is not None:
            # A broker has today's log only, which is not the one that a retired stream has read.
            gone = {s[0] for s in streams if s[6]} if isinstance(kafka, str) else set()
            known = {stream: records for stream, records in read.items() if stream not in gone}
            compare(cur, table, known, how.becomes, found, unique=how.unique)
    conn.close()
    found.require(how.least)
    return found


def at_end(dsn: str, kafka: str, pipeline: str) -> list[str]:
    """Names the streams that have not reached the end of their log, as a `read_committed` reader sees it."""
    conn = psycopg2.connect(dsn)
    with conn, conn.cursor() as cur:
        cur.execute(
            'select topic, partition, "position" from lockstep.stream where pipeline = %s and retired_at is null',
            (pipeline,),
        )
        rows = cur.fetchall()
    conn.close()
    reader = consumer(kafka)
    ends = {(t, p): reader.get_watermark_offsets(TopicPartition(t, p), timeout=10)[1] for t, p, _ in rows}
    reader.close()
    return [f"{t}-{p}: position {at}, the log ends at {ends[t, p]}" for t, p, at in rows if at != ends[t, p]]


def _tiles(cur, stream_id: int, start: int, position: int) -> list[str]:
    cur.execute(
        "select greatest(lower(offsets), %(start)s), upper(offsets) from lockstep.coverage"
        " where stream_id = %(stream)s and upper(offsets) > %(start)s order by 1",  # a replay may begin below the start
        {"stream": stream_id, "start": start},
    )
    at, found = start, []
    for low, high in cur.fetchall():
        if low != at:
            found.append(f"stream {stream_id}: coverage goes from {at} to {low}")
        at = high
    return (
        found if at == position else [*found, f"stream {stream_id}: coverage ends at {at}, the position is {position}"]
    )


def _covered(cur, stream_id: int) -> list[tuple[int, int]]:
    cur.execute(
        "select lower(offsets), upper(offsets) from lockstep.coverage where stream_id = %s and kind = 'batch' order by 1",
        (stream_id,),
    )
    return cur.fetchall()


def _digests(cur, stream_id: int, read: dict[int, tuple]) -> list[str]:
    cur.execute(
        f"""select o.batch_id, lower(o.offsets), upper(o.offsets), u.delivered, u.digest_sum, u.digest_squares
            from {OWNED} o join lockstep.result u using (batch_id, token, stream_id) where o.stream_id = %s""",
        (stream_id,),
    )
    found = []
    ordered = sorted(read)
    for batch, low, high, n, total, squares in cur.fetchall():
        distances = [offset - low for offset in ordered if low <= offset < high]
        if (len(distances), sum(distances), sum(d * d for d in distances)) != (n, total, squares):
            found.append(
                f"batch {batch}, stream {stream_id}: recorded {n} records, the log has {len(distances)} (or others)"
            )
    return found


def _coordinates(cur, query: str) -> Counter:
    cur.execute(query)
    return Counter(cur.fetchall())


def _outside(streams: list[tuple], coordinates: Counter, what: str) -> list[str]:
    positions = {stream[0]: stream[5] for stream in streams}
    return [
        f"{what} of stream {stream} offset {offset} is at or past the position {positions[stream]}"
        for stream, offset in coordinates
        if stream in positions and offset >= positions[stream]
    ][:5]


def _append(read: dict[int, dict], rows: Counter, rejects: Counter, look: Look, may: Collection[str]) -> None:
    for stream, records in read.items():
        lost = [o for o in records if (stream, o) not in rows and (stream, o) not in rejects]
        if "lose" not in may:
            look.add("lost", [f"stream {stream}: lost offset {offset} (of {len(lost)} lost)" for offset in lost])
    twice = [c for c, n in rows.items() if n > 1 or c in rejects]
    if "double" not in may:
        look.add("doubled", [f"doubled: {c}" for c in twice])
    look.add("wrong", [f"never in the log: {(s, o)}" for s, o in rows | rejects if s in read and o not in read[s]])


def _rows_per_batch(cur, table: str, pipeline: str, targets: int) -> list[str]:
    """Checks that a batch has as many rows as it recorded for the segments that it owns today.

    A batch that was replayed has none left.
    """
    cur.execute(
        f"""with owned as (
                select o.batch_id, (sum(u.rows) / %(n)s)::bigint as rows
                from {OWNED} o join lockstep.result u using (batch_id, token, stream_id)
                join lockstep.batch b on b.batch_id = o.batch_id where b.pipeline = %(p)s group by 1),
            there as (select _batch as batch_id, count(*) as n from {table} group by 1)
            select batch_id, coalesce(rows, 0), coalesce(n, 0) from owned full join there using (batch_id)
            where coalesce(rows, 0) <> coalesce(n, 0)""",
        {"p": pipeline, "n": targets},
    )
    return [f"batch {batch}: {rows} rows recorded, {n} are there" for batch, rows, n in cur.fetchall()]


def _upsert(cur, table: str, key: str, epochs: dict, read: dict, rejects: Counter) -> list[str]:
    newest: dict[str, tuple] = {}
    places: dict[tuple, set] = defaultdict(set)
    for stream, records in read.items():
        for offset, (raw_key, value) in records.items():
            if (stream, offset) in rejects:
                continue
            name = raw_key.decode() if value is None else str(json.loads(value)[key])
            order = (epochs[stream], offset, stream, value is None)
            newest[name] = max(newest.get(name, order), order)
            places[name, epochs[stream]].add(stream)
    expected = {name: (stream, offset) for name, (_, offset, stream, dead) in newest.items() if not dead}
    cur.execute(f"select {key}::text, _stream, _offset from {table}")
    there: dict[str, list] = defaultdict(list)
    for name, stream, offset in cur.fetchall():
        there[name].append((stream, offset))
    wrong = [n for n in expected.keys() | there.keys() if there.get(n, []) != ([expected[n]] if n in expected else [])]
    unordered = [n for n, (epoch, *_) in newest.items() if len(places[n, epoch]) > 1]
    return [f"key {n}: its newest record is {expected.get(n)}, its rows are {there.get(n)}" for n in sorted(wrong)] + [
        f"key {n}: two partitions of one epoch hold its records, and no order says which is newer" for n in unordered
    ]


if __name__ == "__main__":
    violations = check(*sys.argv[1:6])
    print("\n".join(violations) or "every promise holds")
    sys.exit(bool(violations))
