"""Makes the common records and the common table, and compares the results row by row."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg2
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from peers.contender import APPEND, KEYED_LIMIT, UPSERT

if TYPE_CHECKING:
    from peers.contender import Place, Task

SCHEMA = (
    "id string, seq bigint, part int, customer string, amount decimal(12,2), quantity int, "
    "paid boolean, placed_at timestamp"
)
NAMES = tuple(column.split()[0] for column in SCHEMA.split(", "))
ROWS = "_rows"  # ends the name of a table with a view before it
ORIGIN = ("_stream", "_offset")  # a peer's partition and offset
ORIGIN_DDL = "_stream int4 not null, _offset int8 not null"
DDL = """id text not null, seq bigint not null, part integer not null, customer text not null, amount numeric(12,2) not null,
    quantity integer not null, paid boolean not null, placed_at timestamptz not null"""
TARGET = "create table public.{table} ({ddl}, {origin}, _ordinal int4 not null, _batch int8 not null{key})"
BY_BATCH, VIEWED = ("table", "by batch"), ("table", "behind a view")
AT_LEAST_ONCE = ("guarantee", "AtLeastOnce")
PEERS_DEFAULTS = "alter table public.{table} alter _ordinal set default 0, alter _batch set default 0"
VALUE = (
    '{"id":"order-%010d","seq":%d,"part":%d,"customer":"customer-%06d","amount":%d.%02d,"quantity":%d,"paid":%s,'
    '"placed_at":"2026-05-01T%02d:%02d:%02dZ"}'
)
# The same once more, by another hand: every tenth record of a partition is a change of an earlier one.
PRODUCED = """create table produced."{topic}" as
select 'order-' || lpad((case when i % 10 = 9 then i / 20 * 10 * {partitions} + part else seq end)::text, 10, '0') as id, seq,
    part, 'customer-' || lpad((seq * 7919 % 100003)::text, 6, '0') as customer,
    ((seq * 37 % 1000000) / 100.0)::numeric(12,2) as amount, (seq % 97 + 1)::integer as quantity, seq % 3 = 0 as paid,
    timestamptz '2026-05-01T00:00:00Z' + make_interval(secs => seq % 86400) as placed_at
from (select n as seq, (n % {partitions})::integer as part, n / {partitions} as i
    from generate_series(0::bigint, {records}::bigint - 1) as n) as numbers;
create table produced."{topic}_newest" as select distinct on (id) * from produced."{topic}" order by id, seq desc;
analyze produced."{topic}"; analyze produced."{topic}_newest"
"""
COMPARED = """with written as (select {names}, count(*) as times from public.{table} group by {names}),
    compared as (select w.times as there, e.seq is not null as expected
        from written as w full join produced."{expected}" as e using ({names}))
select coalesce(sum(1) filter (where there is null), 0)::bigint,
    coalesce(sum(there - case when expected then 1 else 0 end) filter (where there is not null), 0)::bigint from compared"""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A table against the produced records: rows that are missing or wrong, and rows that should not exist."""

    lost: int
    doubled: int


def produce(place: Place, topic: str, records: int, partitions: int) -> None:
    """Makes a topic with so many records, and beside it in the database the expected contents of a table."""
    fill(place, topic, records, partitions)
    expect(place, topic, records, partitions)


def fill(place: Place, topic: str, records: int, partitions: int) -> None:
    """Makes the topic alone."""
    admin = AdminClient({"bootstrap.servers": place.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)
    options = {"bootstrap.servers": place.bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 10_000_000}
    options |= {"enable.idempotence": True}  # a batch that is sent again must not come behind later ones
    producer = Producer(options)
    for seq in range(records):
        key, value = record(seq, partitions)
        while True:
            try:
                producer.produce(topic, value, key, partition=seq % partitions)
                break
            except BufferError:  # the broker takes what was sent before
                producer.poll(0.1)
        if seq % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise SystemExit(f"{topic}: the broker did not take all records")


def expect(place: Place, topic: str, records: int, partitions: int) -> None:
    """Makes the expected contents of the tables. The database computes them, by other code than the records'."""
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("create schema if not exists produced")
        cur.execute(PRODUCED.format(topic=topic, records=records, partitions=partitions))


def record(seq: int, partitions: int) -> tuple[str, str]:
    """Returns key and value of the record with this number. It lies in partition `seq % partitions`."""
    part, i = seq % partitions, seq // partitions
    number = i // 20 * 10 * partitions + part if i % 10 == 9 else seq  # noqa: PLR2004 - every tenth
    cents, second = seq * 37 % 1_000_000, seq % 86_400
    moment = second // 3600, second // 60 % 60, second % 60
    fields = seq * 7919 % 100_003, cents // 100, cents % 100, seq % 97 + 1, "false" if seq % 3 else "true"
    return f"order-{number:010}", VALUE % (number, seq, part, *fields, *moment)


def make_table(place: Place, task: Task) -> None:
    """Makes an empty table: as Lockstep's, or bare."""
    as_ours = f"{target(task)}; {PEERS_DEFAULTS.format(table=task.table)}"
    bare = f"create table public.{task.table} ({DDL})"
    _execute(place, as_ours if task.kind in {APPEND, KEYED_LIMIT, UPSERT} else bare)


def target(task: Task) -> str:
    """Returns the statement that makes Lockstep's table."""
    key, cut = "id" if task.kind == UPSERT else "_stream, _offset, _ordinal", ""
    if BY_BATCH in task.options:
        key, cut = f"{key}, _batch", " partition by list (_batch)"
    key = "" if AT_LEAST_ONCE in task.options else f", primary key ({key})"  # a key would refuse what comes again
    table = f"{task.table}{ROWS}" if VIEWED in task.options else task.table
    return TARGET.format(table=table, ddl=DDL, origin=ORIGIN_DDL, key=key) + cut


def drop_table(place: Place, task: Task) -> None:
    """Drops the table, the view before it, and the tables that a contender keeps beside it."""
    names = (f"public.{task.table}{suffix}" for suffix in ("", "_stage", "_offsets"))
    behind = f"drop table if exists public.{task.table}{ROWS} cascade"
    _execute(place, f"{behind}; drop table if exists {', '.join(names)}")


def settle(place: Place) -> None:
    """Runs a checkpoint, so that no contender pays for the dirty pages of another."""
    _execute(place, "checkpoint")


def compare(place: Place, task: Task) -> Comparison:
    """Compares the table with the produced records, whole rows.

    A row with another value counts as both lost and too many.
    """
    expected = f"{task.topic}_newest" if task.kind == UPSERT else task.topic
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set local work_mem = '512MB'")  # the groups stay in memory
        cur.execute(COMPARED.format(names=", ".join(NAMES), table=task.table, expected=expected))
        lost, doubled = cur.fetchone() or (0, 0)
    return Comparison(lost, doubled)


def count(place: Place, task: Task) -> Comparison:
    """Compares the number of rows alone, which is enough for runs that do not count."""
    expected = f"{task.topic}_newest" if task.kind == UPSERT else task.topic
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(f'select (select count(*) from produced."{expected}") - (select count(*) from public.{task.table})')
        (missing,) = cur.fetchone() or (0,)
    return Comparison(max(missing, 0), max(-missing, 0))


def _execute(place: Place, statement: str) -> None:
    with closing(psycopg2.connect(place.superuser_dsn)) as conn:
        conn.autocommit = True
        conn.cursor().execute(statement)
