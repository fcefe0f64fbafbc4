"""Dashboard and alert rules of docs/monitoring, on a real Prometheus that scrapes a real exporter."""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from lockstep.adapters import prometheus
from lockstep.core.health.health import Health
from support.servers.watching import FOLDER, NEEDED, Target, Watching

DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
ALERTS = (FOLDER / "alerts.yml").read_text()
NOW = datetime.now(UTC).replace(microsecond=0)
METRIC = re.compile(r"\blockstep_[a-z_]+")
# By pipeline, the condition and the alert that it raises. `orders` is well and raises none.
RAISED = {
    "late": (Health.BEHIND, "LockstepBehind"),
    "stopped": (Health.INTERRUPTED, "LockstepInterrupted"),
    "refused": (Health.FAILING, "LockstepFailing"),
    "replaced": (Health.BLOCKED, "LockstepBlocked"),
    "switched": (Health.OFF, "LockstepOff"),
    "fresh": (Health.NOT_PLANNED, "LockstepNotPlanned"),
    "holed": (Health.HOLES, "LockstepHoles"),
}


def pipeline(name: str, state: Health = Health.WELL, **more: Any) -> dict:
    """A pipeline of a scrape."""
    conditions = [] if state is Health.WELL else [{"state": state, "message": "said", "next": None}]
    known = {"pipeline": name, "up": True, "error": None, "health": state, "conditions": conditions}
    known |= {"lag_records": 7, "lag_seconds": 3.0, "oldest_waiting_seconds": 2.5, "behind_after_seconds": 600.0}
    known |= {"headroom_records": 40, "headroom_seconds": 86_400.0, "holes": 0, "unfinished": 0, "interrupted": 0}
    known |= {"offsets": {"spark": 90_000, "process": 10_000}}
    known |= {"jvm_heap_peak_bytes": 2**29, "jvm_heap_limit_bytes": 2**31, "jvm_gc_seconds": 0.5}
    feed = {"target": f"public.{name}", "last_seq": 3, "next_number": 12, "kept_from": 5, "topic": f"{name}.v1"}
    known |= {"feeds": [feed | {"confirmed": 8, "behind": 4, "behind_seconds": 1.5, "relay": None}]}
    windows = {"target": f"public.{name}", "open": 3, "due": 1, "emitted": 20, "updated": 2, "late_rows": 4}
    known |= {"watermark_lag_seconds": 180.0, "windows": [windows]}
    return known | {"complete_through": NOW - timedelta(hours=1), "last_commit": NOW - timedelta(minutes=2)} | more


def scrape() -> dict:
    """A scrape in which each alert but that of a missing exporter has its reason."""
    lines = [pipeline(name, state) for name, (state, _) in RAISED.items()]
    short = pipeline("short", headroom_seconds=3_600.0)
    held = pipeline("held", watermark_lag_seconds=25_200.0)
    unsent = pipeline("unsent")
    unsent["feeds"][0]["behind_seconds"] = 1_800.0
    errors = [{"system": "kafka", "error": "Unreachable", "at": NOW}]
    return {
        "at": NOW,
        "seconds": 0.25,
        "up": {"ledger": True, "kafka": False},
        "last_errors": errors,
        "pipelines": [pipeline("orders"), *lines, short, held, unsent],
    }


def expressions() -> list[str]:
    return [target["expr"].replace("$pipeline", ".*") for panel in DASHBOARD["panels"] for target in panel["targets"]]


@pytest.fixture(scope="module")
def watching(tmp_path_factory):
    server, _ = prometheus.serve(scrape, "127.0.0.1", 0)
    made = Watching(tmp_path_factory.mktemp("prometheus"), [Target(f"127.0.0.1:{server.server_port}")])
    yield made
    made.stop()
    server.shutdown()
    server.server_close()


def test_dashboard_and_alerts_ask_for_metrics_that_a_scrape_has():
    text = prometheus.exposition(scrape)[0].decode()
    told = set(METRIC.findall(text))
    asked = set(METRIC.findall(" ".join(expressions()))) | set(
        METRIC.findall(" ".join(re.findall(r"expr: (.*)", ALERTS)))
    )
    assert asked
    assert asked - told == set()


def test_each_panel_has_a_place_of_its_own():
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert panel["title"]
        assert panel["description"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


def test_a_state_has_the_label_that_the_alerts_ask_for():
    asked = set(re.findall(r'lockstep_condition="([a-z ]+)"', ALERTS))
    assert asked == {state.value for state in Health} - {"well", "warned", "paused", "forgotten"}


@NEEDED
def test_the_rules_hold_their_own_tests():
    check = ["promtool", "test", "rules", "alerts_test.yml"]
    done = subprocess.run(check, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    tested = set(re.findall(r"alertname: (\w+)", (FOLDER / "alerts_test.yml").read_text()))
    assert tested == set(re.findall(r"alert: (\w+)", ALERTS))


@pytest.mark.server
@NEEDED
def test_a_prometheus_reads_the_values_of_each_panel(watching):
    watching.until(lambda: watching.query("lockstep_lag_records"))

    for expression in expressions():
        watching.until(partial(watching.query, expression))  # a rate takes two scrapes
    lags = {found["metric"]["pipeline"]: found["value"][1] for found in watching.query("lockstep_lag_records")}
    assert lags == dict.fromkeys(["orders", "short", "held", "unsent", *RAISED], "7")
    now = {
        found["metric"]["pipeline"]: found["metric"]["lockstep_health"]
        for found in watching.query("lockstep_health == 1")
    }
    states = {name: state.value for name, (state, _) in RAISED.items()}
    assert now == dict.fromkeys(["orders", "short", "held", "unsent"], "well") | states
    (since,) = {float(found["value"][1]) for found in watching.query("lockstep_complete_through_timestamp_seconds")}
    assert since == (NOW - timedelta(hours=1)).timestamp()


@pytest.mark.server
@NEEDED
def test_the_expression_of_each_alert_holds_for_its_pipeline_and_for_none_that_is_well(watching):
    expected = {(alert, name) for name, (_, alert) in RAISED.items()}
    expected |= {("LockstepHeadroomShort", "short"), ("LockstepSystemAway", None)}
    expected |= {("LockstepWatermarkHeld", "held"), ("LockstepRelayStopped", "unsent")}

    def raised() -> set:
        return {(alert["labels"]["alertname"], alert["labels"].get("pipeline")) for alert in watching.alerts()}

    watching.until(lambda: expected <= raised())

    assert raised() == expected, "and no other"
    health = {group["name"]: [rule["health"] for rule in group["rules"]] for group in watching.ask("rules")["groups"]}
    assert set(health["lockstep"]) == {"ok"}
