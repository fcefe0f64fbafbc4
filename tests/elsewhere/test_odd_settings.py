"""Tests that odd settings, odd answers and odd tables of a catalog elsewhere are refused by one line without a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, NestedField, StringType

from elsewhere.rest_catalog import HTML
from lockstep import Append, Iceberg, Idempotent, Json, Pipeline
from lockstep.adapters.iceberg.schema import new_schema
from lockstep.core.errors import Refusal, Unreachable
from lockstep.targets.stores.stores import results_of
from support.oracles.next_commands import faults_of

VARIABLE, SECRET = "LOCKSTEP_CATALOG_POLARIS", "hush-hush-hush"
PIPELINE = Pipeline(
    name="drill",
    topic="t",
    format=Json("id string, n int"),
    target=Append(Iceberg("web.drill", catalog="POLARIS")),
    guarantee=Idempotent(),
)


def refused(given: Any) -> Refusal:
    said = given if isinstance(given, str) else json.dumps(given)
    with pytest.raises(Refusal) as found:
        results_of(PIPELINE, "", {VARIABLE: said} if said else {}).require_fit(PIPELINE, PIPELINE.columns)
    line = str(found.value)
    assert "\n" not in line
    assert SECRET not in line
    assert faults_of(found.value.next_command) == []
    return found.value


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("", "LOCKSTEP_CATALOG_POLARIS is not set"),
        ("/nowhere/catalog.json", "neither a JSON object nor the path"),
        ("{", "no JSON"),
        ({"token": SECRET}, "uri must be http"),
        ({"uri": f"https://me:{SECRET}@polaris"}, "uri holds a login"),
        ({"uri": f"https://polaris/?token={SECRET}"}, "uri holds a login or a query"),
        ({"uri": "https://polaris", "type": "glue"}, "type must be rest"),
        ({"uri": "https://polaris", "py-io-impl": "evil.Io"}, "'py-io-impl' is not taken"),
        ({"uri": "https://polaris", "patience": "soon"}, "patience a number of seconds"),
    ],
)
def test_settings_are_refused_before_anything_is_asked(given, why):
    assert why in str(refused(given))


def test_an_address_where_nobody_listens_is_away():
    error = refused({"uri": "http://127.0.0.1:9", "token": SECRET})
    assert isinstance(error, Unreachable)
    assert "catalog POLARIS" in error.message


def test_odd_answers_are_one_line(server):
    given = {"uri": server.uri, "token": SECRET}
    server.page = (200, HTML)
    assert "answers what no Iceberg REST catalog does: a page of HTML" in str(refused(given))
    server.page = (404, HTML)
    assert "a page of HTML" in str(refused(given))
    server.page = (500, b"")
    assert isinstance(refused(given), Unreachable)
    server.page, server.token = None, "another"
    error = refused(given)
    assert "refuses the login" in error.message
    assert "token expired" in error.message
    assert error.next_command == f"correct {VARIABLE}"
    server.token, server.overrides = None, {"py-io-impl": "evil.Io"}
    assert "py-io-impl of the catalog, or of its table, would run code" in str(refused(given))


def test_odd_tables_are_refused_by_name(server):
    given = {"uri": server.uri}
    catalog, name = server.catalog, ("web", "drill")
    error = refused(given)
    assert "has no table POLARIS.web.drill" in error.message
    assert error.next_command == "lockstep migrate drill"
    catalog.create_namespace("web")
    fits = new_schema(PIPELINE.columns)
    by_id = PartitionSpec(PartitionField(source_id=5, field_id=1000, transform=IdentityTransform(), name="by_id"))
    required = Schema(*fits.fields, NestedField(9, "owner", StringType(), required=True))
    other = Schema(*fits.fields[:-1], NestedField(6, "n", StringType()))
    short = Schema(*fits.fields[:-1], NestedField(6, "m", IntegerType()))
    for schema, more, why in (
        (fits, {"properties": {"format-version": "1"}}, "its format version is 1"),
        (fits, {"partition_spec": by_id}, "it is partitioned by by_id"),
        (required, {}, "its column owner is required"),
        (other, {}, "its column n is string, and int is needed"),
        (short, {}, "it has no column n"),
        (fits, {"properties": {"lockstep.orders": "7:9"}}, "orders has delivered into POLARIS.web.drill"),
    ):
        catalog.create_table(name, schema, **more)
        assert why in str(refused(given)), why
        catalog.drop_table(name)
    catalog.create_table(name, fits)
    results_of(PIPELINE, "", {VARIABLE: json.dumps(given)}).require_fit(PIPELINE, PIPELINE.columns)
    server.config = {"py-io-impl": "evil.Io"}
    assert "py-io-impl of the catalog, or of its table, would run code" in str(refused(given))
