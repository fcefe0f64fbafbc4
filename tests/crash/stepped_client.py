"""Runs one live batch of the house's pipeline in a program that may have its own clock, without Kafka.

Usage: stepped_client.py DSN HOME TOPIC_ID RECORDS. Prints one JSON document.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from simulation import world as worlds


def main() -> None:
    """Runs the batch over the same log as the test remembers: the same records under the same topic id."""
    dsn, home, topic_id, records = sys.argv[1:]
    worlds.migrate_target = lambda *_: None  # the test has done it
    world = worlds.World(dsn, Path(home))
    world.log.topic_id = topic_id
    world.log.produce(0, int(records))
    print(json.dumps(world.once(owner="first")))


if __name__ == "__main__":
    main()
