"""Tests that formats and the envelope refuse nonsense at birth, and name the columns that they give."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep.adapters.folders import load
from lockstep.core.errors import BadData, BadDefinition, Unreachable, said_in
from lockstep.core.pipeline.columns import Column
from lockstep.core.pipeline.definition import Append, Avro, Custom, Envelope, Json, Pipeline, Protobuf, Raw, Upsert

GOOD: dict[str, Any] = {"name": "p", "topic": "t", "target": Append("public.p")}


@pytest.mark.parametrize(
    ("nonsense", "named"),
    [
        (lambda: Json("id string", strict=True, rest="extra"), "format.strict and format.rest"),
        (lambda: Json("id string, extra int", rest="extra"), "format.rest: column 'extra' is int"),
        (lambda: Json("id string", rest="Extra"), "format.rest is 'Extra'"),
        (lambda: Json("id string", rest="_reason"), "_reason"),
        (lambda: Json("id string, extra string", key="extra", rest="extra"), "format.key"),
        (lambda: Avro("id string", key="no"), "format.key"),
        (lambda: Avro("id string", subject=""), "format.subject"),
        (lambda: Avro("id uuid"), "uuid"),
        (lambda: Avro("id string", rest="Extra"), "format.rest"),
        (lambda: Protobuf("id string", key="no"), "format.key"),
        (lambda: Protobuf("id string", subject=""), "format.subject"),
        (lambda: Protobuf("id string", rest="Extra"), "format.rest"),
        (lambda: Protobuf("id string", message="shop..Order"), "format.message is 'shop..Order'"),
        (lambda: Protobuf("id string", message=".shop.Order"), "format.message is '.shop.Order'"),
        (lambda: Protobuf(""), "schema"),
        (lambda: Raw("Value"), "Value"),
        (lambda: Custom("id string", function="a.b"), "format.function"),
        (lambda: Custom("id"), "id"),
        (Envelope, "envelope: it names no column"),
        (lambda: Envelope(key="k int"), "envelope.key: 'k' is int"),
        (lambda: Envelope(key="k string, l string"), "envelope.key"),
        (lambda: Envelope(timestamp="_timestamp"), "_timestamp"),
        (lambda: Envelope(key="a", offset="a"), "'a' stands there twice"),
        (lambda: Pipeline(format=Raw(), envelope=Envelope(headers="value"), **GOOD), "envelope: column 'value'"),
        (
            lambda: Pipeline(format=Json("id string", rest="r"), envelope=Envelope(key="r"), **GOOD),
            "'r' stands there twice",
        ),
        (lambda: Pipeline(format=Raw(), envelope="key", **GOOD), "envelope is 'key'"),  # type: ignore[arg-type]
    ],
)
def test_nonsense_is_refused_by_the_name_of_its_field(nonsense, named):
    with pytest.raises(BadDefinition, match=named):
        nonsense()


def test_the_rest_stands_where_the_schema_has_it_else_behind():
    assert Json("extra string, id string", rest="extra").columns == (Column("extra", "string"), Column("id", "string"))
    assert Avro("id string", rest="extra").columns == (Column("id", "string"), Column("extra", "string"))
    assert Json("extra string, id string", rest="extra").declared == (Column("id", "string"),)


def test_the_envelopes_columns_stand_behind_the_formats():
    whole = Envelope(key="k binary", timestamp="at", headers="h", partition="part", offset="nr")
    assert [(c.name, c.type) for c in Pipeline(format=Raw("body"), envelope=whole, **GOOD).columns] == [
        ("body", "binary"),
        ("k", "binary"),
        ("at", "timestamp"),
        ("h", "string"),
        ("part", "int"),
        ("nr", "bigint"),
    ]
    assert Envelope(key="k").columns == (Column("k", "string"),)


def test_only_a_format_that_knows_its_key_or_decodes_itself_deletes():
    target = Upsert("public.p", key=("id",))
    taken = {
        kind: Pipeline("p", "t", format_, target).takes_tombstones  # type: ignore[arg-type]
        for kind, format_ in {
            "avro": Avro("id string", key="id"),
            "avro without": Avro("id string"),
            "protobuf": Protobuf("id string", key="id"),
            "protobuf without": Protobuf("id string"),
            "json by registry": Json("id string", key="id", registry=True),
            "json by registry without": Json("id string", registry=True),
            "raw": Raw("id"),
            "own": Custom("id string"),
            "own without": Custom("n string"),
        }.items()
    }
    assert {kind for kind, takes in taken.items() if takes} == {"avro", "protobuf", "json by registry", "own"}


def test_what_a_definition_does_not_say_is_not_in_its_document():
    plain = Pipeline(format=Json("id string"), **GOOD).document()
    assert plain["format"] == {"kind": "Json", "schema": "id string", "key": None}
    assert "envelope" not in plain
    said = Pipeline(format=Json("id string", strict=True), envelope=Envelope(key="k"), **GOOD).document()
    assert said["format"]["strict"]
    assert said["envelope"]["key"] == "k"


def test_a_definitions_name_hangs_on_its_decoder(tmp_path, monkeypatch):
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from lockstep.core.pipeline.definition import Append, Custom, Pipeline\n"
        'P = Pipeline(name="p", topic="t", format=Custom("id string"), target=Append("public.p"))\n'
    )
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(tmp_path))
    without = load("p").content_hash()
    (folder / "decode.py").write_text("def decode(key, value, headers):\n    return None\n")
    first = load("p")
    (folder / "decode.py").write_text("def decode(key, value, headers):\n    return {}\n")
    assert len({without, first.content_hash(), load("p").content_hash()}) == 3
    assert first.document()["decode"].startswith("def decode")


def test_an_error_is_the_same_again_out_of_a_traceback():
    for error in (BadData("a: b", next_command="do"), Unreachable("away")):
        again = said_in(f"lockstep.core.errors.{type(error).__name__}: {error}")
        assert (type(again), str(again)) == (type(error), str(error))
    assert said_in("ValueError: lockstep.core.errors.BadData") is None
    assert said_in("lockstep.core.errors.BadData") is None
