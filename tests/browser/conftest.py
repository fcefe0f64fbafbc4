"""Runs a real Airflow with a shop's pipelines, and Debian's Chromium before it, logged in.

`shop` has run. `opened("/lockstep/")` is a page of it in a separate browser, of some width, light or dark.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from browser.shop import Shop
from lockstep.dev.servers import airflow_api
from support.servers.scheduled import House, an_airflow

CHROMIUM = Path("/usr/bin/chromium")
WIDE, PHONE = 1280, 390
PATIENCE = 120.0  # seconds for an answer of Airflow's API, while Spark starts beside it


@pytest.fixture(scope="session")
def house(servers, tmp_path_factory):
    """Yields an Airflow for the session. `house.api` is its REST API."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(airflow_api, "API_SECONDS", PATIENCE)
        with an_airflow(servers, tmp_path_factory.mktemp("browser")) as made:
            yield made


@pytest.fixture(scope="session")
def shop(house):
    """Returns its pipelines after a few batches, one of them by a DAG run."""
    made = Shop(house)
    made.live()
    return made


@pytest.fixture(scope="session")
def chromium():
    """Yields the browser."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def session(house, chromium):
    """Returns the cookies of a login through Airflow's own form."""
    context = chromium.new_context()
    page = context.new_page()
    log_in(page, house)
    state = context.storage_state()
    context.close()  # Airflow's home page asks its server every three seconds
    return state


@dataclass
class Opened:
    """A page in a separate browser, and the browser's complaints."""

    page: Any
    complaints: list[str] = field(default_factory=list)

    def overflow(self) -> int:
        """Returns by how many pixels the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@pytest.fixture
def opened(house, chromium, session):
    """Yields `opened(path, width=1280, theme="light")`: a page of this Airflow, as a logged-in user sees it."""
    contexts = []

    def open_(path: str, width: int = WIDE, theme: str = "light") -> Opened:
        context = chromium.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=theme,
            storage_state=session,
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
        contexts.append(context)
        made = Opened(context.new_page())
        made.page.on("console", lambda said: made.complaints.append(said.text) if said.type == "error" else None)
        made.page.on("pageerror", lambda error: made.complaints.append(str(error)))
        made.page.goto(f"{house.airflow.address}{path}")
        return made

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """Returns the folder for pictures.

    That is LOCKSTEP_SCREENSHOTS, which `make screenshots` sets, else a temporary folder.
    """
    asked = os.environ.get("LOCKSTEP_SCREENSHOTS")
    return Path(asked) if asked else tmp_path_factory.mktemp("pictures")


def log_in(page, house: House, user: str | None = None, password: str | None = None) -> None:
    """Logs in through Airflow's own form, as its first user unless another is named."""
    page.goto(house.airflow.address)
    page.locator("input[name=username]").fill(user or house.airflow.user)
    page.locator("input[name=password]").fill(password or house.airflow.password)
    page.locator("form button[type=submit]").click()
    page.wait_for_url(lambda url: "login" not in url)
