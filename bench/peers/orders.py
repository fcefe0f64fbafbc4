"""Makes the flat workload: records of eight columns and 150 bytes, all good, equally many in each partition."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2

from peers.workload import Output, Workload, names_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peers.contender import Place
    from peers.workload import Record

SCHEMA = (
    "id string, seq bigint, part int, customer string, amount decimal(12,2), quantity int, "
    "paid boolean, placed_at timestamp"
)
NAMES = names_of(SCHEMA)
DDL = """id text not null, seq bigint not null, part integer not null, customer text not null, amount numeric(12,2) not null,
    quantity integer not null, paid boolean not null, placed_at timestamptz not null"""
VALUE = (
    '{"id":"order-%010d","seq":%d,"part":%d,"customer":"customer-%06d","amount":%d.%02d,"quantity":%d,"paid":%s,'
    '"placed_at":"2026-05-01T%02d:%02d:%02dZ"}'
)
# The same once more, by another hand: every tenth record of a partition is a change of an earlier one.
PRODUCED = """create table produced."{topic}" as
select 'order-' || lpad((case when i % 10 = 9 then i / 20 * 10 * {partitions} + part else seq end)::text, 10, '0') as id, seq,
    part, 'customer-' || lpad((seq * 7919 % 100003)::text, 6, '0') as customer,
    ((seq * 37 % 1000000) / 100.0)::numeric(12,2) as amount, (seq % 97 + 1)::integer as quantity, seq % 3 = 0 as paid,
    timestamptz '2026-05-01T00:00:00Z' + make_interval(secs => seq % 86400) as placed_at, part as _stream, i as _offset
from (select n as seq, (n % {partitions})::integer as part, n / {partitions} as i
    from generate_series(0::bigint, {records}::bigint - 1) as n) as numbers;
create table produced."{topic}_newest" as select distinct on (id) * from produced."{topic}" order by id, seq desc;
analyze produced."{topic}"; analyze produced."{topic}_newest"
"""


def orders(records: int, partitions: int) -> Iterator[Record]:
    """Yields key, value and partition of so many records."""
    return ((*record(seq, partitions), seq % partitions) for seq in range(records))


def record(seq: int, partitions: int) -> tuple[str, str]:
    """Returns key and value of the record with this number. It lies in partition `seq % partitions`."""
    part, i = seq % partitions, seq // partitions
    number = i // 20 * 10 * partitions + part if i % 10 == 9 else seq  # noqa: PLR2004 - every tenth
    cents, second = seq * 37 % 1_000_000, seq % 86_400
    moment = second // 3600, second // 60 % 60, second % 60
    fields = seq * 7919 % 100_003, cents // 100, cents % 100, seq % 97 + 1, "false" if seq % 3 else "true"
    return f"order-{number:010}", VALUE % (number, seq, part, *fields, *moment)


def expect(place: Place, topic: str, records: int, partitions: int) -> None:
    """Makes the expected contents of the tables. The database computes them, by other code than the records'."""
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("create schema if not exists produced")
        cur.execute(PRODUCED.format(topic=topic, records=records, partitions=partitions))


ORDERS = Workload(
    name="flat, 8 columns",
    topic="orders",
    schema=SCHEMA,
    outputs=(Output(DDL, NAMES, "seq", 'select * from produced."{topic}"', 'select * from produced."{topic}_newest"'),),
    records=orders,
    expect=expect,
    lines="peers.order_lines",
)
