"""`lockstep new` lays out a pipeline that works as it is, or writes nothing."""

from __future__ import annotations

import pytest

from command_line import assert_refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("../etc", "--topic", "t"), ["name '../etc': lower case letters"]),
        (("Sales", "--topic", "t"), ["name 'Sales': lower case letters"]),
        (("sales", "--topic", "a b"), ["topic 'a b' is no legal topic name"]),
        (("sales", "--topic", "t", "--columns", "a"), ["schema: 'a' is not `name type`"]),
        (("sales", "--topic", "t", "--columns", "a text"), ["column 'a': type 'text' is not one of"]),
        (("sales", "--topic", "t", "--columns", 'a"b int'), ["column 'a\"b'"]),
        (("sales", "--topic", "t", "--columns", "a int, a int"), ["column 'a' stands there twice"]),
        (("sales", "--topic", "t", "--columns", ""), ["schema: '' is not `name type`"]),
        (("sales", "--topic", "t", "--key", "nr"), ["format.key: 'nr' is not a column of the schema (id, at)"]),
        (("sales", "--topic", "t", "--table", "sales"), ["target.table 'sales': it must be schema.table"]),
        (("orders", "--topic", "t"), ["include/pipelines/orders is there already", "Next: lockstep check orders"]),
    ],
    ids=" ".join,
)
def test_new_refuses_before_it_writes_anything(lockstep, arguments, words):
    lockstep.define()
    before = lockstep.tree()
    assert_refused(lockstep("new", *arguments), *words)
    assert lockstep.tree() == before
    assert [place.name for place in lockstep.pipelines.iterdir()] == ["orders"]


def test_a_folder_that_cannot_be_written_is_said(lockstep):
    (lockstep.pipelines / ".sales.new").write_text("in the way")
    assert_refused(lockstep("new", "sales", "--topic", "t"), "include/pipelines/sales cannot be written")
