"""Tests `doctor --production` with real servers: its findings, its exit code, and remedies that end a finding."""

from __future__ import annotations

import os

import pytest

from lockstep.cli.looks.producing import locks_without_hashes, open_files, ways_to_others, without_approvers
from lockstep.core.health.production import ServerPath


@pytest.fixture
def missing(lockstep):
    """Returns the points that are not met, with what was found."""

    def ask() -> dict[str, str]:
        said = lockstep("doctor", "orders", "--production", "--json")
        assert said.code == (1 if said.document["missing"] else 0)
        assert said.document["ok"] is not bool(said.document["missing"])
        return {each["point"]: each["found"] for each in said.document["missing"]}

    return ask


def test_what_a_login_may_too_much_and_who_is_trusted_is_named(sound, login, missing, lockstep, tmp_path):
    found = missing()
    assert "migrates and runs" in found["owner's role"]
    assert "createrole" in found["run login"]
    assert {"standby", "signing key", "retention of rejects"} <= found.keys()
    assert not {"TLS to Postgres", "TLS to Kafka", "Spark Connect token"} & found.keys(), "all of it is this machine"

    login()
    key = tmp_path / "sign.pem"
    key.write_text("a key")
    key.chmod(0o644)
    lockstep.environ(LOCKSTEP_SIGNING_KEY=str(key), SPARK_REMOTE="sc://far:15002")
    found = missing()
    assert not {"owner's role", "run login"} & found.keys()
    assert found["files with secrets"] == f"{key} is 0644: other accounts may read it"
    assert "own machine" in found["signing key"]
    assert "Spark Connect token" in found
    key.chmod(0o600)
    lockstep.environ(SPARK_REMOTE="sc://far:15002/;token=x")
    assert not {"files with secrets", "Spark Connect token"} & missing().keys()
    assert sound


def test_each_finding_is_one_line_with_its_next_command(sound, lockstep):
    said = lockstep("doctor", "orders", "--production")
    lines = said.out.splitlines()
    assert said.code == 1
    assert len(lines) > 3
    assert all(line.startswith("missing  ") and "  Next: " in line for line in lines[:-1])
    assert lines[-1].endswith("points are met")
    assert sound


def test_ways_to_servers_that_are_far_are_judged_by_their_encryption(lockstep, sound, missing):
    lockstep.environ(
        LOCKSTEP_KAFKA="k.example:9092", LOCKSTEP_REGISTRY="http://r.example", LOCKSTEP_DSN=os.environ["LOCKSTEP_DSN"]
    )
    found = missing()
    assert found["TLS to Kafka"] == "k.example by security.protocol plaintext"
    assert "login at Kafka" in found
    assert found["TLS to the registry"] == "r.example by http"
    assert sound


def test_a_history_without_named_approvers_is_found_in_its_file(tmp_path):
    for name, text in {
        "named": 'dags_for(P, history={"approvers": ("7",)})',
        "variable": 'dags_for(P, history={"approvers": WHO})',
        "empty": 'dags_for(P, history={"approvers": ()})',
        "without": "dags_for(P)",
        "other": 'airflow.dags_for(P, history={"tags": ["x"]})',
        "live": "dag_for(P)",
        "broken": "dags_for(",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert without_approvers(tmp_path) == ["dags/empty.py", "dags/other.py", "dags/without.py"]
    assert without_approvers(tmp_path / "nowhere") == []


def test_a_package_without_its_hash_is_found_in_its_lock(tmp_path):
    (tmp_path / "requirements.txt").write_text(
        "# lock\none==1 \\\n    --hash=sha256:aa\ntwo==2 \\\n    --hash=sha256:bb\n"
    )
    assert locks_without_hashes(tmp_path) == []
    (tmp_path / "requirements-x.txt").write_text("one==1 \\\n    --hash=sha256:aa\ntwo==2\n")
    assert locks_without_hashes(tmp_path) == ["requirements-x.txt"]


def test_files_with_secrets_are_those_that_the_environment_names(tmp_path, monkeypatch):
    key, config, env = tmp_path / "key.pem", tmp_path / "kafka.json", tmp_path / ".env"
    for file in (key, config, env):
        file.write_text("{}")
        file.chmod(0o600)
    config.write_text(f'{{"ssl.key.location": "{key}"}}')
    monkeypatch.setenv("LOCKSTEP_KAFKA_CONFIG", str(config))
    environ = {"LOCKSTEP_KAFKA_CONFIG": str(config), "LOCKSTEP_REGISTRY_CONFIG": '{"timeout": 1}'}
    assert open_files(environ, tmp_path) == {}
    key.chmod(0o640)
    config.chmod(0o604)
    env.chmod(0o666)
    assert open_files(environ, tmp_path) == {str(env): "0666", str(key): "0640", str(config): "0604"}


def test_ways_to_the_lake_to_catalogs_stores_and_issuers_are_found_by_the_settings_that_name_them(tmp_path):
    config = tmp_path / "lake.json"
    config.write_text('{"s3.endpoint": "http://minio.example:9000", "s3.region": "eu"}')
    catalog = '{"uri": "https://c.example", "oauth2-server-uri": "http://i.example/t", "credential": "a:b"}'
    environ = {
        "LOCKSTEP_LAKE_CONFIG": str(config),
        "LOCKSTEP_REGISTRY_CONFIG": '{"bearer.auth.issuer.endpoint.url": "http://localhost:8080/token"}',
        "LOCKSTEP_CATALOG_POLARIS": catalog,
        "LOCKSTEP_CATALOG_ODD": "no JSON",
        "LOCKSTEP_STORE_WAREHOUSE": "postgresql://me:secret@dwh.example/dwh?sslmode=require",
        "LOCKSTEP_STORE_MARTS": "host=marts.example dbname=marts",
        "LOCKSTEP_STORE_FILES": "/srv/files",
    }
    assert ways_to_others(environ) == {
        "s3.endpoint of LOCKSTEP_LAKE_CONFIG": ServerPath(("minio.example",), "http"),
        "bearer.auth.issuer.endpoint.url of LOCKSTEP_REGISTRY_CONFIG": ServerPath((), "http"),
        "uri of LOCKSTEP_CATALOG_POLARIS": ServerPath(("c.example",), "https"),
        "oauth2-server-uri of LOCKSTEP_CATALOG_POLARIS": ServerPath(("i.example",), "http"),
        "LOCKSTEP_STORE_WAREHOUSE": ServerPath(("dwh.example",), "require"),
        "LOCKSTEP_STORE_MARTS": ServerPath(("marts.example",), "prefer"),
        "LOCKSTEP_STORE_FILES": ServerPath((), "prefer"),
    }
