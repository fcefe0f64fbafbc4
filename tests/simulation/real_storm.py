"""Starts a storm with real Spark, Kafka and Postgres in a separate process, with its own pipeline and broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.ledger.migrate import migrate_target
from simulation import dying_drivers
from simulation.real_faults import DEFINITION, TARGET
from support.scenes.drill import Drill, write_folder
from support.servers.own_broker import OwnBroker
from support.servers.servers import make_topic

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def a_drill(dsn: str, home: Path, topic: str) -> Iterator[Drill]:
    """Yields the storm's pipeline, migrated, over a separate broker below `home`."""
    broker = OwnBroker(home / "broker")
    try:
        make_topic(broker.address, topic, dying_drivers.PARTITIONS)
        drill = Drill(dsn, broker.address, topic, write_folder(home, topic, DEFINITION, TARGET))
        with patch.dict(os.environ, LOCKSTEP_PIPELINES=str(drill.home)), closing(connect(dsn)) as conn:
            migrate_target(conn, load("drill"))
        yield drill
        drill.end()
    finally:
        OwnBroker(home / "broker").stop()  # a storm may have started it again


def real_storm(
    drill: Drill, superuser: str, seed: int, *, commits: int = 10**9, minutes: float = 10**6
) -> dict[str, Any]:
    """Rages until so many commits were struck, or for so long. Returns all counts of `rage`."""
    environ = os.environ | {
        "STORM_SUPERUSER": superuser,
        "LOCKSTEP_DSN": drill.dsn,
        "LOCKSTEP_KAFKA": drill.kafka,
        "LOCKSTEP_PIPELINES": str(drill.home),
        "SPARK_MASTER": "local[2,3]",
        "STORM_TOPIC": drill.topic,
        "STORM_BROKER": str(drill.home.parent / "broker"),
        "LOCKSTEP_FAULT": " ".join(f"{p}={k}@{drill.home}/{p}.{k}" for p, k in sorted(set(dying_drivers.CHOICES))),
        "PYTHONPATH": os.pathsep.join(str(Path(__file__).parents[n] / name) for n, name in ((2, "include"), (1, ""))),
    }
    command = [sys.executable, dying_drivers.__file__, str(commits), str(minutes), str(seed)]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True)
    drill.started.append(process.pid)  # the drill ends the group, whatever becomes of us
    said, _ = process.communicate()
    assert process.returncode == 0, f"the storm broke, seed {seed}"
    return json.loads(said)
