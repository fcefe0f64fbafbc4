"""Tests that a real Airflow changes a table to its definition, once somebody has approved the statements he was shown."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dags.one_airflow.test_history import History
from lockstep.dev.servers.airflow_settings import REVIEWER, USER

pytestmark = [pytest.mark.timeout(1000), pytest.mark.long]
PLAIN = """
from lockstep import Append, Json, Pipeline
P = Pipeline(
    name="{name}", topic="{topic}", format=Json("id string, n int"), target=Append("public.{name}"), owner="tests",
    start="{start}",
)
"""
TABLE = """create table if not exists public.{name} (id text, n int, _stream int4 not null, _offset int8 not null,
    _ordinal int4 not null, _batch int8 not null, primary key (_stream, _offset, _ordinal));"""
COLUMNS = """select attname, format_type(atttypid, atttypmod) from pg_attribute
    where attrelid = 'public.grown'::regclass and attnum > 0 and not starts_with(attname, '_') order by attnum"""


class Grown(History):
    """A pipeline whose definition has grown by a column that its table lacks."""

    def __init__(self, house, name: str) -> None:
        self.house, self.api, self.dag_id = house, house.api, f"{name}_history"
        self.live = house.pipeline(name, past=[datetime.now(UTC)] * 2, plain=(PLAIN, TABLE))
        self.rewrite("id string, n int", "id string, n bigint, note string")

    def rewrite(self, old: str, new: str) -> None:
        """Deploys another schema."""
        file = self.house.place.pipelines / self.live.name / "__init__.py"
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))


def test_a_table_is_changed_once_somebody_has_approved_the_statements_that_were_shown(house):
    grown = Grown(house, "grown")
    asked = grown.trigger(action="migrate", preview=True, reason="notes")
    assert grown.over(asked) == "success"
    shown = str(grown.api.xcom(grown.dag_id, asked, "ask", "shown"))
    digest = shown.split("**")[1]
    assert 'alter table "public"."grown" add column if not exists "note" text' in shown.replace("\\", "")
    assert grown.live.ask(COLUMNS) == [("id", "text"), ("n", "integer")]

    refused = grown.trigger(action="migrate", approval=True, digest="0" * 64, reason="notes")
    assert grown.over(refused) == "failed"

    asked = grown.trigger(action="migrate", approval=True, digest=digest, reason="notes")
    assert digest in grown.until_asked(asked)
    grown.answer(asked, "Approve")
    assert grown.over(asked) == "success"
    assert grown.live.ask(COLUMNS) == [("id", "text"), ("n", "bigint"), ("note", "text")]
    assert grown.decisions() == [
        ("approve", f"{REVIEWER}@{grown.dag_id}", "approved as shown"),
        ("alter", f"{USER}@{grown.dag_id}", "notes"),
    ]
