"""Tests that the containers match the embedded stack. The files are parsed and compared: test_compose_up.py starts them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from lockstep.core.ledger_rights import OF_A_RUN
from lockstep.dev.servers import airflow, kafka
from lockstep.dev.servers.airflow_settings import AIRFLOW_SETTINGS, AirflowPlace, airflow_environment

CHECKOUT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((CHECKOUT / "docker-compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
AIRFLOWS = [name for name in SERVICES if SERVICES[name]["image"] == "lockstep-airflow"]
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(:[-?][^}]*)?\}")


def pins(lock: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==(\S+)", (CHECKOUT / lock).read_text(), flags=re.MULTILINE))


PINS = pins("requirements.txt")
# Settings of the embedded broker that name its listeners are the containers' own.
LISTENERS = {"process.roles", "node.id", "controller.listener.names", "listener.security.protocol.map"}
# Of the embedded Airflow's environment, what its containers have by their images or do not need.
ELSEWHERE = {
    "AIRFLOW_HOME": "the image's",
    "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": "each container has ports of its own",
    "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": "the same",
    "LOCKSTEP_PAGES": "its DAGs run its pipelines, and show them",
    "JAVA_HOME": "the image has a Java on PATH",
    "LOCKSTEP_JARS": "the image has neither a broker nor an archive of Spark's classes",
    "PATH": "the image's",
    "SPARK_LOCAL_IP": "executors in other containers call their driver by SPARK_LOCAL_HOSTNAME",
}


# Which part of the embedded Airflow a service is. The command line is none: it needs what Airflow's database does, and less.
PART = {
    "airflow-init": "db",
    "airflow-apiserver": "api-server",
    "airflow-scheduler": "scheduler",
    "airflow-dag-processor": "dag-processor",
    "airflow-triggerer": "triggerer",
    "lockstep": "command line",
}
NOBODYS = re.compile("(?!)")
NOT_FOR = {
    "api-server": NOBODYS,
    "scheduler": NOBODYS,
    **airflow.NOT_FOR,
    # It signs no token, and the embedded Airflow has none. Of the connections, the trigger of a wake-up uses Kafka's.
    "triggerer": re.compile("AIRFLOW__API_AUTH__JWT_SECRET|AIRFLOW__API__SECRET_KEY|AIRFLOW_CONN_(POSTGRES|SPARK)_.*"),
    "command line": re.compile(f"{airflow.NOT_FOR['db'].pattern}|AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"),
}
# Each secret of .env, and the services that have it.
RUNS = {"airflow-apiserver", "airflow-scheduler"}
NEEDED_BY = {
    "POSTGRES_PASSWORD": {"postgres"},
    "LOCKSTEP_PG_PASSWORD": {"postgres", "airflow-init", "lockstep"},
    "LOCKSTEP_RUN_PG_PASSWORD": {"postgres", *RUNS},
    "AIRFLOW_PG_PASSWORD": {"postgres", "airflow-init", "airflow-dag-processor", "airflow-triggerer", *RUNS},
    "AIRFLOW_FERNET_KEY": {"airflow-dag-processor", "airflow-triggerer", *RUNS},
    "AIRFLOW_JWT_SECRET": RUNS,
    "AIRFLOW_API_SECRET": RUNS,
    "AIRFLOW_ADMIN_PASSWORD": {"airflow-apiserver"},
    "AIRFLOW_REVIEWER_PASSWORD": {"airflow-apiserver"},
}


def ivy(module: str) -> str:
    return re.search(f'name="{module}" rev="([^"]+)"', (CHECKOUT / "ivy.xml").read_text())[1]


def dockerfile() -> str:
    return (CHECKOUT / "Dockerfile").read_text().replace("\\\n", " ")


def images() -> dict[str, str]:
    """Returns each image from elsewhere, by name, with its tag: by compose's variables and by the Dockerfile's."""
    found = [service["image"] for service in SERVICES.values() if "build" not in service]
    found += [
        argument
        for service in SERVICES.values()
        if "build" in service
        for argument in service["build"]["args"].values()
    ]
    found = [re.fullmatch(r"\$\{\w+_IMAGE:-(\S+)\}", image)[1] for image in found]
    arguments = dict(re.findall(r"^ARG (\w+_IMAGE)=(\S+)", dockerfile(), flags=re.MULTILINE))
    found += [arguments[name] for name in re.findall(r"^FROM \$\{(\w+)\}", dockerfile(), flags=re.MULTILINE)]
    assert dockerfile().count("\nFROM ") == 3 == len(arguments), "an image that no argument names"
    named = [image.partition(":") for image in found]
    assert len(set(named)) == len({name for name, _, _ in named}), "one image, two tags"
    return {name: tag for name, _, tag in named}


def written(value: Any) -> list[str]:
    """Returns all texts below a part of the compose file."""
    if isinstance(value, dict):
        return [text for one in value.items() for part in one for text in written(part)]
    if isinstance(value, list):
        return [text for part in value for text in written(part)]
    return [str(value)]


def example() -> dict[str, str]:
    lines = (CHECKOUT / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_the_images_are_of_the_versions_that_are_pinned():
    assert images() == {
        "apache/airflow": f"{PINS['apache-airflow']}-python3.11",
        "apache/kafka": ivy("kafka_2.13"),
        "apache/spark": PINS["pyspark"],
        "postgres": "15",
        "python": "3.11-slim",
    }


def test_driver_and_executors_are_of_one_python():
    required = re.search(r'requires-python = ">=(3\.\d+)', (CHECKOUT / "pyproject.toml").read_text())[1]

    assert f"--python {required} /opt/lockstep" in dockerfile()
    for name in AIRFLOWS:
        assert SERVICES[name]["environment"]["PYSPARK_PYTHON"] == f"python{required}"


def test_the_executors_image_installs_their_lock():
    groups = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["dependency-groups"]
    locked = pins("requirements-executors.txt")

    assert "/opt/lockstep/bin/python --require-hashes -r requirements-executors.txt" in dockerfile()
    assert set(groups["executors"]) <= set(locked)
    assert locked.items() <= PINS.items()


@pytest.mark.parametrize("name", AIRFLOWS)
def test_airflow_is_set_up_as_the_embedded_one(name):
    environ = SERVICES[name]["environment"]

    assert {setting: environ.get(setting) for setting in AIRFLOW_SETTINGS} == AIRFLOW_SETTINGS


def test_airflow_is_told_of_its_place_by_the_same_names(tmp_path):
    place = AirflowPlace("postgresql://u:p@h:1/d", "h:2", tmp_path, tmp_path, tmp_path, tmp_path)
    embedded = set(airflow_environment(tmp_path, place, 1, (2, 3)))

    for name in AIRFLOWS:
        missing = embedded - set(SERVICES[name]["environment"]) - set(ELSEWHERE)
        assert missing == {variable for variable in embedded if NOT_FOR[PART[name]].fullmatch(variable)}, name
        assert {own for own in SERVICES[name]["environment"] if own.startswith("AIRFLOW__")} <= embedded


@pytest.mark.parametrize("conn", ["POSTGRES", "KAFKA", "SPARK"])
def test_connections_lead_to_services_and_their_ports(conn):
    text = VARIABLE.sub("secret", SERVICES["airflow-scheduler"]["environment"][f"AIRFLOW_CONN_{conn}_DEFAULT"])
    found = yaml.safe_load(text)  # JSON is YAML

    expected = {
        "POSTGRES": {
            "host": "postgres",
            "port": 5432,
            "login": "lockstep_run",
            "password": "secret",
            "schema": "lockstep",
        },
        "KAFKA": {"extra": {"bootstrap.servers": "kafka:19092"}},
        "SPARK": {"host": "spark://spark-master:7077", "extra": {"deploy-mode": "client"}},
    }
    assert found == {"conn_type": conn.lower(), **expected[conn]}  # type: ignore[dict-item]
    assert "INSIDE://kafka:19092" in SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]


def test_airflow_runs_with_a_runs_five_roles_and_only_the_migrating_services_know_the_owners_password():
    made = (CHECKOUT / "containers" / "databases.sql").read_text()
    granted = re.findall(r"^grant (.+) to lockstep_run;$", made, flags=re.MULTILINE)

    assert "create role lockstep_run login password :'run';" in made
    assert granted == [", ".join(OF_A_RUN)]
    knows = {name for name in AIRFLOWS if "LOCKSTEP_PG_PASSWORD" in str(SERVICES[name]["environment"])}
    assert knows == {"airflow-init", "lockstep"}


def test_services_that_call_the_command_line_know_the_broker():
    calling = {name for name in AIRFLOWS if "LOCKSTEP_DSN" in SERVICES[name]["environment"]}

    assert calling == {"airflow-init", "lockstep"}
    for name in calling:
        assert SERVICES[name]["environment"]["LOCKSTEP_KAFKA"] == "kafka:19092", name


def test_each_service_has_the_secrets_that_it_needs_and_no_other():
    has = {
        secret: {name for name, service in SERVICES.items() if f"${{{secret}:" in str(service)} for secret in NEEDED_BY
    }
    assert has == NEEDED_BY
    assert {name for name in example() if re.search(r"PASSWORD|SECRET|KEY", name)} == set(NEEDED_BY)
    for name, service in SERVICES.items():
        assert not {"env_file", "secrets", "configs", "extends"} & service.keys(), name  # by which others would come in
        assert not (COMPOSE.get("secrets"))
        assert not (COMPOSE.get("configs"))
        build = str(service.get("build", ""))
        assert not [secret for secret in NEEDED_BY if secret in build], "an image keeps its arguments"


def test_the_broker_is_set_up_as_the_embedded_one():
    environ = SERVICES["kafka"]["environment"]
    shared = {name: value for name, value in kafka._SETTINGS.items() if name not in LISTENERS}  # noqa: SLF001 - compared

    assert {name: environ.get(f"KAFKA_{name.replace('.', '_').upper()}") for name in shared} == shared


def test_every_variable_is_named_in_the_example_and_no_secret_has_a_value_there():
    used = {name: rest for text in written(COMPOSE) for name, rest in VARIABLE.findall(text)}

    assert set(example()) == set(used)
    for name, value in example().items():
        if re.search(r"PASSWORD|SECRET|KEY", name):
            assert (value, used[name][:2]) == ("", ":?"), name
        else:
            assert used[name] == f":-{value}", name


def test_every_service_has_a_health_check_or_ends_and_waits_for_those_it_needs():
    for name, service in SERVICES.items():
        assert "healthcheck" in service or name == "airflow-init"
        for other, how in service.get("depends_on", {}).items():
            ends = other == "airflow-init"
            assert how == {"condition": "service_completed_successfully" if ends else "service_healthy"}, (name, other)
    assert {"airflow-apiserver", "kafka", "spark-worker"} <= set(SERVICES["airflow-scheduler"]["depends_on"])


def test_only_this_machine_reaches_the_ports():
    for service in SERVICES.values():
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:")


def test_what_is_mounted_and_copied_is_there():
    mounted = [volume.split(":") for service in SERVICES.values() for volume in service.get("volumes", [])]
    copied = re.findall(r"^COPY (?:--chown=\S+ )?((?:[\w./-]+ )+)\S+$", dockerfile(), flags=re.MULTILINE)
    let_in = (CHECKOUT / ".dockerignore").read_text().splitlines()

    for source, *_ in mounted:
        assert (CHECKOUT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], source
    assert sum(len(files.split()) for files in copied) >= 10
    for source in " ".join(copied).split():
        assert (CHECKOUT / source).exists(), source
        assert f"!{source}" in let_in, source


def test_the_ledger_and_every_pipeline_with_a_dag_are_migrated_before_anything_runs():
    (_, _, said) = SERVICES["airflow-init"]["command"]
    pipelines = [file.stem for file in CHECKOUT.glob("dags/*.py") if "dags_for(" in file.read_text()]

    assert said.split("; ") == [
        "airflow db migrate",
        "lockstep migrate",
        f"for name in {' '.join(sorted(pipelines))}",
        "do lockstep migrate $$name",
        "done",
    ]
