"""Runs one pipeline of a chain in a process that may be killed: a batch without Spark, then the relay, as `run` does.

Usage: chained.py PIPELINE [--until-idle | --replay OFFSET]. It reads JSON, or Avro by the registry of LOCKSTEP_REGISTRY.
`--replay` goes on with an open replay, or asks for one of what is committed from an offset on.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.postgres import READER, transaction
from lockstep.adapters.processes import this_owner
from lockstep.context.systems import configured_registry
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.formats import Avro
from lockstep.core.planning.bounds import AtOffsets
from lockstep.core.planning.decisions import Caller
from lockstep.core.states import Lane
from lockstep.formats.avro.encoding import read_value
from lockstep.formats.avro.schemas import schemas
from lockstep.steps.batch.run import run, until_idle
from lockstep.steps.context import Context
from lockstep.steps.feed.relay_behind import relay_behind
from lockstep.steps.requests import requests
from support.fakes.plain_engine import PlainEngine
from support.scenes.here import ME

if TYPE_CHECKING:
    from lockstep.core.pipeline.folder import PipelineFolder

OPEN = """select request_id from lockstep.request where pipeline = %s and lane = 'replay' and closed_at is null
    order by request_id limit 1"""


class Decoded:
    """A record of Kafka's whose value is JSON, whatever it was."""

    def __init__(self, message, known) -> None:
        self._message, self._known = message, known

    def value(self) -> bytes:
        return json.dumps(read_value(self._message.value(), self._known), default=str).encode()

    def __getattr__(self, name: str) -> object:
        return getattr(self._message, name)


class AvroEngine(PlainEngine):
    """A plain engine that reads Avro."""

    def _write(self, rows, stream_id: int, message) -> str:
        return super()._write(rows, stream_id, Decoded(message, schemas(configured_registry())))


def main() -> int:
    dsn, kafka = os.environ["LOCKSTEP_DSN"], os.environ["LOCKSTEP_KAFKA"]
    folder = load(sys.argv[1])
    at = Context(dsn, Broker(kafka), find_registry=configured_registry)
    made = AvroEngine if isinstance(folder.pipeline.format, Avro) else PlainEngine
    engine, caller = made(folder, kafka, dsn, _typed), Caller(this_owner())
    if "--replay" in sys.argv:
        print(json.dumps({"replay": replayed(at, engine, folder, caller)}))
        return 0
    act = partial(until_idle, wait=60) if "--until-idle" in sys.argv else lambda *asked: [run(*asked)]
    reports = list(act(at, engine, folder, caller))
    relays = relay_behind(at, folder.pipeline, this_owner())
    print(
        json.dumps({"last": str(reports[-1].decision), "sent": relays.sent, "warnings": relays.warnings}, default=str)
    )
    return 0


def replayed(at: Context, engine: PlainEngine, folder: PipelineFolder, caller: Caller) -> str:
    """Works on the replay that is open, or on a new one. Returns how it ended, or why it stopped."""
    with transaction(at.conn, READER) as cur:
        cur.execute(OPEN, (folder.pipeline.name,))
        found = cur.fetchone()
    try:
        wanted = requests.NewRequest(Lane.REPLAY, AtOffsets(dict.fromkeys(range(2), int(sys.argv[3]))), None)
        asked = None if found else requests.open_request(at.conn, at.broker, folder, wanted, ME, datetime.now(UTC))
        request = found[0] if found else asked and asked.request_id
        return (
            str(list(until_idle(at, engine, folder, caller, wait=1, request_id=request))[-1].decision)
            if request
            else ""
        )
    except Refusal as refusal:  # another process holds the batch, or has taken it over
        return str(refusal)


def _typed(value: dict) -> dict:
    """Returns the record as it is, if its `n` is a number. Any other one is a reject."""
    if not isinstance(value.get("n"), int):
        raise ValueError("n is no number")  # noqa: TRY004 - of the record, not of the code
    return value


if __name__ == "__main__":
    sys.exit(main())
