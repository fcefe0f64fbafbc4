"""Provides `pair(kind)`, a pipeline of that kind with its first records in Kafka and nothing read."""

from __future__ import annotations

import itertools
import json
import os
from contextlib import ExitStack
from importlib.util import find_spec

import pytest

from cli.pairs.kinds import KINDS, PARTITIONS
from cli.pairs.scene import FIRST, Pair
from lockstep.targets.table import parts
from support.servers.servers import make_topic

NUMBERS = itertools.count()


@pytest.fixture
def made_store(servers, tmp_path):
    """Yields `made_store(pair)`. It makes the store of the pair's results, and returns the variables that lead to it."""
    with ExitStack() as opened:

        def make(pair: Pair) -> dict[str, str]:
            if pair.kind.at in {"lake", "catalog"} and not find_spec("pyiceberg"):
                pytest.skip("the extra lake is not installed")
            match pair.kind.at:
                case "lake":
                    return {"LOCKSTEP_LAKE": f"file://{tmp_path}/lake"}
                case "warehouse":
                    name = f"pairs_{os.getpid()}_{next(NUMBERS)}"
                    pair.warehouse = opened.enter_context(servers.empty_database(name))
                    return {"LOCKSTEP_STORE_WAREHOUSE": pair.warehouse}
                case "files":
                    pair.files = tmp_path / "files"
                    return {"LOCKSTEP_STORE_FILES": str(pair.files)}
                case "catalog":
                    from elsewhere.rest_catalog import RestCatalogServer  # noqa: PLC0415 - the extra may be missing

                    pair.catalog = RestCatalogServer(tmp_path / "catalog")
                    opened.callback(pair.catalog.close)
                    return {"LOCKSTEP_CATALOG_POLARIS": json.dumps({"uri": pair.catalog.uri, "patience": 3})}
            return {}

        yield make


@pytest.fixture
def pair(lockstep, made_store, database, kafka, topic, produce, monkeypatch):
    """Returns `pair("upsert")`, which makes the pipeline and sends its first records."""

    def make(name: str) -> Pair:
        made = Pair(KINDS[name], lockstep, database, kafka, topic(partitions=PARTITIONS), produce)
        if name == "send":
            make_topic(kafka, made.sink, PARTITIONS)
        if name == "in parts":
            monkeypatch.setattr(parts, "LEAST_OFFSETS", 0)
        for door in ("planning", "replaying", "running"):
            monkeypatch.setattr(f"lockstep.cli.batches.{door}.engine_for", made.engine)
        lockstep.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA=kafka, **made_store(made))
        made.define()
        made.say("migrate", "drill")
        made.put(*FIRST)
        return made

    return make
