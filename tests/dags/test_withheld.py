"""Tests that a Spark driver inherits its servers, and none of Airflow's own secrets."""

from __future__ import annotations

from lockstep.adapters.withheld import withheld
from lockstep.dev.servers.airflow_settings import AirflowPlace, airflow_environment


def test_what_a_driver_inherits_holds_no_secret_of_airflow(tmp_path):
    (tmp_path / "airflow").mkdir()
    place = AirflowPlace("postgresql://u:ledger@127.0.0.1:1/l", "127.0.0.1:2", *[tmp_path] * 4)
    environ = airflow_environment(tmp_path / "airflow", place, 1, (2, 3)) | {
        "LOCKSTEP_DSN": "of the task",
        "AIRFLOW_VAR_X": "secret",
        "LOCKSTEP_AIRFLOW_PASSWORD": "of the pages",
    }
    before = dict(environ)
    secret = {"AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__API__SECRET_KEY", "AIRFLOW__CORE__FERNET_KEY", "AIRFLOW_VAR_X"}
    secret |= {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW_CONN_POSTGRES_DEFAULT", "AIRFLOW_CONN_KAFKA_DEFAULT"}
    secret |= {"LOCKSTEP_AIRFLOW_PASSWORD"}
    assert secret <= environ.keys()

    with withheld(environ):
        values = " ".join(environ.values())
        assert not secret & environ.keys()
        assert not any(before[name] in values for name in secret)
        assert "ledger" not in values
        assert environ["LOCKSTEP_DSN"] == "of the task"
        assert {"PYSPARK_PYTHON", "PATH", "AIRFLOW_HOME", "AIRFLOW__CORE__EXECUTION_API_SERVER_URL"} <= environ.keys()
    assert environ == before


def test_each_secret_of_the_embedded_airflow_is_another(tmp_path):
    place = AirflowPlace("postgresql://u:p@127.0.0.1:1/l", "127.0.0.1:2", *[tmp_path] * 4)
    environ = airflow_environment(tmp_path, place, 1, (2, 3))
    names = ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__API__SECRET_KEY", "AIRFLOW__CORE__FERNET_KEY")
    assert len({environ[name] for name in names}) == len(names)
