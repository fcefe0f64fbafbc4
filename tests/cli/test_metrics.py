"""`metrics` tells every pipeline's values at every scrape: while it runs, rests, fails, or while systems are away."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import psycopg2
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource

from lockstep.cli.exits import Exit
from lockstep.core.errors import BadData
from support.fakes.held import held_elsewhere
from support.oracles.exposed import conditions, health, unknown, values
from support.scenes.command_line import assert_refused, assert_wrong_call
from support.scenes.odd_logs import alter

INCLUDE = Path(__file__).parents[2] / "include"
# Answers Ctrl-C in a shell that ignores it, too, and says where it hangs.
SERVE = """
import faulthandler, signal, sys
faulthandler.dump_traceback_later(60, exit=True)
signal.signal(signal.SIGINT, signal.default_int_handler)
from lockstep.cli.app import main
sys.argv[0] = "lockstep"
main()
"""
LIMITS = "limits=Limits(records=200),"
NEVER = """
from lockstep.core.pipeline.definition import Append, Json, Pipeline
P = Pipeline(name="never", topic="{topic}", format=Json("id string, n int"), target=Append("public.never"), start="{start}")
"""


def never_run(here, start: str = "earliest") -> None:
    folder = here.drill.home / "never"
    folder.mkdir(exist_ok=True)
    (folder / "__init__.py").write_text(NEVER.format(topic=here.drill.topic, start=start))


def send(produce, here, records: int = 1, partition: int = 1) -> None:
    produce(here.drill.topic, [("k", json.dumps({"id": "late", "n": 1}))] * records, partition=partition)


def refuse(_):
    raise BadData("the code refuses")


def scraped(lockstep):
    said = lockstep("metrics")
    assert (said.code, said.err) == (0, "")
    return values(said.out)


def by_engine(found, pipeline: str) -> dict[str, float]:
    return {key[1]: value for key, value in found.items() if key[0] == "lockstep_offsets_total" and key[2] == pipeline}


def test_a_pipeline_that_is_done_and_one_that_never_ran_are_told_with_their_values(lockstep, here):
    here.drain()
    never_run(here)
    begun = time.time()

    found = scraped(lockstep)

    assert (found["lockstep_up", "ledger"], found["lockstep_up", "kafka"]) == (1, 1)
    assert health(found, "drill") == "well"
    assert conditions(found, "drill") == set()
    drill = {key[0]: value for key, value in found.items() if key[1:] == ("drill",)}
    assert (drill["lockstep_lag_records"], drill["lockstep_lag_seconds"]) == (0, 0)
    assert (drill["lockstep_oldest_waiting_seconds"], drill["lockstep_holes"]) == (0, 0)
    assert (drill["lockstep_unfinished_batches"], drill["lockstep_interrupted_batches"]) == (0, 0)
    least = min(end for (end,) in here.drill.ask("select position from lockstep.stream"))
    assert drill["lockstep_headroom_records"] == least
    assert drill["lockstep_headroom_seconds"] == math.inf, "retention takes nothing that waits"
    ((committed,),) = here.drill.ask("select extract(epoch from max(closed_at)) from lockstep.batch")
    assert drill["lockstep_last_commit_timestamp_seconds"] == pytest.approx(float(committed))
    assert math.isnan(drill["lockstep_complete_through_timestamp_seconds"])
    assert math.isnan(drill["lockstep_behind_after_seconds"])
    assert by_engine(found, "drill") == {"process": 150, "spark": 0}
    assert by_engine(found, "never") == {"process": 0, "spark": 0}
    assert health(found, "never") == "not planned yet"
    assert found["lockstep_lag_records", "never"] == 150, "it would begin at the log's start"
    assert 0 < found["lockstep_oldest_waiting_seconds", "never"] < time.time() - begun + 300
    assert unknown(found, "last_commit_timestamp_seconds", "never")


def test_a_pipeline_that_would_begin_at_the_end_has_nothing_waiting(lockstep, here):
    never_run(here, "latest")
    found = scraped(lockstep)
    assert (found["lockstep_lag_records", "never"], found["lockstep_oldest_waiting_seconds", "never"]) == (0, 0)


def test_hours_that_are_complete_are_told_as_a_time(lockstep, here):
    here.drain()
    conn = psycopg2.connect(here.drill.dsn)
    with conn, conn.cursor() as cur:
        cur.execute("set local role lockstep_planner")
        cur.execute(
            """insert into lockstep.complete_hour values ('drill', '2026-05-01 12:00+00', '{"batches": [], "losses": []}')"""
        )
        cur.execute(
            "insert into lockstep.hour_offsets select 'drill', '2026-05-01 12:00+00', stream_id, start_offset, position"
            " from lockstep.stream"
        )
    conn.close()

    assert scraped(lockstep)["lockstep_complete_through_timestamp_seconds", "drill"] == 1_777_636_800


def test_a_pipeline_that_nobody_schedules_is_behind(lockstep, here, produce):
    here.rewrite(LIMITS, f'{LIMITS} alarm="1s",')
    here.drain()
    kept = 7 * 24 * 3600
    alter(here.drill.kafka, ConfigResource.Type.TOPIC, here.drill.topic, [("retention.ms", str(kept * 1000))])
    send(produce, here, 3)
    time.sleep(1.2)

    found = scraped(lockstep)

    assert health(found, "drill") == "behind"
    assert (found["lockstep_lag_records", "drill"], found["lockstep_behind_after_seconds", "drill"]) == (3, 1)
    assert 1.2 < found["lockstep_oldest_waiting_seconds", "drill"] < 120
    assert kept - 120 < found["lockstep_headroom_seconds", "drill"] < kept


def test_aborted_records_do_not_wait(lockstep, here, produce):
    here.rewrite(LIMITS, f'{LIMITS} alarm="1s",')
    here.drain()
    produce(here.drill.topic, [("k", "{}")] * 3, partition=1, end="abort")
    time.sleep(1.2)

    found = scraped(lockstep)

    assert found["lockstep_lag_records", "drill"] == 4, "three records and a marker"
    assert (found["lockstep_oldest_waiting_seconds", "drill"], health(found, "drill")) == (0, "well")


def test_a_record_from_the_future_tells_no_age_and_the_pipeline_is_not_well(lockstep, here):
    here.rewrite(LIMITS, f'{LIMITS} alarm="1s",')
    here.drain()
    producer = Producer({"bootstrap.servers": here.drill.kafka})
    in_half_an_hour = int((time.time() + 1_800) * 1000)
    producer.produce(here.drill.topic, '{"id": "f", "n": 1}', "k", partition=1, timestamp=in_half_an_hour)
    assert producer.flush(20) == 0

    found = scraped(lockstep)

    assert (found["lockstep_lag_records", "drill"], health(found, "drill")) == (1, "unknown")
    assert unknown(found, "oldest_waiting_seconds", "drill")


@pytest.mark.parametrize(("lease", "state"), [(None, "interrupted"), ("-1 second", "interrupted"), ("1 hour", "well")])
def test_a_batch_that_nobody_works_on_is_interrupted(lockstep, here, produce, lease, state):
    here.drain()
    send(produce, here)
    assert "killed" in here.drill.run(fault="stage.done=kill")
    if lease:
        held_elsewhere(here.drill.dsn, lease)

    found = scraped(lockstep)

    assert health(found, "drill") == state
    assert found["lockstep_unfinished_batches", "drill"] == 1
    assert found["lockstep_interrupted_batches", "drill"] == (state == "interrupted")
    document = lockstep("status", "drill", "--json").document
    assert (document["health"], len(document["interrupted"])) == (state, int(state == "interrupted"))
    out = lockstep("status", "drill").out
    assert ("under way: batch" in out, "Next: lockstep run drill" in out) == (state == "well", state == "interrupted")


def test_a_pipeline_that_is_paused_failing_or_blocked_is_told_as_such(lockstep, here, produce):
    here.drain()
    assert lockstep("pause", "drill", "--reason", "release").code == 0
    assert health(scraped(lockstep), "drill") == "paused"
    assert lockstep("unpause", "drill").code == 0
    send(produce, here)
    here.code = refuse
    assert lockstep("run", "drill").code == Exit.DATA

    found = scraped(lockstep)

    assert (health(found, "drill"), conditions(found, "drill")) == ("failing", {"failing"})
    assert "under way" not in lockstep("status", "drill").out


def test_one_broken_definition_hides_no_other_pipeline(lockstep, here):
    here.drain()
    never_run(here, "yesterday")

    found = scraped(lockstep)

    assert (health(found, "drill"), health(found, "never")) == ("well", "unknown")
    assert conditions(found, "never") == {"unknown", "not planned yet"}
    assert (found["lockstep_pipeline_up", "drill"], found["lockstep_pipeline_up", "never"]) == (1, 0)
    assert found["lockstep_pipeline_error", "BadDefinition", "never"] == 1


def test_a_broker_that_is_away_leaves_what_the_ledger_knows(lockstep, here, produce):
    here.drain()
    send(produce, here)
    assert "killed" in here.drill.run(fault="stage.done=kill")
    lockstep.environ(LOCKSTEP_KAFKA="127.0.0.1:1")
    begun = time.monotonic()

    found = scraped(lockstep)

    assert time.monotonic() - begun < 10
    assert (found["lockstep_up", "ledger"], found["lockstep_up", "kafka"]) == (1, 0)
    assert time.time() - 10 < found["lockstep_last_error_timestamp_seconds", "Unreachable", "kafka"] <= time.time()
    assert (health(found, "drill"), conditions(found, "drill")) == ("unknown", {"unknown", "interrupted"})
    assert found["lockstep_interrupted_batches", "drill"] == 1
    assert by_engine(found, "drill") == {"process": 150, "spark": 0}
    assert unknown(found, "lag_records", "drill")
    assert unknown(found, "headroom_seconds", "drill")


@pytest.fixture
def deaf():
    """An address that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("which", ["refused", "silent"])
