"""Folds a table's feed in Python, from its images alone, and compares the outcome with the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Ask = Callable[..., list[tuple]]

ORIGIN = {"_stream", "_offset", "_ordinal", "_batch"}
OURS = {"_change", "_change_set", "_ordinal_in_set"}
COLUMNS = """select attname::text from pg_attribute where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped
    order by attnum"""
SETS = "select change_set_id, seq, first_number, changes from lockstep.change_set where target = %s order by seq"


def not_folded(ask: Ask, table: str) -> list[str]:
    """Returns what is wrong with a feed: gaps, images that do not follow one another, and rows that differ."""
    ((name, key, last_seq, next_number, kept_from, began_empty),) = ask(
        "select name, key, last_seq, next_number, kept_from, began_empty from lockstep.feed where target = %s", table
    )
    images = f"lockstep_feed.{name}"
    columns = [column for (column,) in ask(COLUMNS, images) if column not in OURS]
    payload = [column for column in columns if column in key or column not in ORIGIN]
    places = [payload.index(column) for column in key]
    sets = ask(SETS, table)
    found = _gaps(table, sets, last_seq, next_number)
    starts = {each: first for each, _, first, _ in sets}
    rows = ask(f"select _change_set, _ordinal_in_set, _change, {', '.join(payload)} from {images}")
    changes = sorted((starts[of] + ordinal, change == "after", change, row) for of, ordinal, change, *row in rows)
    numbers = sorted({number for number, *_ in changes})
    if numbers != list(range(kept_from, next_number)):
        found.append(f"{table}: {len(numbers)} numbers are kept, of [{kept_from}, {next_number})")
    state: dict[tuple, tuple | None] = {}
    for number, _, change, values in changes:
        if change == "erased":
            found += [f"{table}: change {number} is erased, and has values"] if any(values) else []
            continue
        row = tuple(values)
        of = tuple(row[place] for place in places)
        is_first = of not in state and not (began_empty and kept_from == 0)
        was = state.get(of)
        if change in {"before", "delete"} and was != row and not is_first:
            found.append(f"{table}: change {number} of {of} says {row} was there, and {was} was")
        if change == "insert" and was is not None:
            found.append(f"{table}: change {number} inserts {of}, which is there")
        state[of] = row if change in {"insert", "after"} else None
    there = {
        tuple(row[place] for place in places): tuple(row) for row in ask(f"select {', '.join(payload)} from {table}")
    }
    told = {of: row for of, row in state.items() if row is not None}
    seen = there if began_empty and kept_from == 0 else {of: row for of, row in there.items() if of in state}
    found += [f"{table}: {of} is {seen.get(of)}, and its feed says {told.get(of)}" for of in seen.keys() | told.keys()
              if seen.get(of) != told.get(of)]  # fmt: skip
    return found[:10]


def _gaps(table: str, sets: list[tuple], last_seq: int, next_number: int) -> list[str]:
    found, at, number = [], 0, 0
    for _, seq, first, changes in sets:
        if (seq, first) != (at + 1, number):
            found.append(f"{table}: set {seq} begins at {first}, behind set {at} that ends at {number}")
        at, number = seq, first + changes
    if (at, number) != (last_seq, next_number):
        found.append(f"{table}: the feed is at {last_seq}, {next_number}, its sets end at {at}, {number}")
    return found
