"""Makes the topics and the tables of a workload, and compares the tables row by row with what was produced."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg2
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from peers.contender import APPEND, KEYED_LIMIT, UPSERT
from peers.orders import ORDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peers.contender import Place, Task
    from peers.workload import Output, Workload

ROWS = "_rows"  # ends the name of a table with a view before it
ORIGIN_DDL = "_stream int4 not null, _offset int8 not null"
TARGET = "create table public.{table} ({ddl}, {origin}, _ordinal int4 not null, _batch int8 not null{key})"
REJECTS = "create table if not exists public.{table}_rejects ({origin}, reason text not null, value bytea not null)"
BY_BATCH, VIEWED = ("table", "by batch"), ("table", "behind a view")
AT_LEAST_ONCE = ("guarantee", "AtLeastOnce")
PEERS_DEFAULTS = "alter table public.{table} alter _ordinal set default 0, alter _batch set default 0"
BESIDE = ("_stage", "_offsets", "_rejects")  # end the names of tables that a contender keeps beside its own
COUNTED = """select (select count(*) from ({expected}) as e)::bigint, (select count(*) from public.{table})::bigint"""
# A row that is expected is found once, however often it is there: the others are too many.
COMPARED = (
    COUNTED
    + """, (select count(*) from ({expected}) as e where exists (select from public.{table} as t
    where t.{by} = e.{by} and ({theirs}) is not distinct from ({ours})))::bigint"""
)
REJECTED = "select count(*)::bigint from {table}"
WAY = """select route ->> 'way' from lockstep.attempt join lockstep.batch using (batch_id)
where pipeline = %s and batch.state = 'committed' order by attempt.token desc limit 1"""
BY_LOCKSTEP = "lockstep.reject join lockstep.stream using (stream_id) where pipeline = %s"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Tables against the produced records: rows that are missing or wrong, and rows that should not exist."""

    lost: int | None
    doubled: int | None


def produce(place: Place, workload: Workload, topic: str, records: int, partitions: int) -> None:
    """Makes a topic with so many records, and next to it in the database the expected contents of the tables."""
    fill(place, topic, records, partitions, workload)
    workload.expect(place, topic, records, partitions)


def fill(place: Place, topic: str, records: int, partitions: int, workload: Workload = ORDERS) -> None:
    """Makes the topic alone."""
    admin = AdminClient({"bootstrap.servers": place.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)
    options = {"bootstrap.servers": place.bootstrap, "linger.ms": 20, "queue.buffering.max.messages": 10_000_000}
    options |= {"enable.idempotence": True}  # a batch that is sent again must not come behind later ones
    producer = Producer(options)
    for seq, (key, value, partition) in enumerate(workload.records(records, partitions)):
        while True:
            try:
                producer.produce(topic, value, key, partition=partition)
                break
            except BufferError:  # the broker takes what was sent before
                producer.poll(0.1)
        if seq % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise SystemExit(f"{topic}: the broker did not take all records")


def make_table(place: Place, task: Task) -> None:
    """Makes empty tables: as Lockstep's, or bare. Where records are bad, also one for a peer's rejects."""
    for output in task.workload.outputs:
        table = f"{task.table}{output.suffix}"
        as_ours = f"{target(task, output)}; {PEERS_DEFAULTS.format(table=table)}"
        bare = f"create table public.{table} ({output.ddl})"
        _execute(place, as_ours if task.kind in {APPEND, KEYED_LIMIT, UPSERT} else bare)
    if task.workload.bad_in:
        _execute(place, REJECTS.format(table=task.table, origin=ORIGIN_DDL))


def target(task: Task, output: Output) -> str:
    """Returns the statement that makes Lockstep's table."""
    key, cut = "id" if task.kind == UPSERT else "_stream, _offset, _ordinal", ""
    if BY_BATCH in task.options:
        key, cut = f"{key}, _batch", " partition by list (_batch)"
    key = "" if AT_LEAST_ONCE in task.options else f", primary key ({key})"  # a key would refuse what comes again
    table = f"{task.table}{output.suffix}{ROWS if VIEWED in task.options else ''}"
    return TARGET.format(table=table, ddl=output.ddl, origin=ORIGIN_DDL, key=key) + cut


def drop_table(place: Place, task: Task) -> None:
    """Drops the tables, the views before them, and the tables that a contender keeps next to them."""
    tables = [f"public.{task.table}{output.suffix}" for output in task.workload.outputs]
    behind = ", ".join(f"{table}{ROWS}" for table in tables)
    names = ", ".join([*tables, *(f"public.{task.table}{suffix}" for suffix in BESIDE)])
    _execute(place, f"drop table if exists {behind} cascade; drop table if exists {names}")


def settle(place: Place) -> None:
    """Runs a checkpoint, so that no contender pays for the dirty pages of another."""
    _execute(place, "checkpoint")


def compare(place: Place, task: Task) -> Comparison:
    """Compares the tables with the produced records, whole rows.

    A row with another value counts as both lost and too many.
    """
    each = _asked_of_each_table(place, task, COMPARED)
    found = [(expected - right, there - right) for expected, there, right in each]
    return Comparison(sum(lost for lost, _ in found), sum(doubled for _, doubled in found))


def count(place: Place, task: Task) -> Comparison:
    """Compares the numbers of rows alone, which is enough for runs that do not count."""
    missing = [expected - there for expected, there in _asked_of_each_table(place, task, COUNTED)]
    return Comparison(sum(max(each, 0) for each in missing), sum(max(-each, 0) for each in missing))


def rejects(place: Place, task: Task, *, by_lockstep: bool) -> int:
    """Returns how many records of a run are rejects, as Lockstep's ledger or a peer's own table has them."""
    table = BY_LOCKSTEP if by_lockstep else f"public.{task.table}_rejects"
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(REJECTED.format(table=table), (task.table,) if by_lockstep else None)
        (found,) = cur.fetchone() or (0,)
    return int(found)


def way(place: Place, task: Task) -> str:
    """Returns the way that the records of Lockstep's run took, as the ledger has it."""
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(WAY, (task.table,))
        (found,) = cur.fetchone() or ("",)
    return f"Lockstep, {found}"


def _asked_of_each_table(place: Place, task: Task, query: str) -> Iterator[tuple[Any, ...]]:
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set local work_mem = '512MB'")  # the rows of both sides stay in memory
        for output in task.workload.outputs:
            expected = output.newest if task.kind == UPSERT and output.newest else output.expected
            facts = {"table": f"{task.table}{output.suffix}", "expected": expected.format(topic=task.topic)}
            facts |= {"by": output.by}
            facts |= {alias: _listed(of, output) for alias, of in (("theirs", "t"), ("ours", "e"))}
            cur.execute(query.format(**facts))
            yield cur.fetchone() or ()


def _listed(alias: str, output: Output) -> str:
    return ", ".join(f"{alias}.{name}" for name in output.names)


def _execute(place: Place, statement: str) -> None:
    with closing(psycopg2.connect(place.superuser_dsn)) as conn:
        conn.autocommit = True
        conn.cursor().execute(statement)
