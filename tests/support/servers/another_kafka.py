"""Fetches the jars of a Kafka broker of another version: `python -m support.servers.another_kafka 3.7.2 FOLDER`.

LOCKSTEP_TEST_KAFKA=FOLDER then starts the tests' brokers from them.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from lockstep.dev.setup import jars

WANTED = Path(__file__).with_name("kafka_ivy.xml")
# None for the broker that is locked.
BROKER_JARS = Path(given) if (given := os.environ.get("LOCKSTEP_TEST_KAFKA")) else None


def fetch(version: str, folder: Path) -> None:
    """Fetches the jars unless they are there. The folder appears whole, or not at all."""
    if folder.is_dir():
        return
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    cache, log = folder.with_name("cache"), folder.with_name(f"{folder.name}.log")
    pattern = fresh / "[artifact]-[revision].[ext]"
    jars.retrieve(pattern, cache, log, wanted=WANTED, options=[f"-Dlockstep.kafka={version}"])
    assert (fresh / f"kafka_2.13-{version}.jar").is_file(), sorted(fresh.iterdir())
    fresh.rename(folder)


if __name__ == "__main__":
    fetch(sys.argv[1], Path(sys.argv[2]).absolute())
