"""Tests every format through Spark: records are written, filtered or rejected, and a redrive brings rejects back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from typer.testing import CliRunner

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import connect
from lockstep.cli.app import app
from lockstep.core.errors import BadData, Unreachable
from lockstep.core.registry import registry as registry_of
from lockstep.steps.proof.verify import verify
from support.fakes.registry import a_record, headed
from support.inputs.protos import a_file, a_message, classes, framed

AT = datetime(2026, 1, 1, tzinfo=UTC)
DECODE = """
import json

def decode(key, value, headers):
    if value.startswith(b"#"):
        return None
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError("no JSON") from None
"""
BOTH = """
import json

def decode(key, value, headers):
    if value.startswith(b"{"):
        return json.loads(value)
    name, n = value.decode().split(";")
    return {"id": name, "n": int(n)}
"""


def totals(report) -> tuple[int, ...]:
    return tuple(
        sum(getattr(r, name) for r in report.ranges) for name in ("delivered", "written", "filtered", "rejected")
    )


def redriven(loaded, monkeypatch) -> list[str]:
    """Returns the reasons that are left, the most frequent first."""
    monkeypatch.setenv("LOCKSTEP_DSN", loaded.dsn)
    monkeypatch.setenv("LOCKSTEP_KAFKA", loaded.kafka)
    done = CliRunner().invoke(app, ["rejects", loaded.name, "--redrive", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    listed = CliRunner().invoke(app, ["rejects", loaded.name, "--json"], catch_exceptions=False)
    return [each["reason"] for each in json.loads(listed.output)["reasons"]]


def test_garbage_among_json_is_rejected_to_the_last_record_and_comes_back_by_another_decoder(
    pipeline, topic, produce, tmp_path, monkeypatch
):
    source = topic(partitions=2)
    records = [f"r{i};{i}" if i % 50 == 7 else json.dumps({"id": f"r{i}", "n": i}) for i in range(1_000)]
    produce(source, [(f"k{i}", value) for i, value in enumerate(records)])
    loaded = pipeline(source, "id string, n int", "id text, n int, k text", envelope='Envelope(key="k")')

    assert totals(loaded.run()) == (1_000, 980, 0, 20)
    kept = loaded.ask("select convert_from(value, 'utf8') from lockstep.reject")
    assert {value for (value,) in kept} == {value for value in records if ";" in value}

    home = tmp_path / "pipelines" / loaded.name
    (home / "decode.py").write_text(BOTH)
    text = (home / "__init__.py").read_text()
    (home / "__init__.py").write_text(text.replace('Json("id string, n int")', 'Custom("id string, n int")'))
    assert redriven(loaded, monkeypatch) == []
    assert loaded.ask(f"select count(*), sum(n), count(distinct k) from {loaded.name}") == [(1_000, 499_500, 1_000)]
    assert loaded.violations() == []


@pytest.mark.parametrize("transform", [None, "def transform(r):\n    return r.where('n < 90')\n"])
def test_what_an_own_decoder_filters_is_counted_as_filtered(pipeline, topic, produce, tmp_path, transform):
    source = topic(partitions=2)
    produce(source, [("k", "#") for _ in range(30)], partition=1)  # one task has nothing else
    produce(source, [("k", json.dumps({"id": f"r{i}", "n": i})) for i in range(100)] + [("k", "?")] * 5, partition=0)
    more = {"form": 'Custom("id string, n int")', "envelope": 'Envelope(offset="nr")', "transform": transform}
    loaded = pipeline(source, "", "id text, n int, nr int8", **more)
    (tmp_path / "pipelines" / loaded.name / "decode.py").write_text(DECODE)

    written = 90 if transform else 100
    assert totals(loaded.run()) == (135, written, 130 - written, 5)
    assert loaded.ask("select distinct reason from lockstep.reject") == [("no JSON",)]
    assert loaded.ask(f"select count(*) from {loaded.name} where nr = _offset") == [(written,)]
    checks = verify(connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True)
    assert [check for check in checks if not check.ok] == []


def test_payments_of_two_writers_reconcile_in_one_batch_and_an_unknown_schema_comes_back(
    example, produce, registry, monkeypatch
):
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    at = {"type": "long", "logicalType": "timestamp-millis"}
    fields = [(name, "string") for name in ("payment_id", "order_id", "currency")] + [
        ("amount", amount),
        ("paid_at", at),
    ]
    old = registry.register("payments.v1-value", a_record(*fields))
    new = registry.register("payments.v1-value", a_record(*fields, ("method", ["null", "string"]), ("fee", amount)))

    def payment(i: int, **more: Any) -> dict:
        return {"payment_id": f"p{i}", "order_id": "o", "currency": "EUR", "amount": Decimal(i), "paid_at": AT} | more

    values = [registry.encode(old, payment(i)) for i in range(400)]
    values += [registry.encode(new, payment(i, method="card", fee=Decimal("0.10"))) for i in range(400, 784)]
    later = b"\x00" + (new + 1).to_bytes(4, "big") + values[0][5:]
    loaded, source = example("payments")
    produce(source, [(f"k{i}", v) for i, v in enumerate(values + [later] * 6 + [b"garbage"] * 10)])

    assert totals(loaded.run()) == (800, 784, 0, 16)
    assert loaded.ask("select count(*), sum(amount), count(method), count(distinct account) from payments") == [
        (784, sum(range(784)), 384, 784)
    ]
    assert loaded.ask("select distinct extra->>'fee', headers from payments order by 1") == [
        ("0.10", None),
        (None, None),
    ]
    assert loaded.violations() == []

    registry.register("payments.v1-value", a_record(*fields, name="Later"))
    (left,) = redriven(loaded, monkeypatch)
    assert left.startswith("not Confluent's wire format")
    assert loaded.ask("select count(*) from payments") == [(790,)]
    assert loaded.ask("select count(*) from lockstep.reject") == [(10,)]
    assert loaded.violations() == []


def test_protobuf_of_ten_schemas_lands_in_one_batch_and_a_second_decoder_finds_the_same_rows(
    pipeline, topic, produce, registry
):
    values = []
    for n in range(10):
        more = [f"int32 f{k} = {k + 10}" for k in range(n)]
        fields = ("string id = 1", "uint64 big = 2", ".google.protobuf.Timestamp at = 3", "map string int32 m = 4")
        file = a_file(a_message("Order", *fields, *more), a_message("Other", "string id = 1"))
        schema_id, make = registry.register_protobuf("t", file), classes(file)
        for i in range(20):
            order = make(
                "shop.Order", id=f"r{n}-{i}", big=2**64 - 1 - i, m={"b": i, "a": 1}, **dict.fromkeys(["f0"][:n], i)
            )
            order.at.FromMicroseconds(i)
            values.append(framed(schema_id, order))
        values.append(framed(schema_id, make("shop.Other", id="x"), b"\x02\x02"))
        values.append(framed(schema_id, b"\x08\x01"))
    source = topic(partitions=1)
    produce(source, [("k", value) for value in values])
    form = 'Protobuf("id string, big decimal(20,0), at timestamp, m string", message="shop.Order", rest="extra")'
    loaded = pipeline(source, "", "id text, big numeric(20), at timestamptz, m jsonb, extra jsonb", form=form)

    assert totals(loaded.run()) == (220, 200, 0, 20)
    assert loaded.ask(
        "select count(distinct id), sum(big), max(at), sum((m->>'b')::int), count(extra->'f0'), sum((extra->>'f0')::int) "
        f"from {loaded.name}"
    ) == [(200, 200 * (2**64 - 1) - 1900, datetime(1970, 1, 1, microsecond=19, tzinfo=UTC), 1900, 180, 1710)]
    reasons = loaded.ask("select reason, count(*) from lockstep.reject group by 1 order by 2 desc, 1")
    assert {reason.partition(" is message")[2] for reason, _ in reasons if "message" in reason} == {
        " shop.Other, not shop.Order"
    }
    assert sum("field id has wire type 0" in reason for reason, _ in reasons) == 10
    checks = verify(
        connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True,
        registry=registry_of(registry.url, {}, str),
    )  # fmt: skip
    assert [check for check in checks if not check.ok] == []
    assert any("220 records decoded again" in check.detail for check in checks), checks
    assert loaded.violations() == []


@pytest.mark.long
def test_json_that_its_schema_does_not_allow_is_a_reject_and_a_second_decoder_finds_the_same_rows(
    pipeline, topic, produce, registry, monkeypatch
):
    old = registry.register_json("t-value", {"required": ["id"], "properties": {"n": {"minimum": 0}}})
    reference = {"name": "n.json", "subject": "t-n", "version": 1}
    registry.register_json("t-n", {"multipleOf": 0.1})
    new = registry.register_json("t-value", {"properties": {"n": {"$ref": "n.json"}}}, references=[reference])
    key = registry.register_json("t-key", {})
    records: list[Any] = [
        (f"r{i}", headed(old if i % 2 else new, {"id": f"r{i}", "n": i / 10, "x": i})) for i in range(200)
    ]
    records += [("r1", headed(old, {"id": "r1", "n": -1})), ("r2", headed(new, {"id": "r2", "n": 0.25}))]
    records += [
        (headed(key, "r4"), None),
        ("r6", None),
        ("r8", b'{"id":"r8"}'),
        ("r10", headed(new + 9, {"id": "r10", "n": 1.5})),
    ]
    source = topic(partitions=1)
    produce(source, records)
    form = 'Json("id string, n decimal(9,1)", key="id", rest="extra", registry=True, subject="t-value", validate=True)'
    loaded = pipeline(
        source, "", "id text primary key, n numeric(9,1), extra jsonb", target="Upsert", key="id", form=form
    )

    assert totals(loaded.run()) == (206, 202, 0, 4)
    assert loaded.ask(f"select count(*), sum(n), sum((extra->>'x')::int) from {loaded.name}") == [
        (198, Decimal(19_890) / 10, 19_890)
    ]
    assert loaded.ask('select reason from lockstep.reject order by "offset"') == [
        (f"field n: breaks minimum 0, says schema id {old}",),
        (f"field n: breaks multipleOf 0.1, says schema id {new}",),
        ("not Confluent's wire format: a zero byte, the schema's id, the record",),
        (f"schema id {new + 9} is not in the registry",),
    ]
    checks = verify(
        connect(loaded.dsn), Broker(loaded.kafka), load(loaded.name), deep=True,
        registry=registry_of(registry.url, {}, str),
    )  # fmt: skip
    assert [check for check in checks if not check.ok] == []
    assert any("198 rows compared with their records" in check.detail for check in checks), checks

    for n in range(9):
        registry.register_json("t-value", {"title": str(n)})
    assert len(redriven(loaded, monkeypatch)) == 3
    assert loaded.ask(f"select n from {loaded.name} where id = 'r10'") == [(Decimal("1.5"),)]


def test_a_writer_that_would_bend_a_column_stops_the_batch_and_an_absent_registry_blames_nobody(
    pipeline, topic, produce, registry
):
    bent = registry.register("t", a_record(("id", "string"), ("n", "long")))
    source = topic(partitions=1)
    produce(source, [("k", registry.encode(bent, {"id": "a", "n": 1}))])
    loaded = pipeline(source, "", "id text, n int", form='Avro("id string, n int")')
    words = f"{loaded.name}: column n is int, and schema id {bent} writes long, which would not keep every value"
    with pytest.raises(BadData) as caught:
        loaded.run()
    assert caught.value.message == words
    registry.trouble = (503, b"")
    with pytest.raises(
        Unreachable, match=r"schema registry http://127\.0\.0\.1:\d+ does not answer for schema id"
    ) as away:
        loaded.run()
    assert "\n" not in str(away.value)
    states = loaded.ask("select state, fault from lockstep.attempt order by token")
    assert states[0] == ("failed", "data")
    assert states[1][1] != "data"
    assert loaded.ask("select count(*) from lockstep.commit") == [(0,)]
