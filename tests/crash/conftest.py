from __future__ import annotations

import json

import pytest

from drill import DEFINITION, TARGET, Drill
from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.ledger.migrate import migrate_target


@pytest.fixture
def drill(database, kafka, topic, produce, tmp_path, monkeypatch):
    name = topic(partitions=3)
    folder = tmp_path / "pipelines" / "drill"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(DEFINITION.format(topic=name))
    (folder / "target.sql").write_text(TARGET)
    here = Drill(database, kafka, name, folder.parent)
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(here.home))
    conn = connect(database)
    migrate_target(conn, load("drill"))
    conn.close()
    produce(name, [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(150)])
    return here
