"""Calls the command line as a user does, in this process."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.cli.app import main
from lockstep.cli.exits import Exit
from support.oracles.documents import held
from support.oracles.next_commands import faults_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

DEFINITION = """
from lockstep.core.pipeline.definition import Json, Pipeline, Upsert
ORDERS = Pipeline(
    name="orders",
    topic="orders.v1",
    format=Json("id string, n int", key="id"),
    target=Upsert("public.orders", key=("id",)),
)
"""
TARGET = """
create table if not exists public.orders (
    id text primary key, n int, _stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null
);
"""


@dataclass(frozen=True)
class Said:
    """The result of a call."""

    code: int
    out: str
    err: str
    arguments: tuple[str, ...]

    @property
    def document(self):
        """Returns the JSON on standard output, which fits the command's schema."""
        document = json.loads(self.out)
        return document if "certificate" in document else held(self.arguments, document)


class CommandLine:
    """A way to call `lockstep …` with a separate environment and folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], home: Path) -> None:
        self.monkeypatch = monkeypatch
        self.capsys = capsys
        self.home = home
        self.pipelines = home / "include" / "pipelines"
        self.pipelines.mkdir(parents=True)
        for variable in (
            "LOCKSTEP_DSN",
            "LOCKSTEP_KAFKA",
            "LOCKSTEP_KAFKA_CONFIG",
            "LOCKSTEP_REGISTRY",
            "LOCKSTEP_REGISTRY_CONFIG",
            "LOCKSTEP_PIPELINES",
            "LOCKSTEP_HOME",
        ):
            monkeypatch.delenv(variable, raising=False)
        (home / ".lockstep").mkdir()
        monkeypatch.chdir(home)

    def __call__(self, *arguments: str) -> Said:
        self.monkeypatch.setattr(sys, "argv", ["lockstep", *arguments])
        self.capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1 if ended.code else 0
        captured = self.capsys.readouterr()
        return Said(code, captured.out, captured.err, arguments)

    def environ(self, **variables: str) -> None:
        for name, value in variables.items():
            self.monkeypatch.setenv(name, value)

    def define(self, name: str = "orders", **files: str) -> Path:
        """Writes a pipeline's folder. `init` and the like stand for files that a keyword cannot name."""
        folder = self.pipelines / name
        folder.mkdir(exist_ok=True)
        texts = {"init": DEFINITION, "target": TARGET} | files
        names = {
            "init": "__init__.py",
            "target": "target.sql",
            "expectations": "expectations.json",
            "transform": "transform.py",
            "decode": "decode.py",
        }
        for key, text in texts.items():
            (folder / names[key]).write_text(text)
        return folder

    def tree(self) -> dict[str, bytes]:
        """Returns every file below the pipelines, with its contents."""
        return {str(p.relative_to(self.pipelines)): p.read_bytes() for p in self.pipelines.rglob("*") if p.is_file()}


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Makes standard output a terminal of this width for the next calls.

    Do not call it in a fixture, which has another standard output.
    """
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def without_styles(text: str) -> str:
    """Returns the text that a terminal shows, without styles."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def assert_refused(said, *words: str, code: int = Exit.REFUSED):
    assert said.code == code, said
    assert said.err.count("\n") == 1, said.err
    assert "Traceback" not in said.err
    for word in words:
        assert word in said.err
    assert faults_of(said.err.partition("  Next: ")[2]) == []
    assert said.out == ""


def assert_away(said, *words: str):
    assert_refused(said, *words, code=Exit.AWAY)


def assert_wrong_call(said, *words: str):
    assert_refused(said, *words, code=Exit.USAGE)
