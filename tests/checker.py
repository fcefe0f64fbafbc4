"""The independent checker: plain SQL and a consumer of its own; it imports nothing of the product.

Usage: checker.py DSN KAFKA PIPELINE [TABLE [KEY]]; exits 1 and prints each violation when a promise does not hold.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable

import psycopg2
from confluent_kafka import Consumer, TopicPartition

Log = Callable[[int, list[tuple[int, int]]], dict[int, tuple]]
Key = str | Callable[[dict[int, dict[int, tuple]], Counter], list[str]] | None

EXAMPLES = {"orders": ("public.orders", "order_id"), "clicks": ("public.clicks", None)}
# Who owns what: the newest commit over an offset; coverage that was merged below log start names one batch of many.
OWNED = """(select c.batch_id, c.stream_id, c.token, r.offsets
    from lockstep.commit c join lockstep.batch_range r using (batch_id, stream_id) where not exists (
        select 1 from lockstep.commit d join lockstep.batch_range n using (batch_id, stream_id)
        where d.stream_id = c.stream_id and d.token > c.token and n.offsets && r.offsets))"""
LEDGER = {
    "a batch was committed by two attempts": """
        select c.batch_id from lockstep.commit c join lockstep.attempt using (batch_id, token) where unit = 'batch'
        group by 1 having count(distinct c.token) > 1""",
    "a batch was committed by an attempt that was not its newest": """
        select c.batch_id, c.token from lockstep.commit c join lockstep.attempt n using (batch_id, token)
        where exists (select 1 from lockstep.attempt a where a.batch_id = c.batch_id and a.token > c.token
            and (n.unit = 'batch' or a.opened_at < c.at))""",
    "an attempt was opened after its batch was closed": """
        select a.batch_id, a.token from lockstep.attempt a join lockstep.batch b using (batch_id)
        where b.closed_at < a.opened_at""",
    "a committed batch lacks a commit row": """
        select r.batch_id, r.stream_id from lockstep.batch b join lockstep.batch_range r using (batch_id)
        left join lockstep.commit c using (batch_id, stream_id) where b.state = 'committed' and c.token is null""",
    "a batch that is not committed has a commit row": """
        select c.batch_id from lockstep.commit c join lockstep.attempt a using (batch_id, token)
        join lockstep.batch b on b.batch_id = c.batch_id where b.state <> 'committed' and a.unit = 'batch'""",
    "a closed batch still claims offsets": """
        select k.batch_id from lockstep.claim k join lockstep.batch b using (batch_id) where b.state <> 'planned'""",
    "counts do not reconcile": """
        select batch_id, stream_id from lockstep.result where delivered <> written + filtered + rejected""",
    "what batches cover is not what they were planned to read and have committed": f"""
        select * from (select stream_id, range_agg(offsets) as offsets from lockstep.coverage where kind = 'batch' group by 1) c
        full join (select stream_id, range_agg(offsets) as offsets from {OWNED} x group by 1) o using (stream_id)
        where c.offsets is distinct from o.offsets""",
    "coverage names a batch that owns nothing in it": f"""
        select * from lockstep.coverage v left join {OWNED} o using (batch_id, stream_id)
        where v.kind = 'batch' and not coalesce(o.offsets <@ v.offsets, false)""",
}
LEFT_BEHIND = {
    "a staging table is left": "select tablename from pg_tables where schemaname = 'lockstep_staging'",
    "a prepared transaction is left": "select gid from pg_prepared_xacts where database = current_database()",
    "a session is idle in a transaction": """
        select pid from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'""",
}


def check(
    dsn: str, kafka: str | Log, pipeline: str, table: str | None = None, key: Key = None, *, rest: bool = False
) -> list[str]:
    """Every promise that does not hold, one line each; `rest`: nothing runs any more, so nothing may be left behind.

    A table without a key is appended to; a function in the key's place is asked about the rows, given what was read.
    `kafka` is a broker's address, or a log that is asked in its place: stream and covered ranges to offset -> (key, value).
    """
    if table is None:
        table, key = EXAMPLES[pipeline]
    found = []
    conn = psycopg2.connect(dsn)
    with conn, conn.cursor() as cur:
        for what, query in (LEDGER | (LEFT_BEHIND if rest else {})).items():
            cur.execute(query)
            found += [f"{what}: {row}" for row in cur.fetchall()]
        cur.execute(
            'select stream_id, topic, partition, epoch, start_offset, "position" from lockstep.stream where pipeline = %s',
            (pipeline,),
        )
        streams = cur.fetchall()
        read = {}
        for stream_id, topic, partition, _, start, position in streams:
            found += _tiles(cur, stream_id, start, position)
            covered = _covered(cur, stream_id)
            read[stream_id] = (
                _visible(kafka, topic, partition, covered) if isinstance(kafka, str) else kafka(stream_id, covered)
            )
            found += _digests(cur, stream_id, read[stream_id])
        rejects = _coordinates(cur, 'select stream_id, "offset" from lockstep.reject')
        rows = _coordinates(cur, f"select _stream, _offset from {table}")
        found += _outside(streams, rows, "row") + _outside(streams, rejects, "reject")
        if key is None:
            found += _append(read, rows, rejects) + _rows_per_batch(cur, table, pipeline)
        elif callable(key):
            found += key(read, rejects)
        else:
            found += _upsert(cur, table, key, {s[0]: s[3] for s in streams}, read, rejects)
    conn.close()
    return found


