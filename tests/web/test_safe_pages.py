"""Tests that a page runs no pipeline's code in the server, no foreign script, and leaves nothing behind."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lockstep.adapters import folders
from web.answers import said

PATHS = (
    "/",
    "/dags/drill/coverage",
    "/dags/drill/batches",
    "/dags/drill/batches/1",
    "/dags/drill/record",
    "/dags/drill/record?partition=0&offset=3",
    "/dags/drill/record?key=r1",
    "/dags/drill/runs/r1",
    "/dags/drill/feed",
    "/dags/drill/time",
    "/dags/drill/late",
    "/dags/drill_history/record?partition=0&offset=3",
)
REFUSED = (
    "/dags/drill/batches/99",
    "/dags/drill/coverage?from=9&until=3",
    "/nowhere",
    "/dags/drill/record?offset=x",
    "/dags/drill/feed/1",
)
SCRIPT = re.compile(r"<script([^>]*)>")


def test_no_page_runs_the_code_of_a_pipeline(pages, here, tmp_path):
    here.drain()
    canary, source = tmp_path / "canary", folders.root() / "drill" / "__init__.py"
    source.write_text(f"from pathlib import Path\nPath({str(canary)!r}).touch()\n{source.read_text()}")
    folders.load("drill")
    assert canary.exists(), "the canary sings when the module runs"
    canary.unlink()

    for path in (*PATHS, *REFUSED):
        assert pages(path, follow_redirects=False).status_code < 500, path
        assert not canary.exists(), path
    words = said(pages("/dags/drill/record?partition=0&offset=3"))
    assert "offset 3 → batch 1 → attempt" in words
    assert "&#34;id&#34;: &#34;r" in words


def test_a_page_needs_no_folder_of_pipelines(pages, here, monkeypatch, tmp_path):
    here.drain()
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("LOCKSTEP_PIPELINES", str(tmp_path / "nothing"))

    assert "well 0 0 s" in said(pages("/"))
    assert "1 row" in said(pages("/dags/drill/record?partition=0&offset=3"))


@pytest.mark.parametrize("path", [*PATHS, *REFUSED])
def test_every_answer_guards_itself(pages, here, path):
    here.drain()
    answer, again = (pages(path, follow_redirects=False) for _ in range(2))

    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    policy = dict(each.split(" ", 1) for each in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["frame-ancestors"] == "'self'", "Airflow's own page frames it"
    assert policy["base-uri"] == "'none'"
    nonce = re.fullmatch(r"'nonce-([\w-]{20,})'", policy["script-src"])[1]
    scripts = SCRIPT.findall(answer.text)
    assert scripts or answer.is_redirect
    assert set(scripts) <= {f' nonce="{nonce}"'}
    assert nonce not in again.headers["content-security-policy"], "a word of one answer opens no other"


def test_the_page_of_a_fault_guards_itself_too(pages, monkeypatch):
    def broken(*_: Any):
        raise RuntimeError("a secret of the code")

    monkeypatch.setattr("lockstep.web.app.record_page", broken)
    answer = pages("/dags/drill/record")
    assert answer.status_code == 500
    assert "a secret of the code" not in answer.text
    assert answer.headers["cache-control"] == "no-store"
    nonce = re.search(r"'nonce-([\w-]+)'", answer.headers["content-security-policy"])[1]
    assert set(SCRIPT.findall(answer.text)) == {f' nonce="{nonce}"'}


def test_no_template_has_a_handler_in_an_attribute():
    for template in (folders.Path(__file__).parents[2] / "include/lockstep/web/templates").iterdir():
        assert not re.search(r"<[^>]*\son\w+\s*=|javascript:", template.read_text()), template
