"""Tests that a schema which the parser takes and Avro does not have is a reject, and ends no task."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lockstep.core.pipeline.definition import Append, Avro, Pipeline
from lockstep.formats.avro.decoder import Decoder
from support.fakes.registry import a_record


class Answering:
    def __init__(self, text: str) -> None:
        self._text = text

    def writer(self, _schema_id: int) -> tuple[str, dict[str, str]]:
        return self._text, {}


def outcome(*fields: Any, columns: str = "id string"):
    format_ = Avro(columns)
    take = Decoder(Pipeline("p", "t", format_, Append("public.p")), format_, Answering(json.dumps(a_record(*fields))))  # type: ignore[arg-type]
    return take(None, b"\x00\x00\x00\x00\x01\x02a", None)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([("id", ["null", []])], "a union within a union"),
        ([("id", {"type": "array", "items": ["null", ["string"]]})], "a union within a union"),
        ([("id", "string"), ({"a": 1}, "string")], "a field's name is no text"),
        ([("id", "string"), ([], "string")], "a field's name is no text"),
    ],
)
def test_a_schema_that_avro_does_not_have_is_a_reject_with_its_reason(fields, why):
    assert outcome(*fields).reason == f"schema id 1 cannot be read: ValueError: {why}"


@pytest.mark.parametrize("logical", [[], {}, 1, None, True])
def test_a_logical_type_that_is_no_name_is_ignored(logical):
    assert outcome(("id", {"type": "string", "logicalType": logical})).values == {"id": "a"}


@pytest.mark.parametrize(("precision", "scale"), [(True, 0), (4, 1e999), (4, [])])
def test_a_decimal_whose_sizes_are_no_whole_numbers_is_its_bytes(precision, scale):
    type_ = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    assert outcome(("id", type_), columns="id binary").values == {"id": b"a"}
