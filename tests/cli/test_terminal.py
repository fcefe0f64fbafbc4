"""Tests that texts of records and people reach a terminal in a form that it does not obey."""

from __future__ import annotations

import pytest

from lockstep.cli.batches.rejecting import preview_of
from lockstep.cli.looks.tracing import _say_row
from lockstep.cli.output import say, say_table, say_warnings
from lockstep.core.text import printable_line

HOSTILE = {
    "escape": ("\x1b]0;PWNED\x07\x1b[2J", "\\x1b]0;PWNED\\x07\\x1b[2J"),
    "c1": ("\x9b31m\x9d0;x\x9c", "\\x9b31m\\x9d0;x\\x9c"),
    "bidi": ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
    "carriage": ("fine\rforged", "fine\\rforged"),
    "surrogate": ("\ud800", "\\ud800"),
    "zero width": ("a\u200bb\ufeff", "a\\u200bb\\ufeff"),
    "line separator": ("a\u2028b", "a\\u2028b"),
    "delete": ("\x7f\x08", "\\x7f\\x08"),
    "markup": ("[red]no[/red] [link=x]", "[red]no[/red] [link=x]"),
    "letters": ("Zürich 東京 🙂", "Zürich 東京 🙂"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_each_way_to_a_terminal_writes_it_out(capsys, name):
    given, shown = HOSTILE[name]
    say(f"rejected: {given}")
    say_table(["column", "value"], [["a", given], [given, 1]])
    _say_row({"note": given, given: "x", "list": [given]})
    say_warnings([{"message": given, "next": "lockstep status"}])
    said = capsys.readouterr()
    for text in (said.out, said.err):
        assert all(line.isprintable() for line in text.split("\n")), text
    assert said.out.count(shown) == 6
    assert said.err.count(shown) == 1
    assert printable_line(given) == shown
    if name != "surrogate":
        assert preview_of(given.encode(), len(given.encode())) == shown


def test_a_line_break_in_a_value_begins_no_row(capsys):
    say_table(["value"], [["one\ntwo"]])
    assert capsys.readouterr().out.splitlines() == ["value", "one\\ntwo"]
    say("two lines\nof the command's own")
    assert capsys.readouterr().out == "two lines\nof the command's own\n"
