"""Tests that `check` says of a definition what its next plan would say: another topic, target or guarantee is no longer it."""

from __future__ import annotations

import pytest

TABLE = 'Append("public.drill")'


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (TABLE, 'Append("public.other")', "its target was"),
        (TABLE, 'Upsert("public.drill", key=("id",))', "its target was"),
        (f"target={TABLE},", f"target={TABLE}, guarantee=PerPartition(),", "its guarantee was"),
        ('topic="', 'topic="another-', "its topic was"),
    ],
    ids=["another table", "another kind", "another guarantee", "another topic"],
)
def test_a_definition_that_no_plan_takes_any_more_is_a_fault(lockstep, here, before, after, said):
    here.drain()
    assert lockstep("check", "drill").out.startswith("drill: ok;")
    file = here.drill.home / "drill" / "__init__.py"
    text = file.read_text().replace("import Append,", "import Append, PerPartition, Upsert,")
    assert before in text
    file.write_text(text.replace(before, after))
    if "public.other" in after:
        table = file.with_name("target.sql")
        table.write_text(table.read_text().replace("public.drill", "public.other"))

    found = lockstep("check", "drill")

    assert found.code == 1
    (line,) = [line for line in found.err.splitlines() if line.startswith(f"drill: {said}")]
    assert "Next: put it back, or lockstep " in line
    planned = lockstep("run", "drill").err
    assert line.split(";")[0] == planned.split(";")[0] or "is not on the broker" in planned
