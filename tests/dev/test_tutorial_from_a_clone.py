"""Types docs/tutorial.md in a fresh clone, from the servers to a replay that another person approves.

What stands there for a mouse is done through Airflow's interface, by the two users that the page names.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lockstep.dev.servers.airflow_api import AirflowApi
from support.scenes.clone import a_clone, login_of, typed_in_one_shell
from support.servers.scheduled import OVER, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"(?:^    .*\n)+", re.MULTILINE)
TYPED = ("make ", "source ", "lockstep ", "eval ", "psql ")
SAMPLE, TRANSFORM = "refunds.jsonl", "include/pipelines/refunds/transform.py"
SWITCH, APPROVAL, STOP = "lockstep dev up --airflow", "lockstep batches refunds", "make down"


def commands(begin: str, end: str) -> list[str]:
    """Returns what the page has typed from one command up to another, which is not among them."""
    found = []
    for block in BLOCK.findall(PAGE):
        lines = [line.strip() for line in block.splitlines()]
        shown = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        found += shown or [line.split("  #")[0].strip() for line in lines if line.startswith(TYPED)]
    return found[found.index(begin) : found.index(end)]


def written(folder: Path) -> None:
    """Writes the files that the page shows, where it says that they lie."""
    (sample,) = (block for block in BLOCK.findall(PAGE) if block.startswith("    {"))
    (folder / SAMPLE).write_text("".join(f"{line.strip()}\n" for line in sample.splitlines()))


@pytest.fixture
def clone(tmp_path):
    with a_clone(tmp_path.resolve() / "lockstep") as folder:
        yield folder


def test_the_tutorial_alone_leads_from_a_clone_to_a_replay_that_another_person_approves(clone):
    written(clone)
    inside = ["source .venv/bin/activate"]
    mended = "lockstep check refunds"
    first = commands("make up", SWITCH)
    last = len(first) - 1 - first[::-1].index(mended)
    begun = datetime.now(UTC)

    printed = typed_in_one_shell(first[:last], clone)

    assert "3 written, 0 rejected" in printed["lockstep run refunds --until-idle"]
    assert "coordinates and contents compared with Kafka" in printed["lockstep verify refunds --deep"]
    assert "10.00" in printed["lockstep blame refunds --key r-1"]

    (transform,) = re.findall(r"^```python\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (clone / TRANSFORM).write_text(transform)
    printed = typed_in_one_shell(inside + first[last:], clone)
    assert "AT" in printed["lockstep replay refunds --from 0:0 --preview"]

    printed = typed_in_one_shell(inside + commands(SWITCH, APPROVAL), clone)
    address, user, password = login_of(printed["lockstep dev status --password"])
    reviewer = json.loads((clone / ".lockstep" / "airflow" / "secrets.json").read_text())["reviewer"]
    run_id = approved(AirflowApi(address, user, password), AirflowApi(address, "reviewer", reviewer), begun)

    printed = typed_in_one_shell(inside + commands(APPROVAL, STOP), clone)
    row = printed["lockstep blame refunds --key r-2"]
    assert re.search(r"refunds.v1-0 offset 1, batch [2-9]", row), row
    assert re.search(r"country +AT", row), row
    assert (
        "refunds: every check holds. public.refunds: coordinates compared" in printed["lockstep verify refunds --deep"]
    )
    who = 'psql "$LOCKSTEP_DSN" -Atc "select kind, who from lockstep.decision order by 1"'
    told = typed_in_one_shell([*inside, 'eval "$(lockstep dev env)"', who], clone)[who]
    assert told.splitlines() == ["approve|reviewer@refunds_history"], (told, run_id)


def approved(asker: AirflowApi, reviewer: AirflowApi, begun: datetime) -> str:
    """Does what the page describes for a mouse: asks for the replay, is refused as approver, and lets the other approve."""
    dag = "refunds_history"
    wait_for(lambda: dag in asker.dags(), "Airflow has parsed the DAG", 300)
    asker.unpause(dag)
    hour = {"from_time": (begun - timedelta(hours=1)).isoformat(), "until_time": None}
    run_id = asker.trigger(dag, action="replay", reason="countries in upper case", approval=True, **hour)
    state = "awaiting_input"
    wait_for(lambda: asker.tasks(dag, run_id)["approve"]["state"] == state, "approval is asked for", 300)
    path = f"dags/{dag}/dagRuns/{run_id}/taskInstances/approve/-1/hitlDetails"
    shown = asker.call("GET", path)["body"]
    assert ("AT" in shown, "DE" in shown) == (True, True), shown
    reviewer.call("PATCH", path, {"chosen_options": ["Approve"], "params_input": {"reason": "seen"}})

    def over() -> str | None:
        (found,) = [run["state"] for run in asker.runs(dag) if run["dag_run_id"] == run_id]
        return found if found in OVER else None

    assert wait_for(over, "the replay is over", 300) == "success"
    return run_id
