"""Tests that the session in which a suite is judged changes nothing."""

from __future__ import annotations

import psycopg2.errors
import pytest

from lockstep.steps.batch.expectations import _as_judge


@pytest.mark.parametrize(
    "statement",
    ["select nextval('lockstep.token_seq')", "create temp table t (a int)"],
)
def test_the_judge_writes_nothing_whatever_its_suite_says(database, statement):
    conn = _as_judge(database, is_hidden=False)
    with conn.cursor() as cur, pytest.raises(psycopg2.errors.ReadOnlySqlTransaction):
        cur.execute(statement)
    conn.close()
