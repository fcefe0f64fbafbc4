"""Holds the JSON of every command to its schema in docs/json, whichever test asks for it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).parents[3] / "docs" / "json"
GROUPS = {"dev"}


def command_of(arguments: tuple[str, ...]) -> str:
    """Returns the command's name: `run`, or `dev-topic` for one of a group."""
    words = [each for each in arguments if not each.startswith("-")]
    return "-".join(words[:2]) if words[0] in GROUPS else words[0]


def held(arguments: tuple[str, ...], document: Any) -> Any:
    """Returns the document of a call. Fails if it does not fit the schema of its command, or that of an error."""
    name = "error" if document.keys() == {"error", "next"} else command_of(arguments)
    faults = [
        f"{'.'.join(map(str, fault.path)) or name}: {fault.message}"
        for whole in schema(name).iter_errors(document)
        for fault in (whole, *(whole.context or ()))
    ]
    assert not faults, (arguments, faults[:5])
    return document


@cache
def schema(name: str) -> Draft202012Validator:
    """Returns the schema of a command's document."""
    return Draft202012Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8")))
