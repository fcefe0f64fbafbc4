"""Tests docs/versions.md: its definitions load, its questions are answered right, and through the indexes that it names."""

from __future__ import annotations

import re
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

import lockstep
from lockstep.adapters.postgres import connect
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.ledger.migrate import migrate_target
from support.scenes.drill import ask

PAGE = (Path(__file__).parents[2] / "docs" / "versions.md").read_text()
PYTHON, SQL = (re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for kind in ("python", "sql"))
TABLE, CURRENT, ONE_KEY, WHOLE_TABLE, CHANGES = SQL
PLANS = re.search(r"^```\n(current rows.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
FILL = """insert into public.prices
    select 'sku-' || k, v / 2, t, t, case when v < 99 then t + interval '1 hour' end, false, 1, k * 100 + v, 0, 1
    from generate_series(0, 99) k, generate_series(0, 99) v,
        lateral (select timestamptz '2026-05-01Z' + make_interval(hours => v) as t) times;
    analyze public.prices; select 1"""
PUBLIC = {name: getattr(lockstep, name) for name in lockstep.__all__ if isinstance(getattr(lockstep, name), type)}


@pytest.fixture
def prices(database, tmp_path):
    """Returns `prices(statement)`, which asks the page's table of 100 keys with a hundred versions each."""
    made = [eval(block[block.index("Pipeline(\n") :], dict(PUBLIC)) for block in PYTHON]  # noqa: S307 - the page's own
    with closing(connect(database)) as conn:
        migrate_target(conn, PipelineFolder(made[0], tmp_path, None, None, TABLE))
    ask(database, FILL)
    assert [pipeline.takes_tombstones for pipeline in made] == [False, True]
    return lambda statement: ask(database, statement)


def test_the_questions_of_the_page_are_answered_right_and_through_the_indexes_that_it_names(prices):
    assert (len(prices(CURRENT)), prices(ONE_KEY), len(prices(WHOLE_TABLE))) == (100, [(6,)], 100)
    assert {price for _, price in prices(CURRENT)} == {49}
    assert {price for _, price in prices(WHOLE_TABLE)} == {6}

    plans = [prices(f"set timezone to 'UTC'; explain (costs off) {each}") for each in (CURRENT, ONE_KEY, WHOLE_TABLE)]
    for shown, found in zip(re.split(r"\n(?=\w)", PLANS), plans, strict=True):
        (index,) = re.findall(r"Index Scan on (\w+)", shown)
        text = "\n".join(line for (line,) in found)
        assert index in text
        assert all(condition in text for condition in re.findall(r"Index Cond: .*", shown))

    prices(f"{CHANGES} select 1")  # the view without versions that change nothing
    found = prices("select price, valid_from, valid_until from public.price_changes where sku = 'sku-7' order by 2")
    assert [int(price) for price, _, _ in found] == list(range(50))
    assert all(until == later for (_, _, until), (_, later, _) in pairwise(found))
    assert found[-1][2] is None
