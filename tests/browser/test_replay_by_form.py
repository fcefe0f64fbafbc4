"""Tests a replay by hand, as a user does it: the form, the difference, the approval, the coverage, the batch."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from browser.conftest import log_in
from lockstep.airflow.history.form import FIELD_TITLES
from lockstep.dev.servers.airflow_settings import REVIEWER, secrets_of
from support.servers.scheduled import OVER, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
EACH_HOUR, HOURS = 20, 2
LONG = 600.0
MORE = "def transform(records):\n    return records.withColumn('n', (records.n + 1000).cast('int'))\n"


@pytest.fixture(scope="session")
def kiosk(house):
    """Makes a pipeline whose past was filled by its history DAG, and whose transform was corrected since."""
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    begin = end - timedelta(hours=HOURS)
    live = house.pipeline("kiosk", past=[begin + i * timedelta(hours=1) / EACH_HOUR for i in range(HOURS * EACH_HOUR)])
    assert live.over(live.trigger(), LONG) == "success"
    hours = [begin + i * timedelta(hours=1) for i in range(HOURS)]
    edges = [{"from_time": f"{at:%FT%TZ}", "until_time": f"{at + timedelta(hours=1):%FT%TZ}"} for at in hours]
    for run_id in [house.api.trigger("kiosk_history", action="fill", **each) for each in edges]:
        over(house, run_id)
    (house.place.pipelines / "kiosk" / "transform.py").write_text(MORE)
    return live, begin


def over(house, run_id: str) -> None:
    def state() -> str:
        return {run["dag_run_id"]: run["state"] for run in house.api.runs("kiosk_history")}[run_id]

    wait_for(lambda: state() in OVER, f"{run_id} is over", LONG)
    assert state() == "success"


def moment(page, form, at: datetime) -> None:
    """Picks a moment in the next field that has none."""
    form.get_by_text("Select date and time").first.click()
    page.get_by_placeholder("YYYY/MM/DD").fill(f"{at:%Y/%m/%d}")
    page.get_by_placeholder("HH:mm").fill(f"{at:%H:%M}")
    form.get_by_role("heading").first.click()
    page.get_by_placeholder("HH:mm").wait_for(state="hidden")


def opens_ready(form) -> None:
    """Checks that nothing is to be done but a click: an action is chosen, no field is red or wrongly starred."""
    words = form.inner_text()
    assert FIELD_TITLES["fill"] in words
    assert "null" not in words
    assert "This field is required" not in words
    stars = [" ".join(label.split()) for label in form.locator("label", has_text="*").all_inner_texts()]
    assert stars == ["Action *"], stars
    assert form.get_by_role("button", name="Trigger").is_enabled()
    assert form.locator("#element_from_offsets").is_hidden(), "the rarer fields are folded"


def trigger_by_form(page, begin: datetime, pictures=None) -> None:
    """Fills the form in for a replay of one hour that needs an approval."""
    page.get_by_role("button", name="Trigger").first.click()
    form = page.get_by_role("dialog")
    form.locator("#element_reason").wait_for()
    opens_ready(form)
    if pictures:
        page.screenshot(path=pictures / "form.png")
    form.locator("#element_action").click()
    form.get_by_text(re.compile("^replay:")).click()
    form.locator("#element_reason").fill("n was too small")
    moment(page, form, begin)  # the first that is empty
    moment(page, form, begin + timedelta(hours=1))
    form.locator("label:has(input[name=element_approval])").click()
    form.get_by_role("button", name="Trigger").click()
    form.wait_for(state="detached")


def test_a_past_hour_is_replayed_by_form_approved_by_its_difference_and_seen_in_coverage(
    opened, house, kiosk, pictures
):
    live, begin = kiosk
    known = {run["dag_run_id"] for run in house.api.runs("kiosk_history")}
    trigger_by_form(opened("/dags/kiosk_history").page, begin, pictures)

    def new() -> str | None:
        return next((r["dag_run_id"] for r in house.api.runs("kiosk_history") if r["dag_run_id"] not in known), None)

    run_id = wait_for(new, "the run is there")

    def asked() -> bool:
        return house.api.tasks("kiosk_history", run_id)["approve"]["state"] == "awaiting_input"

    wait_for(asked, "approval is asked for", LONG)
    assert live.ask("select count(*) from public.kiosk where n >= 1000") == [(0,)], "nothing is changed before it"
    actions = f"/dags/kiosk_history/runs/{run_id}/tasks/approve/required_actions"
    page = opened(actions, 1440).page
    page.get_by_text("kiosk: replay, asked for by").first.wait_for()
    row = page.get_by_role("row", name=re.compile(r"public\.kiosk"))
    assert [cell.strip() for cell in row.first.get_by_role("cell").all_inner_texts()][1:5] == ["0", "20", "0", "0"]
    page.screenshot(path=pictures / "approval.png")
    page.context.clear_cookies()
    log_in(page, house, REVIEWER, secrets_of(house.airflow.folder).reviewer)  # the asker cannot approve
    page.goto(f"{house.airflow.address}{actions}")
    page.get_by_role("button", name="Approve").click()

    over(house, run_id)
    ((batch,),) = live.ask("select distinct _batch from public.kiosk where n >= 1000")
    assert live.ask("select count(*) from public.kiosk where n >= 1000") == [(EACH_HOUR,)]
    assert live.ask("select kind from lockstep.decision where pipeline = 'kiosk'") == [("approve",)]
    assert live.violations() == []

    page = opened("/dags/kiosk_history").page
    page.get_by_role("link", name="Coverage", exact=True).first.click()
    block = page.frame_locator("iframe").locator("svg a", has=page.locator("rect.replay")).first
    block.wait_for(timeout=15_000)
    assert block.get_attribute("href") == f"/lockstep/dags/kiosk_history/batches/{batch}"
    page = opened(f"/dags/kiosk_history/runs/{run_id}").page
    page.get_by_role("link", name="Batch", exact=True).first.click()
    tab = page.frame_locator("iframe")
    tab.get_by_role("heading", name="kiosk: a run of its history").wait_for(timeout=15_000)
    counts = tab.get_by_role("row", name=re.compile(r"^public\.kiosk 0 20 0 0")).first
    assert counts.is_visible()
    page.screenshot(path=pictures / "difference.png")
    tab.get_by_role("link", name=str(batch), exact=True).click()
    tab.get_by_role("heading", name=f"kiosk, batch {batch}").wait_for(timeout=15_000)
