"""Keeps the docstrings of the product plain: short sentences, verb first, no semicolons, no riddles."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from lockstep.cli.app import app

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "include" / "lockstep"
RIDDLES = {"What", "Whether", "How", "Where", "Which", "Who", "Whose", "Why", "Whatever", "Whoever"}
MOST_WORDS = 20
WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
ROOMS = {
    **{room.name: sorted(room.rglob("*.py")) for room in sorted(ENGINE.iterdir()) if room.is_dir()},
    "lockstep": sorted(ENGINE.glob("*.py")),
    **{name: sorted((ROOT / name).rglob("*.py")) for name in ("include/pipelines", "dags", "plugins", "spark_jobs")},
}


def module_of(file):
    return "lockstep." + ".".join(file.relative_to(ENGINE).with_suffix("").parts) if file.is_relative_to(ENGINE) else ""


def first_word(said):
    return said.split()[0].strip(",.:;")


def sentences(said):
    """Returns the sentences of all paragraphs. One ends at a full stop that a small letter does not follow."""
    for paragraph in re.split(r"\n\s*\n", said):
        yield from re.split(r"(?<=[.!?])\s+(?=[^a-z])", " ".join(paragraph.split()))


def commands(typer):
    """Returns module and name of each command. Its docstring is its help, which gives an order as every help does."""
    own = [command.callback for command in typer.registered_commands]
    return {(each.__module__, each.__name__) for each in own}.union(
        *(commands(group.typer_instance) for group in typer.registered_groups)
    )


def faults(source, helps=()):
    """Yields each docstring that breaks a rule, with the rule. `helps` are names of commands."""
    for node in ast.walk(ast.parse(source)):
        said = ast.get_docstring(node) if isinstance(node, WITH_DOCSTRINGS) else None
        if said is None:
            continue
        shown = said.splitlines()[0]
        for sentence in sentences(said):
            if first_word(sentence) in RIDDLES:
                yield f"begins with a question word: {sentence}"
            if len(sentence.split()) > MOST_WORDS:
                yield f"has a sentence of more than {MOST_WORDS} words: {sentence}"
        if ";" in said:
            yield f"has a semicolon: {shown}"
        if isinstance(node, FUNCTIONS) and not first_word(said).endswith("s") and node.name not in helps:
            yield f"does not begin with a verb in the third person: {shown}"


COMMANDS = commands(app)


@pytest.mark.parametrize("room", ROOMS)
def test_each_docstring_is_plain(room):
    found = []
    for file in ROOMS[room]:
        helps = {name for module, name in COMMANDS if module == module_of(file)}
        found += [(file.name, fault) for fault in faults(file.read_text(encoding="utf-8"), helps)]
    assert found == []


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("How far a stream is.", "begins with a question word"),
        ("Returns the rows. What waits is left out.", "begins with a question word"),
        ("Returns the rows.\n\n    Where nothing waits, returns none.", "begins with a question word"),
        ("Returns the rows; none before the first batch.", "has a semicolon"),
        ("Returns the rows.\n\n    The rows are sorted; none is empty.", "has a semicolon"),
        (f"Returns {'very ' * 19}much.", "has a sentence of more than 20 words"),
        (f"Returns much. Returns {'very ' * 19}much.", "has a sentence of more than 20 words"),
        ("The rows of the batch.", "does not begin with a verb"),
    ],
)
def test_a_docstring_that_is_not_plain_is_named(said, fault):
    assert [found for found in faults(f'def rows():\n    """{said}"""\n') if found.startswith(fault)]


@pytest.mark.parametrize(
    "source",
    [
        f'def rows():\n    """Returns {"very " * 18}much. Returns {"very " * 18}much."""\n',
        'class Rows:\n    """The rows of a batch."""\n',
        'def pause():\n    """Stop new batches."""\n',
    ],
    ids=["twenty words", "a class", "a command"],
)
def test_a_plain_docstring_is_not_named(source):
    assert list(faults(source, {"pause"})) == []
