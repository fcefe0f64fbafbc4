"""Withholds secrets of this process's environment from child processes that do not need them."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, MutableMapping

# Airflow's own secrets, and those of Lockstep that no run needs.
FROM_RUNS = re.compile(
    "AIRFLOW_(CONN|VAR)_.*|AIRFLOW__(API_AUTH__JWT_|DATABASE__SQL_ALCHEMY_(CONN|ENGINE_ARGS)|SECRETS__BACKEND|SENTRY__SENTRY_DSN"
    "|CORE__SQL_ALCHEMY_CONN|CELERY__(BROKER_URL|RESULT_BACKEND)|EXECUTION_API__JWT_|WORKERS__SECRETS_BACKEND).*"
    "|AIRFLOW__.*(_KWARGS|PASSWORD|SECRET|SECRET_KEY|FERNET_KEY|TOKEN|API_KEY)(_CMD|_SECRET)?"
    "|OPENLINEAGE_API_KEY|OPENLINEAGE__.*APIKEY|VAULT_TOKEN|AZURE_CLIENT_SECRET"
    "|LOCKSTEP_(TARGETS_DSN|SIGNING_KEY|AIRFLOW_PASSWORD)|SPARK_REMOTE|SPARK_CONNECT_AUTHENTICATE_TOKEN"
)
# Secrets that a run needs, but not the programs that it starts. Spark's tasks get theirs by value.
FROM_PROGRAMS = re.compile(
    rf"{FROM_RUNS.pattern}|LOCKSTEP_(DSN(_PASSWORD_COMMAND)?|STAGER_DSN|(KAFKA|REGISTRY|LAKE)_CONFIG|STORE_.*|CATALOG_.*)|PGPASSWORD"
)

# What a driver that Airflow starts may have: what programs, Java, Spark, Python, Postgres, proxies and stores go by. A
# variable that stands here by its prefix and is a secret of Airflow is withheld all the same.
FOR_DRIVERS = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|PWD|HOSTNAME|TERM|LANG|LANGUAGE|LC_.*|TZ|TMPDIR|TEMP|TMP|XDG_.*|LD_.*|MALLOC_.*"
    "|JAVA_.*|JDK_JAVA_OPTIONS|_JAVA_OPTIONS|JRE_HOME|CLASSPATH|SPARK_.*|HADOOP_.*|YARN_.*|HIVE_CONF_DIR|KRB5.*|KUBERNETES_.*"
    "|PYTHON.*|PYSPARK_.*|VIRTUAL_ENV|CONDA_.*|COVERAGE_.*|OMP_.*|OPENBLAS_.*|MKL_.*|NUMEXPR_.*|ARROW_.*|GRPC_.*|CUDA_.*|NVIDIA_.*"
    "|PG[A-Z]+|AWS_.*|GOOGLE_APPLICATION_CREDENTIALS|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE"
    "|(?i:https?|ftp|all|no)_(?i:proxy)|LOCKSTEP_.*|AIRFLOW_HOME|AIRFLOW_CONFIG|AIRFLOW_CTX_.*"
    "|AIRFLOW__CORE__EXECUTION_API_SERVER_URL"
)

# What a program that submits to a cluster may have. The rest would travel to the cluster, or be of no use there.
OF_SUBMITTERS = re.compile(
    "PATH|HOME|USER|LOGNAME|LANG|LC_.*|TZ|TMPDIR|JAVA_HOME|SPARK_(HOME|CONF_DIR|LOCAL_IP|SUBMIT_OPTS)|HADOOP_.*|YARN_CONF_DIR|KRB5.*"
)


def of_submitters(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the part of an environment that a program which submits to a cluster needs."""
    return {name: value for name, value in environ.items() if OF_SUBMITTERS.fullmatch(name)}


@contextmanager
def for_driver(environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Leaves in the environment what a driver may have, for the block. All other variables come back behind it."""
    kept = {name: environ.pop(name) for name in list(environ) if not FOR_DRIVERS.fullmatch(name)}
    try:
        with withheld(environ):
            yield
    finally:
        environ.update(kept)


@contextmanager
def withheld(environ: MutableMapping[str, str] = os.environ, of: re.Pattern[str] = FROM_RUNS) -> Iterator[None]:
    """Removes these secrets from the environment for the block.

    Programs that are started in it inherit none of them.
    """
    kept = {name: environ.pop(name) for name in list(environ) if of.fullmatch(name)}
    try:
        yield
    finally:
        environ.update(kept)


def without(environ: Mapping[str, str], of: re.Pattern[str] = FROM_PROGRAMS) -> dict[str, str]:
    """Returns an environment without these secrets."""
    return {name: value for name, value in environ.items() if not of.fullmatch(name)}
