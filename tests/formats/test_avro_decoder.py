"""Tests Avro by the writer's schema: undecodable bytes are a reject, an absent registry is no fault of theirs."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from lockstep.core.errors import BadData, Unreachable
from lockstep.core.pipeline.definition import Append, Avro, Pipeline, Upsert
from lockstep.core.registry import registry as registry_of
from lockstep.formats.avro.decoder import Decoder
from lockstep.formats.avro.schemas import Schemas
from lockstep.formats.rows import RecordOutcome
from support.fakes.registry import a_record, a_registry

QUICK: dict[str, Any] = {"max.retries": 0, "timeout": 5}
OLD = a_record(("id", "string"), ("amount", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}))
NEW = a_record(*((f["name"], f["type"]) for f in OLD["fields"]), ("note", ["null", "string"]), ("n", "int"))


@pytest.fixture
def registry():
    with a_registry() as made:
        yield made


def decoder(registry, columns="id string, amount decimal(12,2), note string", options=None, target=None, **more: Any):
    format_ = Avro(columns, **more)
    pipeline = Pipeline("p", "t", format_, target or Append("public.p"))
    return Decoder(pipeline, format_, Schemas(registry_of(registry.url, options or QUICK, str)))


def test_two_writers_in_one_batch_are_each_read_by_their_own_schema(registry):
    old, new = registry.register("t-value", OLD), registry.register("t-value", NEW)
    decode = decoder(registry)
    first = decode(None, registry.encode(old, {"id": "a", "amount": Decimal("1.50")}), None)
    second = decode(None, registry.encode(new, {"id": "b", "amount": Decimal(2), "note": "x", "n": 1}), None)
    assert first.values == {"id": "a", "amount": Decimal("1.50")}
    assert second.values == {"id": "b", "amount": Decimal("2.00"), "note": "x"}
    decode(None, registry.encode(old, {"id": "a", "amount": Decimal("1.50")}), None)
    assert registry.asked == [f"/schemas/ids/{old}", f"/schemas/ids/{new}"], "each schema is asked for once"


def test_fields_without_a_column_are_gathered_where_there_is_a_rest(registry):
    new = registry.register("t-value", NEW)
    decode = decoder(registry, "id string", rest="extra")
    value = registry.encode(new, {"id": "b", "amount": Decimal("2.50"), "note": None, "n": 1})
    assert decode(None, value, None).values == {"id": "b", "extra": '{"amount":"2.50","note":null,"n":1}'}
    plain = registry.register("t-value", a_record(("id", "string")))
    assert decode(None, registry.encode(plain, {"id": "b"}), None).values.get("extra") is None


def test_bytes_that_are_no_record_of_a_known_schema_are_rejects(registry):
    old = registry.register("t-value", OLD)
    primitive = registry.register("t-value", "string")
    other = registry.register("t-value", {"type": "object"}, schemaType="JSON")
    days = registry.register("t-value", a_record(("id", {"type": "int", "logicalType": "date"})))
    good = registry.encode(old, {"id": "a", "amount": Decimal("1.50")})
    decode = decoder(registry)
    for value, reason in (
        (None, "null value"),
        (b"", "not Confluent's wire format"),
        (b'{"id":"a"}', "not Confluent's wire format"),
        (good[:4], "not Confluent's wire format"),
        (good[:-1], f"does not decode by schema id {old}"),
        (good + b"x", f"does not decode by schema id {old}: bytes follow the record"),
        (b"\x00" + (999).to_bytes(4, "big") + good[5:], "schema id 999 is not in the registry"),
        (b"\x00" + primitive.to_bytes(4, "big") + b"\x02a", f"schema id {primitive} is string, not a record"),
        (b"\x00" + other.to_bytes(4, "big") + b"\x02a", f"schema id {other} is JSON, not Avro"),
        (registry.encode(old, {"id": "\x00", "amount": Decimal(0)}), "column id: holds \\u0000"),
        (good[:7] + b"\x0c" + b"\x7f" * 6, f"does not decode by schema id {old}: ValueError: 15 digits"),
    ):
        outcome = decode(None, value, None)
        assert outcome.values == {}
        assert reason in outcome.reason, (value, outcome.reason)
    too_late = b"\x00" + days.to_bytes(4, "big") + b"\xfe\xff\xff\xff\x0f"
    assert "does not decode" in decoder(registry, "id date")(None, too_late, None).reason
    assert decode(None, good, None).reason is None


def test_an_int_that_is_none_is_a_reject(registry):
    whole = registry.register("t-value", a_record(("n", "int")))
    head = b"\x00" + whole.to_bytes(4, "big")
    outcome = decoder(registry, "n int")(None, head + b"\xfe\xff\xff\xff\x7f", None)
    assert "column n: does not fit int" in outcome.reason


def test_a_decimal_without_a_precision_is_bytes_as_the_specification_has_it(registry):
    type_ = ["null", {"type": "bytes", "logicalType": "decimal"}]
    loose = registry.register("t-value", a_record(("id", "string"), ("raw", type_)))
    value = b"\x00" + loose.to_bytes(4, "big") + b"\x02a" + b"\x02\x04\x01\x2c"
    assert decoder(registry, "id string, raw binary")(None, value, None).values == {"id": "a", "raw": b"\x01\x2c"}
    assert decoder(registry, "id string")(None, value, None).values == {"id": "a"}
    with pytest.raises(BadData, match="column raw is decimal"):
        decoder(registry, "raw decimal(9,2)")(None, value, None)


def test_only_schemas_of_the_subject_are_read_where_one_is_named(registry):
    mine, theirs = registry.register("mine", a_record(("id", "string"))), registry.register("theirs", OLD)
    decode = decoder(registry, "id string", subject="mine")
    assert decode(None, registry.encode(mine, {"id": "a"}), None).values == {"id": "a"}
    refused = decode(None, registry.encode(theirs, {"id": "a", "amount": Decimal(0)}), None)
    assert refused.reason == f"schema id {theirs} is not one of subject mine"


def test_a_schema_that_refers_to_others_is_read_with_them(registry):
    registry.register("day", {"type": "record", "name": "Day", "fields": [{"name": "at", "type": "string"}]})
    refers = [{"name": "Day", "subject": "day", "version": 1}]
    whole = registry.register("t-value", a_record(("id", "string"), ("day", "Day")), references=refers)
    decode = decoder(registry, "id string, day string")
    assert decode(None, b"\x00" + whole.to_bytes(4, "big") + b"\x02a\x04mo", None).values == {
        "id": "a",
        "day": '{"at":"mo"}',
    }


def test_a_tombstones_key_is_plain_text_or_avro(registry):
    text = registry.register("t-key", "string")
    record = registry.register("t-key", a_record(("id", "string"), name="K"))
    other = registry.register("t-key", a_record(("nr", "string"), name="K"))
    decode = decoder(registry, key="id", target=Upsert("public.p", key=("id",)))
    unknown = decode(b"\x00\x00\x00\x03\xe7x", None, None)
    assert (unknown.deleted, unknown.reason) == (True, "tombstone: its key is not a string"), "an unknown id is no Avro"
    assert decode(b"o1", None, None) == RecordOutcome({"id": "o1"}, deleted=True)
    assert decode(registry.encode(text, "o1"), None, None).values == {"id": "o1"}
    assert decode(registry.encode(record, {"id": "o1"}), None, None).values == {"id": "o1"}
    assert "has no field id" in decode(registry.encode(other, {"nr": "o1"}), None, None).reason


@pytest.mark.parametrize(
    "trouble",
    [(500, b'{"error_code": 50001, "message": "secret"}'), (404, b"<html>no registry lives here</html>"), (403, b"")],
)
def test_a_registry_that_gives_no_answer_is_away_and_rejects_nothing(registry, trouble):
    registry.trouble = trouble
    with pytest.raises(
        Unreachable, match=r"schema registry http://127.0.0.1:\d+ does not answer for schema id 1"
    ) as away:
        decoder(registry)(None, b"\x00\x00\x00\x00\x01", None)
    assert away.value.next_command == "look at LOCKSTEP_REGISTRY and LOCKSTEP_REGISTRY_CONFIG"


def test_a_registry_that_is_not_there_is_away(registry):
    decode = decoder(registry)
    registry.server_close()
    with pytest.raises(Unreachable):
        decode(None, b"\x00\x00\x00\x00\x01", None)


def test_a_login_opens_the_registry_and_is_never_said(registry):
    registry.login = "Basic bWU6Y2FuYXJ5LXNlY3JldA=="
    schema_id = registry.register("t-value", a_record(("day", {"type": "int", "logicalType": "date"})))
    value = registry.encode(schema_id, {"day": date(2026, 1, 1)})
    given = QUICK | {"basic.auth.user.info": "me:canary-secret"}
    assert decoder(registry, "day date", given)(None, value, None).values == {"day": date(2026, 1, 1)}
    with pytest.raises(Unreachable, match="HTTP 401") as caught:
        decoder(registry, "day date", QUICK | {"basic.auth.user.info": "me:canary-wrong"})(None, value, None)
    assert "canary" not in str(caught.value)
    assert "canary" not in repr(registry_of(registry.url, given, str))


def test_what_the_registry_did_not_know_is_asked_again_by_the_next_task(registry):
    schemas = Schemas(registry_of(registry.url, QUICK, str))
    format_ = Avro("id string")
    pipeline = Pipeline("p", "t", format_, Append("public.p"))
    value = b"\x00\x00\x00\x00\x01\x02a"
    assert "not in the registry" in Decoder(pipeline, format_, schemas)(None, value, None).reason
    registry.register("t-value", a_record(("id", "string")))
    assert Decoder(pipeline, format_, schemas)(None, value, None).values == {"id": "a"}
