"""Tests that a record whose row the target refuses is named by its partition and offset, whatever refuses it."""

from __future__ import annotations

import json

import pytest

from lockstep.core.errors import BadData

INTO_JSON = "alter table public.drill alter column id type jsonb using to_jsonb(id)"
NOT_A_KEY = "create unique index one_n on public.drill (n)"
SMALL = "alter table public.drill add constraint small check (n < 1000)"
NO_NULL = "alter table public.drill alter column n set not null"
APART = "alter table public.drill add constraint apart exclude using gist (int4range(n, n, '[]') with &&)"
NO = """create function public.no() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as
    $$ begin if new.n > 1000 then raise exception 'no % here', new.id; end if; return new; end $$;
    create trigger no before insert or update on public.drill for each row execute function public.no()"""
# The kind of target, a rule of its table, what three records hold, and the number of the refused one.
REFUSED = {
    "a check of appended rows": ("append", SMALL, [1, 7000, 8000], 1),
    "a check of keyed rows": ("upsert", SMALL, [1, 2, 7000], 2),
    "a check of totals": ("accumulate", SMALL.replace("n <", "total <"), [900, 900, 1], 1),
    "a check of one of several tables": ("several", SMALL.replace("drill", "beside"), [1, 7000, 2], 1),
    "a check of a table by batch": ("by batch", SMALL, [7000, 1, 2], 0),
    "a unique index": ("append", NOT_A_KEY, [5001, 5002, 5001], 2),
    "a unique index beside the key": ("upsert", NOT_A_KEY, [5001, 5002, 5001], 2),
    "a column without nulls": ("append", NO_NULL, [1, None, 2], 1),
    "an exclusion": ("append", APART, [5001, 5002, 5002], 2),
    "a trigger": ("upsert", NO, [1, 2000, 3000], 1),
    "a type that has no such text": ("append", INTO_JSON, ['"a"', '"\\u0000"', '"b"'], 1),
}


@pytest.fixture
def refusing(contents):
    """Returns `refusing(case, more)`: a drill with the case's rule, its values, and the number of the refused one."""

    def make(case: str, more: str = ""):
        kind, rule, values, number = REFUSED[case]
        here = contents(kind, more=more)
        here.drain()
        here.sql(f"{rule}; select 1")
        return here, values, number

    return make


def produced(here, produce, values) -> int:
    """Writes the records, and returns the offset of the first one."""
    before = here.at.broker.view(here.drill.topic).bounds[0].stable_end
    one_key = values == [900, 900, 1]  # their total is refused
    rows = [
        {"id": value, "n": 1} if isinstance(value, str) else {"id": "same" if one_key else f"x{place}", "n": value}
        for place, value in enumerate(values)
    ]
    produce(here.drill.topic, [("k", json.dumps(row)) for row in rows], partition=0)
    return before


BY_RANGE = ("a check of appended rows", "a check of keyed rows", "a unique index", "a type that has no such text")


@pytest.mark.parametrize(
    ("case", "more"),
    [*((case, "") for case in REFUSED), *((case, ", guarantee=PerPartition()") for case in BY_RANGE)],
    ids=[*REFUSED, *(f"{case}, per partition" for case in BY_RANGE)],
)
def test_the_first_record_that_a_target_refuses_is_named_by_its_offset(refusing, produce, case, more):
    here, values, number = refusing(case, more)
    first = produced(here, produce, values)

    with pytest.raises(BadData) as no:
        here.drain()

    place = f"{here.drill.topic}-0 offset {first + number}"
    assert f"the first such record is {place}" in str(no.value)
    (error,) = here.sql("select error from lockstep.attempt where error is not null")[0]
    assert place in error.partition("\n")[0]
    assert here.sql(f'select count(*) from lockstep.reject where "offset" >= {first}') == [(0,)]


def test_the_next_command_skips_the_record(refusing, produce):
    here, values, number = refusing("a check of keyed rows")
    first = produced(here, produce, values)

    with pytest.raises(BadData) as no:
        here.drain()

    assert no.value.next_command == f"lockstep skip drill --to 0:{first + number + 1} --reason ..."
