"""Tests that no printed error holds a value of a record.

The values lie in the ledger alone, where `erase` finds them.
"""

from __future__ import annotations

import json

import pytest

from lockstep.core.errors import BadData
from lockstep.core.planning.decisions import Blocked

CANARY = "sparrow4711"
TRIGGER = """create function public.no() returns trigger language plpgsql set search_path = pg_catalog, pg_temp as
    $$ begin raise exception 'no % here', new.id; end $$;
    create trigger no before insert on public.drill for each row when (new.id like 'sparrow%') execute function public.no()"""
# How a target may refuse rows, with the numbers of records that it refuses. What the server says quotes their values.
REFUSALS = {
    "unique": ("create unique index one_id on public.drill (id)", [1, 2]),
    "check": ("alter table public.drill add constraint small check (n < 1000)", [7000]),
    "not null": ("alter table public.drill alter column n set not null", [None]),
    "cast": ("alter table public.drill add constraint cast_ check (id like 'r%' or id::int > 0)", [1]),
    "trigger": (TRIGGER, [1]),
}


@pytest.mark.parametrize("guarantee", ["", ", guarantee=PerPartition()"], ids=["per batch", "per partition"])
@pytest.mark.parametrize("refusal", REFUSALS)
def test_what_a_target_refuses_is_printed_without_values_and_kept_with_them(contents, produce, refusal, guarantee):
    rule, numbers = REFUSALS[refusal]
    here = contents(more=guarantee)
    here.drain()
    here.sql(f"{rule}; select 1")
    produce(here.drill.topic, [("k", json.dumps({"id": CANARY, "n": n})) for n in numbers], partition=0)  # type: ignore[attr-defined]

    said = []
    for _ in range(3):
        with pytest.raises(BadData) as no:
            here.drain()
        said.append(str(no.value))
    blocked = here.run().decision

    assert isinstance(blocked, Blocked)
    assert CANARY not in "".join([*said, blocked.reason, blocked.next_command])
    assert all("public.drill" in line and "\n" not in line for line in [*said, blocked.reason])
    kept = here.sql("select error from lockstep.attempt where error is not null order by token")
    assert all(CANARY in error for (error,) in kept), kept
    assert len(kept) == 3
