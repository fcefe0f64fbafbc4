"""Defines one pipeline for each kind of target, and computes in Python the rows that a clean pass gives it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
APART = timedelta(seconds=20)  # an event's time is noon and so many times n
PARTITIONS = 2
DEFINITION = """
from lockstep import *
P = Pipeline(name="drill", topic="{topic}", format=Json("{columns}"{key}), target={target}, max_reject_share=1{more})
"""
COORDINATES = "_stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null"
ORIGIN = "_stream, _offset, _ordinal"


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a key. Without `n`, it deletes the key. A key is always in the same partition."""

    key: str
    n: int | None

    @property
    def partition(self) -> int:
        return ord(self.key) % PARTITIONS

    @property
    def at(self) -> datetime:
        return NOON + (self.n or 0) * APART


def table(columns: str, key: str, name: str = "public.drill", more: str = "") -> str:
    return f"create table if not exists {name} ({columns}, {COORDINATES}{f', primary key ({key})' if key else ''}){more};\n"


def every(records: Sequence[Record]) -> list[tuple]:
    """Returns (key, n) of every record."""
    return sorted((each.key, each.n) for each in records)


def newest(records: Sequence[Record]) -> list[tuple]:
    """Returns (key, n) of the newest record of each key that is not deleted."""
    last = {each.key: each.n for each in records}
    return sorted((key, n) for key, n in last.items() if n is not None)


def highest(records: Sequence[Record]) -> list[tuple]:
    """Returns (key, n) of the record of each key with the highest n."""
    return sorted({each.key: each.n for each in sorted(records, key=lambda each: each.n)}.items())


def versions(records: Sequence[Record]) -> list[tuple]:
    """Returns (key, n, if it is a deletion, if it is current) of every record."""
    last = {each.key: place for place, each in enumerate(records)}
    deleted = [each.n is None for each in records]
    return sorted(
        (each.key, -1 if gone else each.n, gone, last[each.key] == place and not gone)
        for place, (each, gone) in enumerate(zip(records, deleted, strict=True))
    )


def dated(records: Sequence[Record]) -> list[tuple]:
    """Returns the same, in the order of n."""
    return versions(sorted(records, key=lambda each: each.n))


def totals(records: Sequence[Record]) -> list[tuple]:
    """Returns (key, its records, the sum of n)."""
    found = defaultdict(list)
    for each in records:
        found[each.key].append(each.n)
    return sorted((key, len(numbers), sum(numbers)) for key, numbers in found.items())


