"""Tests hostile answers of a registry, columns and forms: each is a reject, a refusal or a value, in time."""

from __future__ import annotations

import json
import time

import pytest

from lockstep.core.errors import BadDefinition, Refusal, Unreachable
from lockstep.core.pipeline.columns import IDENTIFIER
from lockstep.core.pipeline.definition import Append, Avro, Json, Pipeline, Protobuf
from lockstep.core.planning.history import HistoryRun, RequestForm, read_form
from lockstep.core.registry import registry as registry_of
from lockstep.formats.avro.decoder import Decoder
from lockstep.formats.avro.schemas import PROTOBUF, Schemas
from lockstep.formats.protobuf.decoder import MessageDecoder
from lockstep.formats.rows import RecordOutcome
from support.fakes.registry import a_registry
from support.inputs.hostile_settings import ANSWERS, COLUMNS, FORM, GOOD

RECORD = b"\x00\x00\x00\x00\x01\x02a"
OPTIONS = {"max.retries": 0, "timeout": 5}
FIELDS = ("action", "reason", "from_time", "until_time", "from_offsets", "until_offsets", "partition", "preview")


@pytest.fixture(scope="module")
def server():
    with a_registry() as made:
        yield made


def decoder(server) -> Decoder:
    format_ = Avro("id string")
    schemas = Schemas(registry_of(server.url, OPTIONS, str))
    return Decoder(Pipeline("p", "t", format_, Append("public.p")), format_, schemas)


@pytest.mark.parametrize("place", range(len(ANSWERS)))
def test_every_hostile_answer_of_a_registry_is_a_row_a_reject_or_blames_the_registry(server, place):
    assert len(ANSWERS) >= 100
    server.trouble = ANSWERS[place]
    server.asked.clear()
    begun, outcome, blamed = time.monotonic(), None, None

    try:
        outcome = decoder(server)(None, RECORD, None)
    except Unreachable as away:
        blamed = str(away)

    assert time.monotonic() - begun < 10
    assert len(server.asked) < 20
    if blamed is None:
        assert isinstance(outcome, RecordOutcome)
        assert outcome.reason or outcome.values == {"id": "a"}
    else:
        assert "does not answer for" in blamed
        assert "\n" not in blamed


@pytest.mark.parametrize("place", range(0, len(ANSWERS), 3))
def test_an_answer_that_holds_no_descriptors_is_a_reject_or_blames_the_registry(server, place):
    status, body = ANSWERS[place]
    server.trouble = status, body.replace(b'"AVRO"', b'"PROTOBUF"')
    format_, known = Protobuf("id string"), Schemas(registry_of(server.url, OPTIONS, str), PROTOBUF)
    decode = MessageDecoder(Pipeline("p", "t", format_, Append("public.p")), format_, known)
    begun, outcome, blamed = time.monotonic(), None, ""

    try:
        outcome = decode(None, RECORD[:5] + b"\x00\x0a\x01a", None)
    except Unreachable as away:
        blamed = str(away)

    assert time.monotonic() - begun < 10
    assert bool(blamed) != bool(outcome)
    assert outcome is None or outcome.reason
    assert "\n" not in blamed


def test_schemas_that_refer_to_each_other_are_rejects_and_are_asked_for_once(server):
    server.trouble = None
    server.schemas.clear()
    server.versions.clear()
    for name, other in (("A", "B"), ("B", "A")):
        schema = {"type": "record", "name": name, "fields": [{"name": "x", "type": other}]}
        server.register(name, schema, references=[{"name": other, "subject": other, "version": 1}])
    server.asked.clear()

    outcome = decoder(server)(None, RECORD, None)

    assert outcome.reason
    assert len(server.asked) < 10


def test_a_long_chain_of_references_ends(server):
    server.trouble = None
    server.schemas.clear()
    server.versions.clear()
    for n in range(3_000):
        following = {"references": [{"name": f"R{n + 1}", "subject": f"R{n + 1}", "version": 1}]}
        server.register(f"R{n}", json.loads(GOOD) | {"name": f"R{n}"}, **following)
    server.asked.clear()

    outcome = decoder(server)(None, RECORD, None)

    assert "refers to more than" in outcome.reason
    assert len(server.asked) < 200


@pytest.mark.parametrize("place", range(len(COLUMNS)))
def test_hostile_columns_of_a_definition_are_columns_or_refused_in_one_line(place):
    text = COLUMNS[place]
    begun = time.process_time()
    made, refused = (), ""
    try:
        made = Pipeline("p", "t", Json(text), Append("public.p")).columns  # type: ignore[assignment]
    except BadDefinition as answer:
        refused = str(answer)
    assert bool(made) != bool(refused.strip())
    assert all(IDENTIFIER.match(column.name) and column.postgres_type.isascii() for column in made)
    assert "\n" not in refused
    assert len(refused) < 1_000
    assert time.process_time() - begun < 5


@pytest.mark.parametrize("field", FIELDS)
def test_every_hostile_value_of_the_form_is_refused_or_a_bound(field):
    airflow = pytest.importorskip("lockstep.airflow.history.form")
    params = airflow.fields(approval=False)
    plain = {name: param.value for name, param in params.items()} | {"action": "replay", "reason": "r"}
    taken = 0
    for value in FORM:
        try:
            given = params[field].resolve(value)
        except Exception as refused:  # noqa: BLE001 - Airflow's own, whichever it is
            assert type(refused).__name__ == "ParamValidationError", (field, str(value)[:50], refused)  # noqa: PT017
            continue
        refused = ""  # type: ignore[misc]
        try:
            taken += isinstance(read_form(HistoryRun("run", "manual", 0, None, plain | {field: given})), RequestForm)
        except Refusal as answer:
            refused = str(answer)  # type: ignore[misc]
        assert "\n" not in refused  # type: ignore[misc]
        assert len(refused) < 1_000  # type: ignore[misc]
    assert taken < len(FORM) - 20
