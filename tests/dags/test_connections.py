"""Tests Airflow's connections as the environment of a step. Variables that are already set win."""

from __future__ import annotations

import json

import pytest
from airflow.sdk import Connection
from psycopg2.extensions import parse_dsn

from lockstep.adapters.airflow.connections import connection_dsn, connection_environment, kafka_variables
from lockstep.adapters.airflow.names import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    AirflowSkipException,
)
from lockstep.airflow.door import as_airflow_errors
from lockstep.core.errors import (
    BadData,
    BadDefinition,
    DefinitionChanged,
    Refusal,
    Superseded,
    Unreachable,
    WrongVersion,
)
from lockstep.core.kafka_options import kafka_options
from lockstep.core.lake.catalogs import Catalog
from lockstep.core.lake.lake_options import lake_options
from lockstep.core.pipeline.definition import Files, Postgres

POSTGRES = Connection(
    conn_id="ledger",
    conn_type="postgres",
    host="db.example",
    port=5433,
    login="lock step",
    password="p@ss/w:rd",  # noqa: S106 - nobody's
    schema="ware house",
    extra=json.dumps({"sslmode": "verify-full", "sslrootcert": "/ca.pem", "cursor": "dictcursor"}),
)
STORE = Connection(
    conn_id="lockstep_store_warehouse",
    conn_type="postgres",
    host="w",
    login="u",
    password="pw",  # noqa: S106 - nobody's
    schema="d",
)
LAKE = Connection(
    conn_id="lockstep_lake",
    conn_type="generic",
    login="id",
    password="k/e+y",  # noqa: S106 - nobody's
    extra=json.dumps({"path": "s3://bucket/lake", "s3.region": "eu-central-1"}),
)
FOLDER = Connection(conn_id="lockstep_store_files", conn_type="fs", extra=json.dumps({"path": "/results"}))
KAFKA = Connection(
    conn_id="events",
    conn_type="kafka",
    extra=json.dumps({"bootstrap.servers": "k1:9092,k2:9092", "security.protocol": "SSL", "group.id": "theirs"}),
)


TOKENS = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "lockstep",
    "sasl.oauthbearer.client.secret": "s3cret",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer/token",
}
BY_TOKEN = Connection(
    conn_id="by_token", conn_type="kafka", extra=json.dumps(TOKENS | {"bootstrap.servers": "k1:9092", "group.id": "x"})
)
REGISTRY = Connection(
    conn_id="schemas",
    conn_type="http",
    schema="https",
    host="registry.example",
    port=8443,
    login="me",
    password="p@ss:w",  # noqa: S106 - nobody's
    extra=json.dumps({"timeout": 3}),
)

CATALOG = Connection(
    conn_id="lockstep_catalog_polaris",
    conn_type="http",
    host="polaris.example",
    port=8181,
    login="me",
    password="p@ss:w",  # noqa: S106 - nobody's
    extra=json.dumps({"warehouse": "web"}),
)


@pytest.fixture(autouse=True)
def connections(monkeypatch):
    def get(conn_id: str) -> Connection:
        for known in (POSTGRES, KAFKA, BY_TOKEN, REGISTRY, STORE, FOLDER, LAKE, CATALOG):
            if known.conn_id == conn_id:
                return known
        raise AirflowNotFoundException(conn_id)

    monkeypatch.setattr(Connection, "get", get)


def test_a_stores_connection_becomes_its_variable_and_a_missing_one_is_named():
    def asked(store) -> dict[str, str]:
        return connection_environment("ledger", "events", {"LOCKSTEP_DSN": "x", "LOCKSTEP_KAFKA": "y"}, store=store)

    assert asked(Postgres("WAREHOUSE")) == {"LOCKSTEP_STORE_WAREHOUSE": "postgresql://u:pw@w/d"}
    assert asked(Files("invoices")) == {"LOCKSTEP_STORE_FILES": "/results"}
    given = json.loads(asked(Catalog("POLARIS"))["LOCKSTEP_CATALOG_POLARIS"])
    assert given == {"uri": "https://polaris.example:8181", "credential": "me:p@ss:w", "warehouse": "web"}
    assert asked(None) == asked(Files("/absolute")) == {}
    with pytest.raises(BadDefinition, match="lockstep_store_lake"):
        asked(Postgres("LAKE"))


def test_a_postgres_connection_becomes_a_dsn_that_libpq_reads_back():
    dsn = connection_environment("ledger", "events", {})["LOCKSTEP_DSN"]
    assert parse_dsn(dsn) == {
        "host": "db.example",
        "port": "5433",
        "user": "lock step",
        "password": "p@ss/w:rd",
        "dbname": "ware house",
        "sslmode": "verify-full",
        "sslrootcert": "/ca.pem",
    }


