"""Holds every `Next:` to the command line: each `lockstep ...` in it must be a command that can be typed."""

from __future__ import annotations

import re
import shlex
from functools import cache
from typing import TYPE_CHECKING

from typer.exceptions import TyperException
from typer.main import get_command

from lockstep.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDS = re.compile(r"[,;] | \(|$")  # behind a command: another one, or words about it
MENTION = re.compile(r"(?<![\w./-])lockstep ")


def commands_in(text: str) -> Iterator[str]:
    """Yields each command that a text names, without the words behind it."""
    for found in MENTION.finditer(text):
        end = ENDS.search(text, found.end())
        yield text[found.start() : end.start() if end else len(text)]


def fault_of(command: str) -> str | None:  # noqa: PLR0911 - one fault a line
    """Returns what is wrong with a command, or None. A value may be a placeholder, such as `NAME` or `...`."""
    try:
        words = shlex.split(command)[1:]
    except ValueError as error:
        return f"{command}: {error}"
    found, path = root(), []
    while words and hasattr(found, "commands") and not words[0].startswith("-"):
        path.append(words.pop(0))
        if path[-1] not in found.commands:
            return f"{command}: there is no command {' '.join(path)}"
        found = found.commands[path[-1]]
    if "--help" in words:
        return None
    if hasattr(found, "commands"):
        return f"{command}: it names no command"
    try:
        context = found.make_context(path[-1], [], resilient_parsing=True)
        context.resilient_parsing = False
        given, rest, _ = found.make_parser(context).parse_args(words)
    except TyperException as error:
        return f"{command}: {error.format_message()}"
    if rest:
        return f"{command}: {' '.join(rest)} is too much"
    missing = [each.name for each in found.params if each.required and not given.get(each.name)]
    return f"{command}: {', '.join(missing)} is missing" if missing else None


@cache
def root():
    """Returns the group of all commands."""
    return get_command(app)


def faults_of(text: str) -> list[str]:
    """Lists what is wrong with the commands of a text."""
    return [fault for command in commands_in(text) if (fault := fault_of(command))]
