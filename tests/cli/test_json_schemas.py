"""Tests that every command with `--json` has a closed schema in docs/json, in which each field has a meaning."""

from __future__ import annotations

import json
import re

import pytest
from jsonschema import Draft202012Validator
from typer.main import get_command

from lockstep.cli.app import app
from support.oracles.documents import SCHEMAS, held

PAGE = SCHEMAS / "README.md"
FILES = sorted(SCHEMAS.glob("*.schema.json"))


def names(group=None, before=""):
    """Yields the name of every command that takes --json: `run`, and `dev-topic` for one of a group."""
    for name, command in (group or get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from names(command, f"{before}{name}-")
        elif any("--json" in parameter.opts for parameter in command.params):
            yield f"{before}{name}"


def parts(schema):
    """Yields every part of a schema."""
    yield schema
    for part in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(part, dict | list):
            yield from parts(part)


def is_object(part):
    return isinstance(part, dict) and "object" in (kinds if isinstance(kinds := part.get("type"), list) else [kinds])


def test_each_command_has_a_schema_and_a_line_on_the_page():
    has_one = {file.name.removesuffix(".schema.json") for file in FILES}
    listed = re.findall(r"^\| `(.+?)` \| \[.+?\]\((.+?)\.schema\.json\) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)

    assert has_one == {"error", *names()}
    assert sorted(name for _, name, _ in listed) == sorted(has_one)
    for title, name, says in listed:
        schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
        assert (schema["title"], schema["description"]) == (title, says)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.partition(".")[0])
def test_each_schema_is_valid_closed_and_says_what_each_field_means(file):
    schema = json.loads(file.read_text())
    Draft202012Validator.check_schema(schema)

    for part in filter(is_object, parts(schema)):
        fields = part.get("properties", {})
        assert (part["additionalProperties"] is False) == bool(fields), part
        assert fields or part["description"], part
        for name, field in fields.items():
            meaning = field if "$ref" not in field else schema["$defs"][field["$ref"].rpartition("/")[2]]
            assert meaning.get("description", "").endswith("."), (name, field)


@pytest.mark.parametrize(
    ("arguments", "document"),
    [
        (("pause", "orders"), {"pipeline": "orders", "paused": True, "changed": True, "forgotten": 1}),
        (("pause", "orders"), {"pipeline": "orders", "paused": True}),
        (("pause", "orders"), {"pipeline": "orders", "paused": "yes", "changed": True}),
        (("dev", "topic", "t"), {"topic": "t", "partitions": 4, "created": True, "kafka": "k"}),
        (("migrate",), {"applied": [{"version": 1, "name": "plans", "took": 1.0}]}),
        (("batches", "nope"), {"error": 1, "next": None}),
    ],
)
def test_a_forgotten_a_missing_and_a_wrong_field_are_faults(arguments, document):
    with pytest.raises(AssertionError):
        held(arguments, document)