def test_a_database_that_is_away_is_told_within_a_bounded_time(lockstep, here, deaf, which):
    port = deaf if which == "silent" else 1
    assert here.drill.dsn, "the broker and the definition are there"
    lockstep.environ(LOCKSTEP_DSN=f"postgresql://lockstep:hunter2@127.0.0.1:{port}/lockstep")
    begun = time.monotonic()

    said = lockstep("metrics")

    assert time.monotonic() - begun < 10
    found = values(said.out)
    assert (found["lockstep_up", "ledger"], found["lockstep_up", "kafka"]) == (0, 1)
    assert (
        "lockstep_last_error_timestamp_seconds",
        "Timeout" if which == "silent" else "Unreachable",
        "ledger",
    ) in found
    assert (health(found, "drill"), found["lockstep_pipeline_up", "drill"]) == ("unknown", 0)
    assert "hunter2" not in said.out


def test_as_json_it_is_one_document(lockstep, here):
    here.drain()
    document = lockstep("metrics", "--json").document
    assert set(document) == {"at", "seconds", "up", "last_errors", "pipelines"}
    (drill,) = document["pipelines"]
    assert (drill["pipeline"], drill["up"], drill["error"], drill["health"]) == ("drill", True, None, "well")
    assert (drill["lag_records"], drill["headroom_seconds"], drill["conditions"]) == (0, None, [])
    assert drill["offsets"] == {"process": 150, "spark": 0}


