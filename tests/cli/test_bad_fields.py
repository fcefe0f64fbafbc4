"""Tests the definitions of bad_fields.txt: `check` names each bad field in one line, and never raises."""

from __future__ import annotations

from pathlib import Path

from support.scenes.command_line import TARGET

TABLE = Path(__file__).with_name("bad_fields.txt").read_text(encoding="utf-8")
FIELDS = [line.split(" | ", 1) for line in TABLE.splitlines() if line and line[0] != "#"]
DEFINITION = """
from lockstep.core.pipeline.definition import *
SOUND = dict(
    name="orders", topic="t", format=Json("id string, n int", key="id"), target=Upsert("public.orders", key=("id",))
)
P = Pipeline(**(SOUND | dict({})))
"""


def test_each_bad_field_is_one_line_that_names_it(lockstep):
    lockstep.define(init=DEFINITION.format(""), target=TARGET)
    assert lockstep("check", "orders").code == 0
    assert len(FIELDS) > 75
    for given, fault in FIELDS:
        lockstep.define(init=DEFINITION.format(given))
        said = lockstep("check", "orders")
        assert (said.code, said.out, said.err.count("\n")) == (1, "", 1), (given, said)
        place, _, message = said.err.partition("__init__.py:")
        assert place == "orders: include/pipelines/orders/", (given, said.err)
        assert message.lstrip("0123456789: ").startswith(fault), (given, said.err)
        assert "TypeError" not in message or "unexpected keyword argument" in message, (given, said.err)
