"""Makes the records of the second workload, and the rows that each of them must become, from a seed and a number."""

from __future__ import annotations

import io
from contextlib import closing
from functools import cache
from typing import TYPE_CHECKING, Any

import psycopg2

from peers.copy_text import NULL
from peers.real.pools import SEED, pools

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peers.contender import Place
    from peers.workload import Record

CLEAN, BAD, PAIRS = "clean", "bad", "pairs"
BAD_IN, PAIRS_IN = 100, 10
SLOTS = (0, 2, 0, 1, 0, 3, 0, 1, 0, 4, 0, 2, 0, 1, 0, 3, 0, 1, 0, 5)  # the partitions of twenty records in a row
PARTITIONS = 6
WEIGHTS = tuple(SLOTS.count(partition) for partition in range(PARTITIONS))
BEFORE = tuple(SLOTS[:slot].count(partition) for slot, partition in enumerate(SLOTS))
SCHEMA = (
    "id string, customer string, ip string, app_version string, url string, user_agent string, title string, "
    "note string, city string, amount decimal(12,2), price decimal(18,4), rate decimal(20,10), occurred_at timestamp, "
    "shipped_at timestamp, delivered_on date, quantity smallint, points int, account bigint, rating float, "
    "distance double, paid boolean, gift boolean, returned boolean, express boolean, is_test boolean"
)
DDL = """id text not null, customer text not null, ip text, app_version text not null, url text not null,
    user_agent text not null, title text not null, note text, city text, amount numeric(12,2) not null,
    price numeric(18,4) not null, rate numeric(20,10) not null, occurred_at timestamptz not null, shipped_at timestamptz,
    delivered_on date, quantity smallint not null, points integer, account bigint not null, rating real not null,
    distance double precision not null, paid boolean not null, gift boolean, returned boolean not null,
    express boolean not null, is_test boolean not null"""
# Topics of as many records have the same rows, whatever their JSON is like.
PRODUCED = f"""create table produced.events_{{records}} (seq bigint not null, _stream integer not null, _offset bigint not null,
    is_bad boolean not null, {DDL}, context text not null)"""
LINES_AT_ONCE = 20_000
MASK, STEP = (1 << 64) - 1, 0x9E3779B97F4A7C15
IS_THERE = "create schema if not exists produced; select to_regclass('produced.events_{records}') is not null"
SHOWN = 'create view produced."{topic}" as select * from produced.events_{records}'
TEXTS = ("customer", "ip", "app_version", "url", "user_agent", "title", "note", "city")


@cache
def _pools() -> tuple[Any, ...]:
    made = pools()
    return tuple(made[name] for name in (*TEXTS, "flags", "context"))


def events(kind: str, records: int, _partitions: int) -> Iterator[Record]:
    """Yields key, value and partition of so many records of this kind."""
    for seq in range(records):
        yield identity(seq), value_of(kind, seq), SLOTS[seq % len(SLOTS)]


def identity(seq: int) -> str:
    """Returns the record's own text, which is also its Kafka key."""
    return f"evt-{seq:010}-{mixed(seq) & 0xFFFFFF:06x}"


