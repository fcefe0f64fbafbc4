"""Provides a drill whose lake is in a bucket of a real S3 server."""

from __future__ import annotations

import json
import secrets
from importlib.util import find_spec

import pytest

from lake.conftest import ALONE, DEFINITION, InLake, InProcess, made_lake  # noqa: F401 - a fixture
from support.servers.s3_store import s3_store

collect_ignore_glob = [] if find_spec("pyiceberg") else ["test_*.py"]


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    """Yields the server of a session, and the options that its owner has."""
    with s3_store(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def prefix(store, monkeypatch):
    """Returns an own prefix of the bucket, with the environment that leads to the store."""
    monkeypatch.setenv("LOCKSTEP_LAKE_CONFIG", json.dumps(store.options()))
    return f"p{secrets.token_hex(4)}"


@pytest.fixture
def in_store(made_lake, store, prefix):  # noqa: F811 - as above
    """Yields the drill with one lake table alone: tasks write its files."""
    return made_lake(InProcess, ALONE, place=store.folder / "lake" / prefix, address=f"s3://lake/{prefix}")


@pytest.fixture
def staged_in_store(made_lake, store, prefix):  # noqa: F811 - as above
    """Yields the drill with two lake tables and one of the database."""
    return made_lake(InLake, DEFINITION, place=store.folder / "lake" / prefix, address=f"s3://lake/{prefix}")
