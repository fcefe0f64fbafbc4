"""Keeps the environment in one place: `core.settings` reads it, and few other modules set a variable, each named here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lockstep.core.settings import ENVIRONMENT, Settings, settings_of

ENGINE = Path(__file__).parents[2] / "include" / "lockstep"
READER = "core/settings.py"
# Modules that change the environment of a process to come, each with its reason. The list only shrinks.
SETS = {
    "adapters/definition/server.py": "gives a definition the few variables that it may know",
    "adapters/withheld.py": "hides secrets from the processes that a block starts",
    "airflow/job.py": "leads a driver to the Spark of a connection",
    "airflow/submit.py": "leads a driver to the servers, and says whose it is",
    "cli/pipelines/checking.py": "plans a transform in a Spark of its own",
    "context/environment.py": "sets variables for a block",
    "context/systems.py": "leads a run to the Spark of the embedded stack",
    "dev/canary.py": "keeps a Spark elsewhere away from a Postgres here",
    "dev/trial.py": "keeps a Spark elsewhere away from a Postgres here",
    "engine/spark/session.py": "tells the JVM and its workers which Python and Java to take",
    "steps/batch/expectations.py": "keeps Great Expectations from reporting its use",
    "worker_daemon.py": "hides a server's token from the code of its workers",
}
CHANGES = {"clear", "pop", "setdefault", "update"}


def uses(source):
    """Yields, for each use of the environment, True if it changes a variable and False if it reads."""
    tree = ast.parse(source)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="os"), attr="environ"):
                match above[node]:
                    case ast.Attribute(attr=name):
                        yield name in CHANGES
                    case ast.Subscript(ctx=ast.Store() | ast.Del()):
                        yield True
                    case _:
                        yield False
            case ast.Attribute(value=ast.Name(id="os"), attr="getenv" | "environb"):
                yield False
            case ast.ImportFrom(module="os", names=names) if {"environ", "getenv"} & {each.name for each in names}:
                yield False


def found():
    return {
        str(file.relative_to(ENGINE)): list(uses(file.read_text(encoding="utf-8")))
        for file in ENGINE.rglob("*.py")
        if str(file.relative_to(ENGINE)) != READER
    }


def test_one_module_reads_the_environment():
    readers = [name for name, each in found().items() if not all(each)]
    assert readers == ["adapters/withheld.py"]  # its default is what it changes


def test_the_modules_that_set_a_variable_are_named_with_their_reasons():
    assert {name for name, each in found().items() if each} == set(SETS)


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("os.environ.get('A')", [False]),
        ("os.environ['A']", [False]),
        ("def of(environ=os.environ): pass", [False]),
        ("from os import environ", [False]),
        ("os.getenv('A')", [False]),
        ("os.environ['A'] = '1'", [True]),
        ("del os.environ['A']", [True]),
        ("os.environ.pop('A', None)", [True]),
        ("os.environ.clear()", [True]),
    ],
)
def test_a_use_of_the_environment_is_seen(source, seen):
    assert list(uses(source)) == seen


def test_the_environment_is_read_as_it_is_now_and_cannot_be_set_by_a_reader(monkeypatch):
    monkeypatch.setenv("LOCKSTEP_KAFKA", "kafka:9092")
    assert settings_of().kafka == "kafka:9092"
    with pytest.raises(TypeError):
        ENVIRONMENT["LOCKSTEP_KAFKA"] = "other:9092"  # type: ignore[index]


def test_settings_hold_each_address_and_show_no_secret():
    given = {
        "LOCKSTEP_DSN": "dbname=ledger password=s3cret",
        "LOCKSTEP_TARGETS_DSN": "dbname=targets password=s3cret",
        "LOCKSTEP_KAFKA": "kafka:9092",
        "LOCKSTEP_KAFKA_CONFIG": ' {"sasl.password": "s3cret"} ',
        "LOCKSTEP_REGISTRY": " http://registry:8081 ",
        "LOCKSTEP_REGISTRY_CONFIG": '{"basic.auth.user.info": "me:s3cret"}',
        "LOCKSTEP_LAKE": " s3://bucket/lake ",
        "LOCKSTEP_LAKE_CONFIG": '{"s3.secret-access-key": "s3cret"}',
        "LOCKSTEP_ENGINE": " process ",
        "LOCKSTEP_STORE_LAKE": "/lake",
        "LOCKSTEP_CATALOG_POLARIS": "{}",
        "SPARK_REMOTE": "sc://spark:15002/;token=s3cret",
        "OTHER": "1",
    }
    assert settings_of(given) == Settings(
        dsn="dbname=ledger password=s3cret",
        targets_dsn="dbname=targets password=s3cret",
        kafka="kafka:9092",
        kafka_options='{"sasl.password": "s3cret"}',
        registry="http://registry:8081",
        registry_options='{"basic.auth.user.info": "me:s3cret"}',
        lake="s3://bucket/lake",
        lake_options='{"s3.secret-access-key": "s3cret"}',
        spark_remote="sc://spark:15002/;token=s3cret",
        engine="process",
        stores={"LAKE": "/lake", "LOCKSTEP_CATALOG_POLARIS": "{}"},
    )
    assert "s3cret" not in repr(settings_of(given))
    assert settings_of({}) == Settings()


def test_a_line_break_behind_an_address_is_none_of_it():
    # a secret that was written by `echo` ends with one
    names = ("LOCKSTEP_DSN", "LOCKSTEP_TARGETS_DSN", "LOCKSTEP_STAGER_DSN", "LOCKSTEP_KAFKA", "LOCKSTEP_STORE_LAKE")
    given = {name: f" {name.lower()}\r\n" for name in (*names, "SPARK_REMOTE")}
    assert settings_of(given) == settings_of({name: name.lower() for name in given})
    assert settings_of(dict.fromkeys(given, "\n")) == Settings(stores={"LAKE": ""})