def value_of(kind: str, seq: int) -> str | bytes:
    """Returns a record's value. One of a hundred is bad in `bad`. One of ten has Python's default escapes in `pairs`."""
    text = written(seq, is_dumped=kind == PAIRS and is_one_of(seq, PAIRS_IN))
    if kind != BAD or not is_one_of(seq, BAD_IN):
        return text
    if seq // BAD_IN % 2:
        whole = text.encode()
        return whole[: len(whole) // 2]
    head, _, tail = text.partition(',"points":')
    return f'{head},"points":"twelve"{tail[tail.index(",") :]}'


def is_one_of(seq: int, many: int) -> bool:
    """Returns True for one record of each `many` in a row, which is not always the same one of them."""
    return seq % many == mixed(seq // many + many) % many


def place_of(seq: int) -> tuple[int, int]:
    """Returns partition and offset of the record with this number."""
    rounds, slot = divmod(seq, len(SLOTS))
    return SLOTS[slot], rounds * WEIGHTS[SLOTS[slot]] + BEFORE[slot]


def mixed(number: int) -> int:
    """Returns 64 bits that look random, by the function of SplitMix64 and the seed."""
    bits = (number + SEED) * STEP & MASK
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & MASK
    return bits ^ bits >> 31


def written(seq: int, *, is_dumped: bool) -> str:
    """Returns the record as JSON. If `is_dumped`, its texts are written as Python does by default."""
    indexes, numbers = picked(seq)
    made = _pools()
    texts = [
        (each.dumped if is_dumped else each.written)[index] for each, index in zip(made[:-2], indexes, strict=False)
    ]
    amount, price, rate, occurred, shipped, delivered, quantity, points, account, rating, distance = numbers
    flags, context = made[-2].written[indexes[-2]], made[-1].written[indexes[-1]]
    return (
        f'{{"id":"{identity(seq)}"{"".join(texts)},"amount":{amount},"price":{price},"rate":"{rate}",'
        f'"occurred_at":"{occurred}"{_text_or_nothing("shipped_at", shipped)},"delivered_on":{_text_or_null(delivered)},'
        f'"quantity":{quantity},"points":{points or "null"},"account":{account},"rating":{rating},"distance":{distance}'
        f"{flags}{context}}}"
    )


def line(seq: int) -> str:
    """Returns the same record as a line of COPY for the table of what was produced."""
    indexes, numbers = picked(seq)
    *texts, flags, context = (each.copied[index] for each, index in zip(_pools(), indexes, strict=True))
    partition, offset = place_of(seq)
    cells = (*texts, *(NULL if each is None else each for each in numbers), flags, context)
    head = (str(seq), str(partition), str(offset), str(is_one_of(seq, BAD_IN)), identity(seq))
    return "\t".join((*head, *cells)) + "\n"


def picked(seq: int) -> tuple[list[int], tuple[str | None, ...]]:
    """Returns the number of each pool's value, and the texts of the numbers and times. None is null or missing."""
    first = mixed(seq)
    second, third = mixed(first), mixed(first ^ MASK)
    indexes, left = [], first << 64 | third
    for each in _pools():
        left, index = divmod(left, each.size)
        indexes.append(index)
    cents, days, millionths = second % 10**9, second % 28, third % 10**6
    clock = f"{second // 28 % 24:02}:{third // 28 % 60:02}:{first // 28 % 60:02}"
    return indexes, (
        f"{'-' if second & 64 else ''}{cents // 100}.{cents % 100:02}",
        f"{first % 10**14}.{second % 10**4:04}",
        f"{third % 10**10}.{first % 10**10:010}",
        f"2026-05-{days + 1:02}T{clock}.{millionths:06}Z",
        f"2026-06-{days + 1:02}T{clock}+02:00" if third % 10 else None,
        f"2026-07-{days + 1:02}" if third % 4 else None,
        f"{second % 60_000 - 30_000}",
        f"{third % 2**32 - 2**31}" if second % 20 else None,
        f"{first - 2**63}",
        f"{third % 501 / 100}",
        f"{second % 10**12 / 1009}",
    )


def _text_or_null(text: str | None) -> str:
    return "null" if text is None else f'"{text}"'


def _text_or_nothing(name: str, text: str | None) -> str:
    return "" if text is None else f',"{name}":"{text}"'


def expect(place: Place, topic: str, records: int, _partitions: int) -> None:
    """Makes the table of what was produced, from the values themselves: no JSON is read for it."""
    with closing(psycopg2.connect(place.superuser_dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(IS_THERE.format(records=records))
        if cur.fetchone() == (False,):
            cur.execute(PRODUCED.format(records=records))
            for begin in range(0, records, LINES_AT_ONCE):
                lines = "".join(map(line, range(begin, min(begin + LINES_AT_ONCE, records))))
                cur.copy_expert(f"copy produced.events_{records} from stdin", io.StringIO(lines))
            cur.execute(f"analyze produced.events_{records}")
        cur.execute(SHOWN.format(topic=topic, records=records))
