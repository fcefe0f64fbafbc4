"""Tests that each command behind a `Next:` can be typed, in every line of the code that writes one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import lockstep
from lockstep.cli.examples import EXAMPLES
from support.oracles.next_commands import fault_of, faults_of, root

CODE = Path(lockstep.__file__).parent
PART = "X"  # what stands for the parts of a text that are only known when it is said


def text_of(node):
    """Returns the text that an expression gives, or an empty one."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(text_of(value) or PART for value in values)
        case ast.BinOp(left=left, right=right):
            return text_of(left) + text_of(right)
        case _:
            return ""


def next_commands():
    """Yields each text that is given as `next_command`, with its place."""
    for file in sorted(CODE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "next_command":
                either = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
                for each in either:
                    yield f"{file.relative_to(CODE)}:{node.value.lineno}", text_of(each)


def test_each_next_command_of_the_code_can_be_typed():
    found = list(next_commands())
    assert len(found) > 150
    wrong = [(place, fault) for place, text in found for fault in faults_of(text)]
    assert [each for each in wrong if not each[1].endswith(f": {PART} is too much")] == []


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("lockstep run orders --until-idle", None),
        ("lockstep accept-loss orders --partition 3 --from 17 --until 20 --reason ...", None),
        ("lockstep dev produce NAME --from FILE.jsonl", None),
        ("lockstep batch --help", None),
        ("lockstep new NAME", "lockstep new NAME: topic is missing"),
        ("lockstep rnu orders", "lockstep rnu orders: there is no command rnu"),
        ("lockstep dev prodcue orders", "there is no command dev prodcue"),
        ("lockstep dev", "it names no command"),
        ("lockstep run orders again", "again is too much"),
        ("lockstep run orders --until-idel", "No such option: --until-idel"),
        ("lockstep skip orders --to", "Option '--to' requires an argument"),
    ],
)
def test_a_command_that_cannot_be_typed_is_told(command, fault):
    found = fault_of(command)
    assert found == fault if fault is None else fault in found


def paths_of(group, before=""):
    """Yields each command as it is typed behind `lockstep`."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from paths_of(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_each_command_has_an_example_that_can_be_typed_at_the_end_of_its_help():
    every = dict(paths_of(root()))

    assert set(EXAMPLES) == set(every)
    for path, example in EXAMPLES.items():
        command = re.sub(r'^eval "\$\((.+)\)"$', r"\1", example)
        assert f"{command} ".startswith(f"lockstep {path} ")
        assert fault_of(command) is None
        with every[path].make_context(f"lockstep {path}", [], resilient_parsing=True) as context:
            assert " ".join(every[path].get_help(context).split()).endswith(f"Example: {example}")
