"""Tests that the doctor asks the schema registry, for the pipelines that decode by it."""

from __future__ import annotations

import pytest

from support.fakes.registry import a_registry

DEFINITION = """
from lockstep import Append, Avro, Json, Pipeline
ORDERS = Pipeline(
    name="orders", topic="{topic}", format={kind}"id string", subject={subject!r}), target=Append("public.orders")
)
"""
SCHEMA = {"type": "record", "name": "O", "fields": [{"name": "id", "type": "string"}]}


@pytest.fixture
def registry(lockstep, database, kafka):
    lockstep.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA=kafka)
    with a_registry() as served:
        lockstep.environ(LOCKSTEP_REGISTRY=served.url)
        yield served


@pytest.fixture
def decoded_by(lockstep, topic, findings):
    """Returns `decoded_by(subject)`: the doctor's finding about the registry, or None."""
    name = topic(partitions=2)

    def look(subject: str | None = None, kind: str = "Avro(") -> dict | None:
        lockstep.define("orders", init=DEFINITION.format(topic=name, subject=subject, kind=kind))
        return findings("orders").get("schema registry")

    return look


def test_a_registry_that_answers_and_has_the_subject_is_no_finding(registry, decoded_by):
    registry.register("orders-value", SCHEMA)
    assert decoded_by() is None
    assert decoded_by("orders-value") is None
    assert {"/subjects", "/subjects/orders-value/versions/latest"} <= set(registry.asked)


def test_a_subject_without_a_schema_is_a_warning_that_names_it(registry, decoded_by):
    registry.register("orders-value", SCHEMA)
    found = decoded_by("order-value")
    assert (found["severity"], found["subject"]) == ("warning", "pipeline orders")
    assert found["found"] == f"subject order-value has no schema at {registry.url}"
    assert found["remedy"] == "look at format.subject, or register the schema"
    assert decoded_by("order-value", "Json(registry=True, schema=")["found"] == found["found"]


def test_a_schema_that_grew_and_lost_a_field_is_told_with_the_line_to_paste(lockstep, registry, decoded_by):
    registry.register("orders-value", SCHEMA | {"fields": [{"name": "note", "type": "string"}]})
    found = decoded_by("orders-value")
    assert (found["severity"], found["subject"]) == ("warning", "pipeline orders")
    every = lockstep("doctor", "orders", "--json").document["findings"]
    told = {each["found"] for each in every if each["check"] == "schema registry"}
    assert told == {
        "subject orders-value, schema id 1: field id is gone: new rows hold null; the column stays in the table",
        "subject orders-value, schema id 1: field note is string and has no column: paste note string",
    }
    assert found["remedy"] == "lockstep migrate orders --propose"


@pytest.mark.parametrize(
    ("trouble", "why"),
    [((503, b"no"), "HTTP 503"), ((401, b'{"error_code": 40101, "message": "Unauthorized"}'), "HTTP 401, code 40101")],
    ids=["busy", "not let in"],
)
def test_a_registry_that_does_not_answer_is_a_problem(lockstep, registry, decoded_by, trouble, why):
    lockstep.environ(LOCKSTEP_REGISTRY_CONFIG='{"max.retries": 0}')
    registry.trouble = trouble
    found = decoded_by()
    assert (found["severity"], found["subject"]) == ("problem", "registry")
    assert found["found"].startswith(f"schema registry {registry.url} does not answer for subjects: {why}")
    assert "LOCKSTEP_REGISTRY" in found["remedy"]


def test_an_address_that_is_missing_or_none_is_a_problem(lockstep, registry, decoded_by):
    lockstep.environ(LOCKSTEP_REGISTRY="")
    assert decoded_by()["found"] == "LOCKSTEP_REGISTRY is not set"
    lockstep.environ(LOCKSTEP_REGISTRY="registry:8081")
    assert decoded_by()["found"] == "LOCKSTEP_REGISTRY is no address such as http://host:8081"
    assert registry.asked == []


def test_a_pipeline_of_json_asks_no_registry(registry, sound, findings):
    assert sound
    assert "schema registry" not in findings("orders")
    assert registry.asked == []
