"""Tests a batch in a notebook: its rows as a pandas frame, with values, types and order, and what is refused."""

from __future__ import annotations

import json

import pytest

import lockstep
from lockstep.core.errors import Refusal


@pytest.fixture
def notebook(here, monkeypatch):
    """Returns the drill's pipeline with the settings that a notebook would have."""
    monkeypatch.setenv("LOCKSTEP_DSN", here.drill.dsn)
    monkeypatch.setenv("LOCKSTEP_KAFKA", here.drill.kafka)
    return here


def test_the_rows_of_each_batch_are_those_that_the_table_has_of_it(notebook, produce):
    notebook.drain()
    produce(notebook.drill.topic, [("k", json.dumps({"id": f"late{n}", "n": n})) for n in range(3)])
    notebook.drain()
    batches = [batch for batch, _ in notebook.drill.committed()]
    assert len(batches) > 1
    seen = []
    for batch in batches:
        frame = lockstep.rows("drill", batch=batch)
        wanted = notebook.drill.ask(
            "select * from public.drill where _batch = %s order by _stream, _offset, _ordinal", batch
        )
        assert [tuple(row) for row in frame.itertuples(index=False, name=None)] == wanted
        assert list(frame.columns)[:2] == ["id", "n"]
        assert set(frame["_batch"]) == {batch}
        seen += list(frame["id"])
    assert sorted(seen) == sorted(id_ for (id_,) in notebook.drill.ask("select id from public.drill"))


def test_what_is_no_committed_batch_of_the_pipeline_is_refused(notebook):
    notebook.plan()
    ((planned,),) = notebook.drill.ask("select max(batch_id) from lockstep.batch")
    with pytest.raises(Refusal, match=f"batch {planned} of drill is planned, not committed"):
        lockstep.rows("drill", batch=planned)
    with pytest.raises(Refusal, match="pipeline drill has no batch 4711") as refused:
        lockstep.rows("drill", batch=4711)
    assert refused.value.next_command == "lockstep batches drill"
    with pytest.raises(Refusal, match=r"drill writes no table public\.other; it writes public\.drill"):
        lockstep.rows("drill", batch=planned, table="public.other")
    with pytest.raises(Refusal, match="no pipeline 'nobody'"):
        lockstep.rows("nobody", batch=1)
