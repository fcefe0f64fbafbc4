"""Tests that a Spark driver inherits its servers, and none of Airflow's own secrets."""

from __future__ import annotations

import pytest
from airflow.configuration import conf

from lockstep.adapters.withheld import FROM_PROGRAMS, for_driver, without
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

    with for_driver(environ):
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


# Secrets that providers of Airflow, its lineage and its stores of secrets keep in the environment.
BESIDE = (
    "AIRFLOW__SMTP__SMTP_PASSWORD", "AIRFLOW__KEYCLOAK_AUTH_MANAGER__CLIENT_SECRET", "AIRFLOW__CELERY__BROKER_URL",
    "VAULT_TOKEN",
    "AIRFLOW__ANY__API_KEY", "AIRFLOW__ANY__TOKEN_CMD", "OPENLINEAGE_API_KEY", "OPENLINEAGE__TRANSPORT__AUTH__APIKEY",
    "AZURE_CLIENT_SECRET", "AIRFLOW_CONN_X", "AIRFLOW_VAR_X", "LOCKSTEP_SIGNING_KEY", "LOCKSTEP_TARGETS_DSN", "SPARK_REMOTE",
)  # fmt: skip
# What a driver works with: a variable that is lost here is a task that fails somewhere else.
NEEDED = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD", "JAVA_HOME", "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "SPARK_SUBMIT_OPTS", "SPARK_MASTER",
    "SPARK_LOCAL_DIRS",
    "HADOOP_CONF_DIR", "HADOOP_USER_NAME", "YARN_CONF_DIR", "KRB5_CONFIG", "KRB5CCNAME", "PYTHONPATH", "PYTHONHASHSEED",
    "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX", "OMP_NUM_THREADS", "ARROW_DEFAULT_MEMORY_POOL",
    "PGPASSWORD", "PGPASSFILE", "PGSSLMODE", "PGSSLROOTCERT", "PGSERVICE", "PGHOST", "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "http_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY", "KUBERNETES_SERVICE_HOST",
    "LOCKSTEP_DSN", "LOCKSTEP_DSN_PASSWORD_COMMAND", "LOCKSTEP_STAGER_DSN", "LOCKSTEP_KAFKA_CONFIG", "LOCKSTEP_REGISTRY_CONFIG",
    "LOCKSTEP_LAKE_CONFIG", "LOCKSTEP_STORE_X", "LOCKSTEP_CATALOG_X", "LOCKSTEP_HOLDER", "LOCKSTEP_PIPELINES", "AIRFLOW_HOME",
)  # fmt: skip


@pytest.mark.parametrize("form", ["{}", "{}_CMD", "{}_SECRET"])
def test_no_sensitive_setting_of_airflow_reaches_a_driver_or_a_program(form):
    named = [f"AIRFLOW__{section}__{option}".upper() for section, option in conf.sensitive_config_values]
    assert len(named) >= 15
    environ = {form.format(name): "secret" for name in named}
    assert without(environ) == without(environ, FROM_PROGRAMS) == {}
    with for_driver(environ):
        assert environ == {}


def test_what_is_on_no_list_does_not_reach_a_driver_and_what_it_needs_does():
    environ = dict.fromkeys((*BESIDE, *NEEDED, "MY_TOKEN", "DATABASE_URL"), "x")
    before = dict(environ)
    assert not set(BESIDE) & without(environ).keys()
    with for_driver(environ):
        assert environ.keys() == set(NEEDED)
    assert environ == before
