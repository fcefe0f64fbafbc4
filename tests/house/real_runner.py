"""One warm driver with real Spark and Kafka: reads what to do, a JSON document a line, and answers each with one."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime

from lockstep.adapters.folders import load
from lockstep.adapters.kafka import Broker
from lockstep.adapters.processes import this_owner
from lockstep.adapters.spark import SparkEngine
from lockstep.core.bounds import AtOffsets
from lockstep.core.decisions import Caller
from lockstep.core.errors import Refusal
from lockstep.core.person import Person
from lockstep.faults import InjectedFault
from lockstep.steps import requests
from lockstep.steps.run import run, run_until_idle
from lockstep.steps.surroundings import Surroundings


def main() -> None:
    dsn, kafka = os.environ["LOCKSTEP_DSN"], os.environ["LOCKSTEP_KAFKA"]
    folder = load("drill")
    engine = SparkEngine(folder, kafka, dsn)
    for line in sys.stdin:
        asked = json.loads(line)
        at = Surroundings(dsn, Broker(kafka))
        try:
            answer = {"kind": "ok", "committed": work(at, engine, folder, asked)}
        except Refusal as refusal:
            answer = {"kind": "refused", "error": str(refusal)}
        except InjectedFault as fault:
            answer = {"kind": "struck", "error": str(fault)}
        finally:
            at.close()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def work(at: Surroundings, engine: SparkEngine, folder, asked: dict) -> list[int]:
    caller = Caller(this_owner(), take_over=True)
    if asked["act"] == "once":
        reports = [run(at, engine, folder, caller)]
    else:
        bounds = [AtOffsets({int(p): o for p, o in asked[end].items()}) for end in ("begin", "end")]
        wanted = requests.Wanted(asked["act"], *bounds)
        found = requests.ask(at.conn, at.broker, folder, wanted, Person("me", "a storm"), datetime.now(UTC))
        if found.request_id is None:
            return []
        reports = run_until_idle(at, engine, folder, caller, 0, request_id=found.request_id)
    return [report.batch_id for report in reports if report.went_on and not report.superseded]


if __name__ == "__main__":
    main()
