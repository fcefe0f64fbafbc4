"""Tests each missing point for production by itself, on both sides of the line, and the page about them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lockstep.adapters.spark_defaults import masters_in_clear
from lockstep.core.health.production import Point, ProductionFacts, ServerPath, unmet_points

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
SOUND = ProductionFacts(
    problems=0,
    embedded=(),
    excess=(),
    login="lockstep_run",
    postgres=ServerPath(("db.example",), "verify-full"),
    kafka=ServerPath(("k1.example", "k2.example"), "sasl_ssl"),
    kafka_verifies=True,
    kafka_login=True,
    tokens=ServerPath(("issuer.example",), "https"),
    registry=ServerPath(("r.example",), "https"),
    others={
        "s3.endpoint of LOCKSTEP_LAKE_CONFIG": ServerPath(("minio.example",), "https"),
        "LOCKSTEP_STORE_WAREHOUSE": ServerPath(("dwh.example",), "verify-full"),
    },
    spark_remote=True,
    spark_token=True,
    spark_in_clear=(),
    standbys=1,
    lake_tables=("clicks",),
    lake_keep="30d",
    same_tries=None,
    without_approvers=(),
    without_retention=(),
    signing_key="/keys/sign.pem",
    ledger_is_here=False,
    open_files={},
    locks_without_hashes=(),
    tagged_images=(),
)
FOUND = {
    "the doctor's problems": ({"problems": 2}, Point.DOCTOR, "2 problems"),
    "the embedded servers": ({"embedded": ("Postgres", "Kafka")}, Point.EMBEDDED, "Postgres and Kafka of"),
    "a login that makes roles": ({"excess": ("createrole",)}, Point.RUN_LOGIN, "createrole"),
    "a login that migrates": ({"excess": ("member of lockstep_owner",)}, Point.OWNER, "migrates and runs"),
    "no TLS": ({"postgres": ServerPath(("db",), "disable")}, Point.POSTGRES_TLS, "db by sslmode=disable"),
    "TLS to whoever answers": ({"postgres": ServerPath(("db",), "require")}, Point.POSTGRES_TLS, "sslmode=require"),
    "TLS to whoever has a certificate": (
        {"postgres": ServerPath(("db",), "verify-ca")},
        Point.POSTGRES_TLS,
        "verify-ca",
    ),
    "a broker without TLS": (
        {"kafka": ServerPath(("k",), "plaintext")},
        Point.KAFKA_TLS,
        "k by security.protocol plaintext",
    ),
    "a password without TLS": ({"kafka": ServerPath(("k",), "sasl_plaintext")}, Point.KAFKA_TLS, "sasl_plaintext"),
    "a name that nobody compares": ({"kafka_verifies": False}, Point.KAFKA_TLS, "no look at the host's name"),
    "a broker that lets everybody in": ({"kafka_login": False}, Point.KAFKA_LOGIN, "no sasl.mechanism"),
    "an issuer without TLS": ({"tokens": ServerPath(("i",), "http")}, Point.TOKEN_TLS, "i by http: whoever"),
    "a registry without TLS": ({"registry": ServerPath(("r",), "http")}, Point.REGISTRY_TLS, "r by http"),
    "a lake without TLS": (
        {"others": {"s3.endpoint of LOCKSTEP_LAKE_CONFIG": ServerPath(("m",), "http")}},
        Point.OTHERS_TLS,
        "m by http, of s3.endpoint of LOCKSTEP_LAKE_CONFIG: whoever",
    ),
    "a store without TLS": (
        {"others": {"LOCKSTEP_STORE_DWH": ServerPath(("d",), "prefer")}},
        Point.OTHERS_TLS,
        "d by prefer, of LOCKSTEP_STORE_DWH",
    ),
    "Spark without a token": ({"spark_token": False}, Point.SPARK_TOKEN, "every client"),
    "a cluster that talks in clear": (
        {"spark_in_clear": ("spark://m:7077", "yarn")},
        Point.SPARK_NETWORK,
        "spark://m:7077, yarn: executors get records and logins",
    ),
    "one copy": ({"standbys": 0}, Point.STANDBY, "no standby"),
    "files of a backup that upkeep deletes": (
        {"lake_keep": ""},
        Point.BACKUPS,
        "LOCKSTEP_LAKE_KEEP is not set: files of lake tables of clicks go after 7d",
    ),
    "two Airflows": (
        {"same_tries": "try 1 of stage in orders run r1"},
        Point.AIRFLOWS,
        "try 1 of stage in orders run r1 was two tasks",
    ),
    "nobody named": ({"without_approvers": ("dags/a.py",)}, Point.APPROVERS, "dags/a.py"),
    "rejects for good": ({"without_retention": ("a", "b")}, Point.REJECTS, "rejects of a, b keep"),
    "no key": ({"signing_key": None}, Point.SIGNING_KEY, "names none"),
    "the key beside the ledger": ({"ledger_is_here": True}, Point.SIGNING_KEY, "/keys/sign.pem lies on"),
    "a file for everybody": ({"open_files": {"/x/.env": "0644"}}, Point.FILES, "/x/.env is 0644"),
    "a lock without hashes": ({"locks_without_hashes": ("requirements.txt",)}, Point.HASHES, "requirements.txt"),
    "an image by tag": ({"tagged_images": ("KAFKA_IMAGE=apache/kafka:4",)}, Point.IMAGES, "apache/kafka:4"),
}


def test_a_sound_deployment_misses_nothing():
    assert unmet_points(SOUND) == []


@pytest.mark.parametrize(("change", "point", "words"), FOUND.values(), ids=FOUND)
def test_a_point_that_is_not_met_is_named_with_the_next_command(change, point, words):
    every = unmet_points(replace(SOUND, **change))
    assert [found.point for found in every] == [point]
    found = every[0]
    assert words in found.found
    assert found.next_command
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    "change",
    [
        {"postgres": ServerPath((), "disable"), "kafka": ServerPath((), "plaintext"), "kafka_login": False},
        {"postgres": None, "kafka": None, "kafka_login": False, "excess": None, "standbys": None},
        {"registry": None, "tokens": None},
        {"registry": ServerPath((), "http"), "tokens": ServerPath((), "http"), "others": {"X": ServerPath((), "http")}},
        {"spark_remote": False, "spark_token": False},
    ],
    ids=["on this machine", "away", "no registry", "a registry here", "no Spark Connect"],
)
def test_what_is_not_there_or_is_this_machine_is_no_finding(change):
    assert unmet_points(replace(SOUND, **change)) == []


SPARK_CONNECTION = '{"conn_type": "spark", "host": "k8s://https://k", "extra": {}}'
IN_CLEAR = {
    "a master": ({"SPARK_MASTER": "spark://m:7077"}, "", ("spark://m:7077",)),
    "no cluster": ({"SPARK_MASTER": "local[2]", "AIRFLOW_CONN_SPARK": "spark://local%5B4%5D"}, "", ()),
    "connections": (
        {"AIRFLOW_CONN_A": SPARK_CONNECTION, "AIRFLOW_CONN_B": "spark://yarn?x=1", "AIRFLOW_CONN_C": "postgres://h"},
        "",
        ("k8s://https://k", "yarn"),
    ),
    "no password": ({"SPARK_MASTER": "yarn"}, "spark.network.crypto.enabled true", ("yarn",)),
    "a comment": ({"SPARK_MASTER": "yarn"}, "# spark.ssl.rpc.enabled true", ("yarn",)),
    "AES": ({"SPARK_MASTER": "yarn"}, "spark.authenticate true\nspark.network.crypto.enabled=true\n", ()),
    "TLS": ({"SPARK_MASTER": "yarn"}, "\n  spark.ssl.rpc.enabled\tTRUE", ()),
}


@pytest.mark.parametrize(("environ", "defaults", "found"), IN_CLEAR.values(), ids=IN_CLEAR)
@pytest.mark.parametrize("place", ["SPARK_CONF_DIR", "SPARK_HOME"])
def test_a_cluster_whose_machines_talk_in_clear_is_found_by_sparks_defaults(tmp_path, place, environ, defaults, found):
    folder = tmp_path if place == "SPARK_CONF_DIR" else tmp_path / "conf"
    folder.mkdir(exist_ok=True)
    (folder / "spark-defaults.conf").write_text(defaults)

    assert masters_in_clear({place: str(tmp_path), **environ}) == found


def test_every_point_has_a_case_and_the_page_names_every_point_and_no_other():
    section = PAGE.read_text().partition("## How to run it in production")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+?) \| [^|]+ \|$", section, flags=re.MULTILINE)
    assert [row for row in rows if row not in ("point", "---")] == [str(point) for point in Point]
    assert {point for _, point, _ in FOUND.values()} == set(Point)
