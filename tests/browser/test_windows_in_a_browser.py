"""Tests the pages Feed, Time and Late in a browser: within their window, without complaints, and linked."""

from __future__ import annotations

import re

import pytest

from browser.takings import NAME, take

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
AT = f"/lockstep/dags/{NAME}"
PAGES = ("feed", "set", "time", "late")


@pytest.fixture(scope="session")
def takings(shop):
    """Returns the address of each page of a pipeline with windows and a feed."""
    take(shop)
    ((seq,),) = shop.ask(
        "select max(seq) from lockstep.change_set where target = 'public.takings' and kind = 'emission'"
    )
    return {"feed": f"{AT}/feed", "set": f"{AT}/feed/{seq}", "time": f"{AT}/time", "late": f"{AT}/late"}


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [1440, 420])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_of_windows_fits_its_window_and_the_browser_complains_of_nothing(
    opened, takings, pictures, tmp_path, name, width, theme
):
    made = opened(takings[name], width, theme)
    made.page.locator("h1").wait_for()
    made.page.set_viewport_size({"width": width, "height": 400})
    for_docs = (width, theme) == (1440, "light") and name in {"feed", "time"}
    file = pictures / f"{name}.png" if for_docs else tmp_path / f"{name}-{width}-{theme}.png"
    made.page.screenshot(path=file, full_page=True)
    assert made.overflow() <= 0
    assert made.complaints == []


def test_a_bar_leads_to_its_set_and_that_one_to_its_batch_and_back(opened, takings):
    page = opened(takings["feed"], 1440).page
    page.locator("svg.bars a").first.click()
    page.get_by_role("heading", name=re.compile(rf"{NAME}, change set \d+")).wait_for()
    page.get_by_role("link", name="public.takings").click()
    page.get_by_role("heading", name=f"{NAME}: feed").wait_for()
    page.locator("#sets a[href*='/batches/']").first.click()
    page.get_by_role("heading", name=re.compile(rf"{NAME}, batch \d+")).wait_for()
    page.get_by_role("link", name="public.takings").first.click()
    page.get_by_role("heading", name=f"{NAME}: feed").wait_for()


def test_the_pages_of_time_lead_to_late_records_and_these_to_their_bytes(opened, takings):
    page = opened(takings["time"], 1440).page
    page.locator("dl a[href*='/late']").click()
    page.get_by_role("heading", name=f"{NAME}: late records").wait_for()
    page.locator("#late a[href*='/record?']").first.click()
    page.locator("pre", has_text='"amount": 3.5').wait_for()  # the newer of the last pair


def test_the_watermark_is_a_line_across_all_windows_and_lanes(opened, takings):
    page = opened(takings["time"], 1440).page
    line = page.locator(".chart line.watermark").bounding_box()
    whole = page.locator(".chart > svg").bounding_box()
    assert whole["x"] < line["x"] < whole["x"] + whole["width"]
    assert line["height"] >= whole["height"] * 0.9
    open_ones = page.locator("g.window rect.open")
    assert open_ones.count() == 1, "the window that the watermark is in"
    box = open_ones.bounding_box()
    assert box["x"] + box["width"] == pytest.approx(line["x"] + line["width"] / 2, abs=2)
