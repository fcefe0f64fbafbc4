"""Tests that texts of records and people reach a terminal in a form that it does not obey."""

from __future__ import annotations

import json
import os
import subprocess
import sys

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


SAYING = """
import sys
from lockstep.cli import app, output
app.write_any_text()
output.say("caf\\xe9 \\u6771") if len(sys.argv) < 2 else app.main()
"""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_standard_output_without_a_letter_writes_it_out_and_json_stays_json(tmp_path, encoding):
    (tmp_path / "include" / "pipelines").mkdir(parents=True)

    def said(*words: str) -> bytes:
        environ = os.environ | {"PYTHONIOENCODING": encoding, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", SAYING, *words]
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, timeout=60, check=False)
        assert b"Traceback" not in done.stderr, done.stderr
        return done.stdout

    assert said() == "caf\u00e9 \u6771\n".encode(encoding, "backslashreplace")
    assert (
        json.loads(said("status", "caf\u00e9\u6771", "--json"))["error"]
        == "no pipeline 'caf\u00e9\u6771'; there are: none"
    )