def by_minute(records: Sequence[Record]) -> list[tuple]:
    """Returns (window, key, its records) of each window that ended before the newest event of every partition."""
    newest_of = [max((r.at for r in records if r.partition == p), default=NOON) for p in range(PARTITIONS)]
    found: dict[tuple, int] = defaultdict(int)
    for each in records:
        found[each.at.replace(second=0), each.key] += 1
    return sorted((at, key, n) for (at, key), n in found.items() if at + timedelta(minutes=1) <= min(newest_of))


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of target: its text in the definition, its table, and where and how its rows are looked at.

    `look` is a query of the database, or of the store that `at` names, or the name of a lake table.
    """

    target: str
    sql: str
    look: str = "select id, n from public.drill"
    expected: Callable[[Sequence[Record]], list[tuple]] = every
    columns: str = "id string, n int"
    key: str = ""
    more: str = ""
    at: str = "ledger"

    @property
    def takes_deletions(self) -> bool:
        return bool(self.key)

    def definition(self, topic: str, sink: str) -> str:
        target = self.target.replace("SINK", sink)
        return DEFINITION.format(topic=topic, target=target, columns=self.columns, key=self.key, more=self.more)


KEY = ', key="id"'
ROWS = table("id text, n int", ORIGIN)
BY_BATCH = table("id text, n int", f"{ORIGIN}, _batch", more=" partition by list (_batch)")
UPSERTED = table("id text, n int", "id")
MOMENTS = "valid_from {0} not null, valid_until {0}, _deleted boolean not null"
DATED = table(f"id text not null, n int, {MOMENTS.format('int')}", ORIGIN)
VERSIONED = table(f"id text not null, n int, {MOMENTS.format('timestamptz')}", ORIGIN)
VERSIONS = "select id, coalesce(n, -1), _deleted, valid_until is null from public.drill"
ADDED = table("id text, records bigint, total numeric", "id")
SUMS = 'totals=(Count("records"), Sum("total", "n"))'
TOTALS = "select id, records, total::int from public.drill"
WINDOWED = table(
    "window_start timestamptz, window_end timestamptz not null, id text, records bigint, _revision int not null",
    "window_start, id",
)
WINDOWS = 'Windows("public.drill", window=Tumbling("1 minute"), key=("id",), totals=(Count("records"),))'
UPSERT = 'Upsert("public.drill", key=("id",){})'
HISTORY = 'History("public.drill", key=("id",){})'


def _several(records: Sequence[Record]) -> list[tuple]:
    """Returns what three targets of one pipeline have, the one after the other."""
    return sorted([("rows", *row) for row in every(records)] + [("newest", *row) for row in highest(records)])


def _both(records: Sequence[Record]) -> list[tuple]:
    """Returns the rows of a lake table and of a table of the same pipeline."""
    return sorted(2 * every(records))


STORE = ', guarantee={}, store=Postgres("WAREHOUSE")'
FILES = ', guarantee={}, store=Files("drills")'
IN_PARTITIONS = ", guarantee=PerPartition()"
APPEND = 'Append("public.drill")'
LAKE = 'Iceberg("sales.drill")'

KINDS: dict[str, Kind] = {
    "append": Kind(APPEND, ROWS),
    "by batch": Kind(APPEND, BY_BATCH),
    "in parts": Kind(APPEND, BY_BATCH),
    "written once": Kind(APPEND, ROWS.replace("public.drill", "public.drill_rows")),
    "upsert": Kind(UPSERT.format(""), UPSERTED, expected=newest, key=KEY),
    "upsert by order": Kind(UPSERT.format(', order_by="n"'), UPSERTED, expected=highest),
    "history": Kind(HISTORY.format(""), VERSIONED, VERSIONS, versions, key=KEY),
    "history by order": Kind(HISTORY.format(', order_by="n"'), DATED, VERSIONS, dated),
    "totals": Kind(f'Accumulate("public.drill", key=("id",), {SUMS})', ADDED, TOTALS, totals),
    "windows": Kind(
        WINDOWS,
        WINDOWED,
        "select window_start, id, records from public.drill",
        by_minute,
        columns="id string, n int, at timestamp",
        more=', event_time=EventTime("at")',
    ),
    "feed": Kind(UPSERT.format(", feed=Feed()"), UPSERTED, expected=newest, key=KEY),
    "send": Kind('Send(Topic("SINK"), key=("id",))', "", "SINK"),
    "several": Kind(
        f'({APPEND}, Upsert("public.newest", key=("id",), order_by="n"))',
        ROWS + UPSERTED.replace("public.drill", "public.newest"),
        "select 'rows', id, n from public.drill union all select 'newest', id, n from public.newest",
        _several,
    ),
    "per partition": Kind(APPEND, ROWS, more=IN_PARTITIONS),
    "upsert per partition": Kind(UPSERT.format(""), UPSERTED, expected=newest, key=KEY, more=IN_PARTITIONS),
    "history per partition": Kind(HISTORY.format(""), VERSIONED, VERSIONS, versions, key=KEY, more=IN_PARTITIONS),
    "lake append": Kind(f"Append({LAKE})", "", "sales.drill", at="lake"),
    "lake keyed": Kind(f'Upsert({LAKE}, key=("id",))', "", "sales.drill", newest, key=KEY, at="lake"),
    "lake and table": Kind(f"(Append({LAKE}), {APPEND})", ROWS, "sales.drill", _both, at="lake"),
    "idempotent": Kind(APPEND, ROWS, more=STORE.format("Idempotent()"), at="warehouse"),
    "idempotent upsert": Kind(
        UPSERT.format(""), UPSERTED, expected=newest, key=KEY, more=STORE.format("Idempotent()"), at="warehouse"
    ),
    "idempotent files": Kind(APPEND, ROWS, more=FILES.format("Idempotent()"), at="files"),
    "at least once": Kind(APPEND, table("id text, n int", ""), more=STORE.format("AtLeastOnce()"), at="warehouse"),
    "at most once": Kind(APPEND, table("id text, n int", ""), more=STORE.format("AtMostOnce()"), at="warehouse"),
    "catalog elsewhere": Kind(
        'Append(Iceberg("web.drill", catalog="POLARIS"))', "", "web.drill", more=", guarantee=Idempotent()", at="catalog"
    ),
}  # fmt: skip


def as_rows(found: Iterable[Any]) -> list[tuple]:
    return sorted(tuple(row) for row in found)
