"""Tests the pages in a browser: within their window, without complaints, sorted, copied, and linked from Airflow."""

from __future__ import annotations

import re
from urllib.parse import unquote

import httpx
import pytest

from browser.conftest import PHONE, WIDE
from lockstep.core.pipeline.names import MOST_NAME_LENGTH
from support.servers.scheduled import wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
NAMES = ("pipelines", "coverage", "batches", "batch", "record", "refused", "nowhere")
LONGEST = "orders_of_the_shop_with_the_longest_name_a_pipeline_ever_can_ge"
ROUTES = ("", "dags/orders/coverage", "dags/orders/batches", "dags/orders/batches/1", "dags/orders/record")
ROUTES += ("dags/orders/feed", "dags/orders/feed/1", "dags/orders/time", "dags/orders/late")  # type: ignore[assignment]


@pytest.fixture(scope="session")
def paths(shop):
    """Returns the address of each page.

    For batches these are the last one that Airflow has run, and a refused one.
    """
    of_run = "select batch_id from lockstep.attempt where dag_run_id = %s"
    ((batch,),) = shop.ask(of_run, shop.dag_run)
    ((refused,),) = shop.ask("select batch_id from lockstep.batch where pipeline = 'payments' and state = 'planned'")
    ((key,),) = shop.ask("select order_id from public.orders order by _batch desc, _offset desc limit 1")
    at = "/lockstep/dags/orders"
    return {
        "pipelines": "/lockstep/",
        "coverage": f"{at}/coverage",
        "batches": f"{at}/batches",
        "batch": f"{at}/batches/{batch}",
        "record": f"{at}/record?key={key}",
        "refused": f"/lockstep/dags/payments/batches/{refused}",
        "nowhere": f"{at}/batches/99999",
    }


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_fits_its_window_and_the_browser_complains_of_nothing(
    opened, paths, pictures, tmp_path, name, width, theme
):
    made = opened(paths[name], width, theme)
    made.page.locator("h1").wait_for()
    made.page.set_viewport_size({"width": width, "height": 400})  # what is below counts in a picture of the whole page

    for_docs = (width, theme) == (WIDE, "light") and name not in {"refused", "nowhere"}
    file = pictures / f"{name}.png" if for_docs else tmp_path / f"{name}-{width}-{theme}.png"
    made.page.screenshot(path=file, full_page=True)

    assert made.overflow() <= 0
    assert [each for each in made.complaints if name != "nowhere" or "404" not in each] == []
    ground = made.page.evaluate("getComputedStyle(document.body).backgroundColor")
    red = int(re.findall(r"\d+", ground)[0])
    assert red > 200 if theme == "light" else red < 60, ground


def test_the_tabs_of_a_dag_a_run_and_a_task_show_its_own_pages_and_lead_back(opened, shop, paths):
    batch = paths["batch"].rpartition("/")[2]
    run = f"/dags/orders/runs/{shop.dag_run}"
    for path, tab, words in (
        ("/dags/orders", "coverage", "orders: coverage"),
        (run, "batch", f"orders, batch {batch}"),
        (f"{run}/tasks/commit", "task_batch", f"orders, batch {batch}"),
    ):
        made = opened(path, 1440)
        made.page.locator(f"a[href$='/plugin/{tab}']").first.click()
        made.page.frame_locator("iframe").get_by_role("heading", name=words).wait_for(timeout=15_000)

    made.page.frame_locator("iframe").get_by_role("link", name=shop.dag_run).first.click()
    made.page.wait_for_url(lambda url: unquote(url.split("?")[0]).endswith(f"/runs/{shop.dag_run}"))


def test_a_tab_leads_to_the_same_page_alone_and_that_one_back_to_airflow(opened, shop):
    assert shop.dag_run
    made = opened("/dags/orders/plugin/coverage", 420)
    made.page.frame_locator("iframe").get_by_role("link", name="Open alone").click(timeout=30_000)
    made.page.wait_for_url(lambda url: url.split("?")[0].endswith("/lockstep/dags/orders/coverage"))
    assert made.page.get_by_role("link", name="Open alone").count() == 0, "it is alone"
    made.page.get_by_role("link", name="Pipelines").click()
    made.page.get_by_role("link", name="Airflow").click()
    made.page.wait_for_url(lambda url: "/lockstep" not in url)