def at_end(dsn: str, kafka: str, pipeline: str) -> list[str]:
    """Streams that have not come to the end of their log, as a `read_committed` reader sees it."""
    conn = psycopg2.connect(dsn)
    with conn, conn.cursor() as cur:
        cur.execute(
            'select topic, partition, "position" from lockstep.stream where pipeline = %s and retired_at is null',
            (pipeline,),
        )
        rows = cur.fetchall()
    conn.close()
    consumer = _consumer(kafka)
    ends = {(t, p): consumer.get_watermark_offsets(TopicPartition(t, p), timeout=10)[1] for t, p, _ in rows}
    consumer.close()
    return [f"{t}-{p}: position {at}, the log ends at {ends[t, p]}" for t, p, at in rows if at != ends[t, p]]


def _tiles(cur, stream_id: int, start: int, position: int) -> list[str]:
    cur.execute(
        "select lower(offsets), upper(offsets) from lockstep.coverage where stream_id = %s and upper(offsets) > %s order by 1",
        (stream_id, start),
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


def _visible(kafka: str, topic: str, partition: int, covered: list[tuple[int, int]]) -> dict[int, tuple]:
    """offset -> (key, value) of every visible record in the covered ranges; stops by position, never by an empty poll."""
    records: dict[int, tuple] = {}
    if not covered:
        return records
    consumer = _consumer(kafka)
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
    begin, end = max(low, covered[0][0]), min(high, covered[-1][1])
    where = TopicPartition(topic, partition, begin)
    consumer.assign([where])
    done = begin >= end
    while not done:
        for message in consumer.consume(10_000, timeout=0.1):
            if message.error():
                done = True  # the end of the partition
            elif message.offset() < end:
                records[message.offset()] = (message.key(), message.value())
            else:
                done = True
        at = consumer.position([where])[0].offset
        done = done or at >= end
    consumer.close()
    return {o: r for o, r in records.items() if any(a <= o < b for a, b in covered)} if len(covered) < 50 else records


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


def _append(read: dict[int, dict], rows: Counter, rejects: Counter) -> list[str]:
    found = []
    for stream, records in read.items():
        lost = [o for o in records if (stream, o) not in rows and (stream, o) not in rejects]
        found += [f"stream {stream}: lost offset {offset} (of {len(lost)} lost)" for offset in lost[:1]]
    twice = [c for c, n in rows.items() if n > 1 or c in rejects]
    strange = [(s, o) for s, o in rows | rejects if s in read and o not in read[s]]
    return found + [f"doubled: {c}" for c in twice[:5]] + [f"never in the log: {c}" for c in strange[:5]]


def _rows_per_batch(cur, table: str, pipeline: str) -> list[str]:
    """A batch has as many rows as it recorded for the segments it owns today; one that was replayed has none left."""
    cur.execute(
        f"""with owned as (
                select o.batch_id, sum(u.rows) as rows from {OWNED} o join lockstep.result u using (batch_id, token, stream_id)
                join lockstep.batch b on b.batch_id = o.batch_id where b.pipeline = %(p)s group by 1),
            there as (select _batch as batch_id, count(*) as n from {table} group by 1)
            select batch_id, coalesce(rows, 0), coalesce(n, 0) from owned full join there using (batch_id)
            where coalesce(rows, 0) <> coalesce(n, 0)""",
        {"p": pipeline},
    )
    return [f"batch {batch}: {rows} rows recorded, {n} are there" for batch, rows, n in cur.fetchall()]


def _upsert(cur, table: str, key: str, epochs: dict, read: dict, rejects: Counter) -> list[str]:
    newest: dict[str, tuple] = {}
    for stream, records in read.items():
        for offset, (raw_key, value) in records.items():
            if (stream, offset) in rejects:
                continue
            name = raw_key.decode() if value is None else str(json.loads(value)[key])
            order = (epochs[stream], offset, stream, value is None)
            newest[name] = max(newest.get(name, order), order)
    expected = {name: (stream, offset) for name, (_, offset, stream, dead) in newest.items() if not dead}
    cur.execute(f"select {key}::text, _stream, _offset from {table}")
    there: dict[str, list] = defaultdict(list)
    for name, stream, offset in cur.fetchall():
        there[name].append((stream, offset))
    wrong = [n for n in expected.keys() | there.keys() if there.get(n, []) != ([expected[n]] if n in expected else [])]
    return [f"key {n}: its newest record is {expected.get(n)}, its rows are {there.get(n)}" for n in sorted(wrong)[:5]]


def _consumer(kafka: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "checker",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
        }
    )


if __name__ == "__main__":
    violations = check(*sys.argv[1:6])
    print("\n".join(violations) or "every promise holds")
    sys.exit(bool(violations))