def test_wrong_calls_are_refused_in_a_line(lockstep, here):
    assert here
    assert_wrong_call(lockstep("metrics", "--host", "0.0.0.0"), "--serve PORT")  # noqa: S104 - it is refused
    assert_wrong_call(lockstep("metrics", "--serve", "70000"), "--serve", "65535")
    assert lockstep("metrics", "--serve", "0", "--json").code == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert_refused(lockstep("metrics", "--serve", port), f"--serve {port}", "Address already in use", "Next:")


def test_it_serves_each_request_anew_until_it_is_ended(here, produce):
    here.drain()
    environ = os.environ | {
        "LOCKSTEP_DSN": here.drill.dsn,
        "LOCKSTEP_KAFKA": here.drill.kafka,
        "LOCKSTEP_PIPELINES": str(here.drill.home),
        "PYTHONPATH": os.pathsep.join([str(INCLUDE), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-c", SERVE, "metrics", "--serve", "0"]
    served = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = served.stdout.readline()
        assert line.startswith("metrics are at http://127.0.0.1:"), served.stderr.read()
        address = line.split()[-1]
        first = httpx.get(address, timeout=20)
        send(produce, here, 4)
        second = httpx.get(address, timeout=20)
        served.send_signal(signal.SIGINT)
        code = served.wait(20)
    finally:
        served.kill()
    assert first.headers["content-type"].startswith("text/plain; version=")
    lags = [values(answer.text)["lockstep_lag_records", "drill"] for answer in (first, second)]
    assert lags == [0, 4]
    assert (code, served.stderr.read()) == (0, "")