def test_the_tab_of_a_run_is_dark_where_airflow_is(opened, shop, pictures):
    made = opened(f"/dags/orders/runs/{shop.dag_run}/plugin/batch", 1440, "dark")
    frame = made.page.frame_locator("iframe")
    frame.get_by_role("heading", name="orders, batch").wait_for(timeout=15_000)
    made.page.wait_for_timeout(1_000)
    made.page.screenshot(path=pictures / "tab.png")
    ground = frame.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    assert int(re.findall(r"\d+", ground)[0]) < 60


def test_tables_sort_by_any_column_and_are_copied_whole(opened, paths):
    page = opened(paths["batches"]).page
    head = page.locator("#batches th", has_text="written")

    def written() -> list[int]:
        return page.evaluate("[...document.querySelectorAll('#batches tbody tr')].map(r => +r.cells[5].dataset.value)")

    head.click()
    assert written() == sorted(written())
    assert head.get_attribute("aria-sort") == "ascending"
    head.press("Enter")
    assert written() == sorted(written(), reverse=True)

    page.get_by_role("button", name="Copy table").click()
    page.get_by_role("button", name="Copied").wait_for()
    lines = page.evaluate("navigator.clipboard.readText()").split("\n")
    assert lines[0].split("\t")[:3] == ["batch", "state", "lane"]
    assert [int(line.split("\t")[5]) for line in lines[1:]] == written()


def test_long_tables_are_shown_page_by_page(opened, paths):
    page = opened(paths["batch"]).page
    page.evaluate(
        """() => {
            const table = document.querySelector("table.data"), row = table.tBodies[0].rows[0];
            for (let i = table.tBodies[0].rows.length; i < 120; i++) table.tBodies[0].append(row.cloneNode(true));
            table.sortAgain();
        }"""
    )
    rows = page.locator("table.data").first.locator("tbody tr:visible")
    assert rows.count() == 50
    page.get_by_role("button", name="after").first.click()
    page.get_by_role("button", name="after").first.click()
    assert rows.count() == 20
    assert page.get_by_role("button", name="after").first.is_disabled()
    assert page.get_by_text("101 to 120 of 120").is_visible()


