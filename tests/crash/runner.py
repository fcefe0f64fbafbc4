"""Runs a pipeline in one process that tests may kill, stop and race, without Spark unless asked.

Usage: runner.py PIPELINE [--until-idle] [--take-over] [--spark]. Prints one JSON document, and exits 1 on a refusal.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from lockstep.adapters.folders import load
from lockstep.adapters.kafka.broker import Broker
from lockstep.adapters.processes import this_owner
from lockstep.context.systems import stores
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.steps.batch.run import run, until_idle
from lockstep.steps.context import Context
from support.fakes.plain_engine import PlainEngine


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts us in the background ignores it
    dsn, kafka = os.environ["LOCKSTEP_DSN"], os.environ["LOCKSTEP_KAFKA"]
    folder = load(sys.argv[1])
    at = Context(dsn, Broker(kafka), stores())
    caller = Caller(this_owner(), take_over="--take-over" in sys.argv)
    engine = _spark(folder, kafka, dsn) if "--spark" in sys.argv else PlainEngine(folder, kafka, dsn)
    try:
        if "--until-idle" in sys.argv:
            reports = list(until_idle(at, engine, folder, caller, wait=40))
        else:
            reports = [run(at, engine, folder, caller)]
    except Refusal as refusal:
        print(json.dumps({"refused": str(refusal)}))
        return 1
    last = reports[-1]
    committed = [report.batch_id for report in reports if report.went_on and not report.superseded]
    print(json.dumps({"decision": type(last.decision).__name__, "superseded": last.superseded, "committed": committed}))
    return 0


def _spark(folder, kafka: str, dsn: str):
    from lockstep.engine.spark.engine import SparkEngine  # noqa: PLC0415 - only some runners pay for it

    return SparkEngine(folder, kafka, dsn)


if __name__ == "__main__":
    sys.exit(main())