@pytest.mark.parametrize(
    ("host", "port", "hosts", "ports"),
    [
        ("a.example,b.example", 6432, "a.example,b.example", "6432,6432"),
        ("a.example, b.example", None, "a.example,b.example", ","),  # each by default
        ("/var/run/postgresql", 5433, "/var/run/postgresql", "5433"),
        ("::1", 5433, "::1", "5433"),
        ("[::1]", None, "::1", None),
        ("a.example,fe80::1", 5433, "a.example,fe80::1", "5433,5433"),
        ("@ledger", 5433, "@ledger", "5433"),
        (None, None, None, None),
    ],
    ids=["servers", "servers by default", "socket", "IPv6", "brackets", "mixed", "abstract socket", "none"],
)
def test_each_server_of_a_postgres_connection_has_its_port(monkeypatch, host, port, hosts, ports):
    monkeypatch.setattr(POSTGRES, "host", host)
    monkeypatch.setattr(POSTGRES, "port", port)
    found = parse_dsn(connection_environment("ledger", "events", {})["LOCKSTEP_DSN"])
    assert (found.get("host"), found.get("port"), found["dbname"]) == (hosts, ports, "ware house")


def test_a_kafka_connections_extra_becomes_address_and_client_options():
    found = connection_environment("ledger", "events", {})
    assert found["LOCKSTEP_KAFKA"] == "k1:9092,k2:9092"
    assert json.loads(found["LOCKSTEP_KAFKA_CONFIG"]) == {"security.protocol": "SSL"}
    options = kafka_options(json.loads(connection_environment("ledger", "by_token", {})["LOCKSTEP_KAFKA_CONFIG"]))
    assert options.for_librdkafka() == TOKENS


def test_the_environment_wins_and_its_connection_is_not_even_asked_for():
    assert (
        connection_environment("absent", "absent", {"LOCKSTEP_DSN": "postgresql://x", "LOCKSTEP_KAFKA": "k:9092"}) == {}
    )


def test_a_line_break_behind_an_address_is_none_of_it():
    set_ = {"LOCKSTEP_DSN": "postgresql://x\n", "LOCKSTEP_KAFKA": "k:9092\n"}
    assert connection_dsn("absent", set_) == "postgresql://x"
    assert kafka_variables("absent", set_)["LOCKSTEP_KAFKA"] == "k:9092"
    assert connection_dsn("ledger", {"LOCKSTEP_DSN": "\n"}).startswith("postgresql://lock%20step")


def test_a_missing_connection_is_named_with_the_variable_that_would_do_instead():
    with pytest.raises(BadDefinition, match="no connection absent, and LOCKSTEP_DSN is not set"):
        connection_environment("absent", "events", {})


def test_a_registrys_connection_is_asked_for_only_where_one_is_named_and_gives_address_and_options():
    assert "LOCKSTEP_REGISTRY" not in connection_environment("ledger", "events", {})
    found = connection_environment("ledger", "events", {}, registry_conn_id="schemas")
    assert found["LOCKSTEP_REGISTRY"] == "https://registry.example:8443"
    assert json.loads(found["LOCKSTEP_REGISTRY_CONFIG"]) == {"timeout": 3, "basic.auth.user.info": "me:p@ss:w"}
    set_ = {"LOCKSTEP_DSN": "postgresql://x", "LOCKSTEP_KAFKA": "k:9092", "LOCKSTEP_REGISTRY": "http://r"}
    assert connection_environment("absent", "absent", set_, registry_conn_id="absent") == {}
    with pytest.raises(BadDefinition, match="no connection absent, and LOCKSTEP_REGISTRY is not set"):
        connection_environment("ledger", "events", {}, registry_conn_id="absent")


def test_the_lakes_connection_gives_address_and_keys_and_is_needed_by_no_folder(monkeypatch):
    assert not {"LOCKSTEP_LAKE", "LOCKSTEP_LAKE_CONFIG"} & connection_environment("ledger", "events", {}).keys()
    found = connection_environment("ledger", "events", {}, lake=True)
    assert found["LOCKSTEP_LAKE"] == "s3://bucket/lake"
    assert lake_options(json.loads(found["LOCKSTEP_LAKE_CONFIG"])) == lake_options(
        {"s3.access-key-id": "id", "s3.secret-access-key": "k/e+y", "s3.region": "eu-central-1"}
    )
    assert "LOCKSTEP_LAKE_CONFIG" not in connection_environment(
        "ledger", "events", {"LOCKSTEP_LAKE_CONFIG": "{}"}, lake=True
    )
    monkeypatch.setattr(LAKE, "conn_id", "another")
    assert "LOCKSTEP_LAKE" not in connection_environment("ledger", "events", {}, lake=True)


@pytest.mark.parametrize(
    ("answer", "airflows", "why"),
    [
        (Superseded("taken"), AirflowSkipException, "somebody else did it"),
        (BadData("broken"), AirflowFailException, "the same data would fail again"),
        (BadDefinition("broken"), AirflowFailException, "so would the same code"),
        (DefinitionChanged("deployed"), AirflowFailException, "the attempt is closed: the next run does the batch"),
        (WrongVersion("migrated"), AirflowException, "a worker that is updated meanwhile succeeds"),
        (Unreachable("away"), AirflowException, "the next try may be answered"),
        (Refusal("no"), AirflowException, "no data's fault"),
    ],
)
def test_an_answer_of_ours_is_said_in_airflows_words(answer, airflows, why):
    with pytest.raises(airflows) as caught, as_airflow_errors():
        raise answer
    assert type(caught.value) is airflows, why
    assert str(caught.value) == str(answer)