def test_a_block_of_the_coverage_leads_to_its_batch_and_a_drag_looks_closer(opened, paths):
    page = opened(paths["coverage"]).page
    box = page.locator(".chart > svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.2, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 30, steps=5)
    page.mouse.up()
    page.wait_for_url(lambda url: "from=" in url and "until=" in url)
    until = int(page.locator("input[name=until]").input_value())
    assert 0 < int(page.locator("input[name=from]").input_value()) < until

    page.locator(".chart svg a[href*='/batches/']").first.click()
    page.get_by_role("heading", name=re.compile(r"orders, batch \d+")).wait_for()


def test_a_record_is_found_by_its_rows_key_and_its_bytes_are_shown(opened, paths):
    page = opened(paths["record"].partition("?")[0]).page
    key = paths["record"].partition("key=")[2]
    page.locator("input[name=key]").fill(key)
    page.get_by_role("button", name="Look up by key").click()
    page.locator("pre", has_text=f'"order_id": "{key}"').wait_for()
    assert page.locator(".path").get_by_text("1 row").is_visible()


def test_the_glance_at_all_pipelines_keeps_itself_up_to_date_and_sorted(opened, paths, shop):
    page = opened(paths["pipelines"]).page
    page.locator("th", has_text="pipeline").click()
    page.locator("th", has_text="pipeline").click()

    def names() -> list[str]:
        return page.locator("tbody strong").all_inner_texts()

    def lag() -> int:
        return int(page.locator("tr", has_text="clicks").locator("td").nth(2).get_attribute("data-value"))

    before = lag()
    shop.send("clicks", [{"page": "/new", "visitor": "v"}] * 11)
    wait_for(lambda: page.wait_for_timeout(200) or lag() == before + 11, "the lag is seen", 20)
    assert names() == ["payments", "orders", "clicks"]


def test_what_is_wrong_stands_beside_its_pipeline(opened, paths):
    page = opened(paths["pipelines"]).page
    line = page.locator("tr", has_text="payments")
    line.get_by_text("failing").wait_for()
    refused = opened(paths["refused"]).page
    assert refused.locator("td.fails").count() == 1
    refused.locator("a[href*='record?partition=']").first.click()
    refused.get_by_text('"amount": -1.0').wait_for()


def test_arrow_keys_go_from_block_to_block_and_say_each_below_the_picture(opened, paths):
    page = opened(paths["coverage"]).page
    stops = "[...document.querySelectorAll('.chart > svg a')].filter(a => a.tabIndex === 0).length"
    assert page.locator(".chart > svg a").count() > page.evaluate(stops) == 1

    def here() -> str:
        return page.evaluate("document.activeElement.querySelector('title').textContent")

    page.locator(".chart > svg a").first.focus()
    first = here()
    page.keyboard.press("ArrowRight")
    second = here()
    assert page.locator(".told").inner_text() == second != first
    page.keyboard.press("ArrowDown")
    assert here() not in {first, second}
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Home")
    assert here() == first
    assert page.evaluate(stops) == 1
    page.keyboard.press("Enter")
    page.get_by_role("heading", name=re.compile(r"orders, batch \d+")).wait_for()


@pytest.mark.parametrize("route", ROUTES)
def test_a_page_is_shown_to_nobody_without_a_session(house, shop, route):
    assert shop.dag_run
    assert httpx.get(f"{house.airflow.address}/lockstep/{route}").status_code in {401, 403}


@pytest.fixture(scope="session")
def longest(shop):
    """Returns the addresses of the pages of a pipeline whose name is as long as any."""
    assert len(LONGEST) == MOST_NAME_LENGTH
    shop.pipeline(LONGEST, "page string, visitor string", 2)
    shop.send(LONGEST, [{"page": "/p", "visitor": "v"}] * 20)
    shop.run(LONGEST)
    wait_for(lambda: LONGEST in shop.house.api.dags(), "the DAG is parsed")
    ((batch,),) = shop.ask("select max(batch_id) from lockstep.batch where pipeline = %s", LONGEST)
    at = f"/lockstep/dags/{LONGEST}"
    tails = (
        "coverage",
        "coverage?along=time",
        "batches",
        f"batches/{batch}",
        "record?partition=0&offset=0",
        "batches/9999",
        "feed",
        "time",
        "late",
    )
    return ("/lockstep/", *(f"{at}/{tail}" for tail in tails))


@pytest.mark.parametrize("width", [1440, 420])
def test_nothing_leaves_the_page_with_the_longest_name(opened, longest, tmp_path, width):
    found = {}
    for number, path in enumerate(longest):
        made = opened(path, width)
        made.page.locator("h1").wait_for()
        made.page.screenshot(path=tmp_path / f"longest-{width}-{number}.png", full_page=True)
        found[path] = made.overflow()
    assert found == dict.fromkeys(longest, 0)


def test_airflows_own_pages_show_runs_without_work_as_skipped_and_what_a_task_committed(opened, shop, pictures):
    run = shop.run_dag("orders")
    for _ in range(2):
        shop.run_dag("orders")
    page = opened("/dags/orders", 1440).page
    page.get_by_text("Last 4 Dag Runs").wait_for(timeout=30_000)
    page.screenshot(path=pictures / "dag.png")
    page = opened(f"/dags/orders/runs/{run}/tasks/commit/xcom", 1440).page
    page.get_by_text("_link_BatchLink").wait_for(timeout=30_000)
    page.screenshot(path=pictures / "task.png")
    page = opened(f"/dags/orders/runs/{run}/tasks/commit/details", 1440).page
    page.get_by_text("Extra Links").wait_for(timeout=30_000)
    page.screenshot(path=pictures / "task-details.png")
