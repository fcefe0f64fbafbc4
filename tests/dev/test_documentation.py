"""Tests the pages of docs/: each is in the tree, each link leads somewhere, and the reference is what the code says."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import fields
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isclass, signature
from pathlib import Path

import pytest
from typer.main import get_command

import lockstep
from lockstep.cli.app import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE = DOCS / "site"
LISTS = (DOCS / "index.md", DOCS / "decisions" / "README.md")
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, *sorted(ROOT.glob("*.md")), ROOT / "bench" / "README.md"]
FENCE = re.compile(r"^(?P<fence>```+).*?^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(rf"{FENCE.pattern}|^(?: {{4}}|\t)[^\n]*$|(?P<tick>`+)[^`\n]+(?P=tick)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
LISTED = re.compile(r"^- \[([^\]]+)\]\(([\w./-]+\.md)\)", re.MULTILINE)


def reference():
    """Returns the program that writes docs/reference."""
    spec = spec_from_file_location("reference", SITE / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = reference()


def anchors(text):
    """Returns the anchors of a page's headings, as code hosts make them: the second of a name ends with -1."""
    found = {}
    for title in re.findall(r"^#{1,6} +(.+?) *$", FENCE.sub("", text), re.MULTILINE):
        shown = LINK.sub("]", title)
        slug = re.sub(r"[^\w\- ]", "", shown).strip().lower().replace(" ", "-")
        found[slug] = found.get(slug, -1) + 1
    return {slug if not again else f"{slug}-{again}" for slug, most in found.items() for again in range(most + 1)}


def broken(page, text):
    """Lists the links of a page that lead nowhere."""
    found = []
    for link in LINK.findall(CODE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        there = target.is_relative_to(ROOT) and target.exists()
        if there and anchor:
            there = anchor in anchors(text if target == page else target.read_text(encoding="utf-8"))
        found += [] if there else [link]
    return found


def test_every_page_stands_in_the_tree_once():
    listed = [
        (page.parent / link).resolve()
        for page in LISTS
        for _, link in LISTED.findall(page.read_text(encoding="utf-8").partition("\n## ")[2])
    ]
    assert sorted(listed) == sorted(set(PAGES) - {DOCS / "index.md"}), (
        "add it to docs/index.md or docs/decisions/README.md"
    )


def test_every_decision_is_listed_by_its_title():
    told = {link: text for text, link in LISTED.findall(LISTS[1].read_text(encoding="utf-8"))}
    assert told == {
        page.name: page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        for page in PAGES
        if page.parent.name == "decisions" and page.name != "README.md"
    }


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page):
    assert broken(page, page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[a](nowhere.md)", ["nowhere.md"]),
        ("[a](audit.md#nowhere)", ["audit.md#nowhere"]),
        ("# Here\n\n[a](#here) [b](#there)", ["#there"]),
        ("[a](../../../etc/hostname)", ["../../../etc/hostname"]),
        ("[a](audit.md#a-certificate) [b](../Makefile) [c](decisions) ![d](images/tab.png)", []),
        ("# Here\n\n## Here\n\n[a](#here-1)", []),
        ("`[a](nowhere.md)` and\n\n    [b](nowhere.md)\n\n```text\n[c](nowhere.md)\n```\n", []),
        ("```text\n# Here\n```\n\n[a](#here)", ["#here"]),
        ("[a](https://example.org/nowhere.md)", []),
    ],
)
def test_a_link_that_leads_nowhere_is_found(text, found):
    assert broken(DOCS / "index.md", text) == found


def test_links_are_found_on_the_pages_that_have_many():
    assert len(LINK.findall(CODE.sub("", (ROOT / "README.md").read_text()))) > 30
    assert "t13-a-time-is-resolved-once" in anchors((DOCS / "protocol.md").read_text())


@pytest.mark.parametrize("name", REFERENCE.PAGES)
def test_the_reference_is_what_the_code_says(name):
    assert (DOCS / "reference" / name).read_text(encoding="utf-8") == REFERENCE.PAGES[name](), "make reference"


def test_there_is_no_other_page_of_reference():
    assert {page.name for page in (DOCS / "reference").iterdir()} == set(REFERENCE.PAGES)


def test_the_reference_has_every_command_with_every_option():
    page = (DOCS / "reference" / "commands.md").read_text()
    parts = dict(re.findall(r"^## lockstep (.+)\n((?:(?!^## ).*\n)+)", page, re.MULTILINE))
    commands = {name: command for name, command in get_command(app).commands.items() if name != "dev"}  # type: ignore[attr-defined]
    commands |= {f"dev {name}": command for name, command in get_command(app).commands["dev"].commands.items()}  # type: ignore[attr-defined]

    assert set(parts) == set(commands)
    assert len(parts) > 30
    for name, command in commands.items():
        for option in command.params:
            for typed in option.opts if option.param_type_name == "option" else ():
                assert typed == "--help" or f"`{typed}" in parts[name] or f"{typed} " in parts[name], (name, typed)


def test_the_reference_has_every_field_of_every_public_value():
    page = (DOCS / "reference" / "pipeline.md").read_text()
    parts = dict(re.findall(r"^### (\w+)\n((?:(?!^##).*\n)+)", f"{page}\n", re.MULTILINE))

    assert set(parts) == set(lockstep.__all__)
    for name, text in parts.items():
        value = getattr(lockstep, name)
        if isclass(value):
            assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(signature(value).parameters)
        else:
            assert all(f"{parameter}:" in text for parameter in signature(value).parameters)
    said = parts["Pipeline"].partition("| field |")[0]
    assert {each.name for each in fields(lockstep.Pipeline) if f"`{each.name}`" not in said} == {"name", "target"}
    assert "| `max_reject_share` | `float` | `0.05` |" in parts["Pipeline"]


def test_the_environment_has_every_variable_that_the_code_reads():
    parts = tomllib.loads((SITE / "environment.toml").read_text())
    assert {name for known in parts.values() for name in known} == set(REFERENCE.variables())


def test_variables_of_other_pages_exist():
    """A `LOCKSTEP_...` of a page is read by the code, by compose, or by tests."""
    known = set(REFERENCE.variables()) | set(re.findall(r"LOCKSTEP_[A-Z_]+", (ROOT / ".env.example").read_text()))
    known |= {"LOCKSTEP_CATALOG_NAME", "LOCKSTEP_CATALOG_POLARIS"}
    known |= {"LOCKSTEP_STORE_NAME", "LOCKSTEP_STORE_FILES", "LOCKSTEP_STORE_WAREHOUSE", "LOCKSTEP_HOUSE_FAULTS"}
    told = {name for page in PAGES for name in re.findall(r"LOCKSTEP_[A-Z_]+", page.read_text())}
    assert told - known == set()


def test_the_reference_of_sql_has_what_a_reader_may_select_and_nothing_else():
    page = (DOCS / "reference" / "sql.md").read_text()
    views = re.findall(r"^### lockstep\.(\w+)", page, re.MULTILINE)
    tables = re.findall(r"^\| `lockstep\.(\w+)`", page, re.MULTILINE)
    catalog = (ROOT / "include" / "lockstep" / "ledger" / "catalog.txt").read_text()
    granted = re.findall(r"^grant \| lockstep\.(\w+) to lockstep_reader \| .*select", catalog, re.MULTILINE)

    assert sorted([*views, *tables]) == sorted(granted)
    assert "origin" in views
    columns = {
        table: set(re.findall(rf"^column \| lockstep\.{table}\.(\w+) ", catalog, re.MULTILINE)) for table in tables
    }
    for table, told in re.findall(r"^\| `lockstep\.(\w+)` \| ([^|]+) \|", page, re.MULTILINE):
        assert set(re.findall(r"`(\w+)`", told)) == columns[table], table


def test_the_slowest_page_is_told_as_it_was_measured():
    rows = re.findall(
        r"^\| ([^|]+) \| (\d+) \| \d+ \| \d+ \| [\d-]+ \|$", (ROOT / "bench" / "README.md").read_text(), re.MULTILINE
    )
    slowest, milliseconds = max(((name, int(median)) for name, median in rows), key=lambda row: row[1])
    (told,) = re.findall(r"the slowest page, ([^,]+), takes ([\d.]+) s", (DOCS / "airflow.md").read_text())
    in_words = {
        "coverage, the last 40 by age": "the last forty partitions of the coverage by age",
        "coverage, along time": "the coverage along time",
    }
    assert told == (in_words[slowest], f"{milliseconds / 1000:.2f}")
    assert sum(int(median) < 80 for _, median in rows) > len(rows) / 2, "most of them less than 0.08 s"


SHIPPED = {path.name for path in (ROOT / "include" / "pipelines").iterdir() if path.is_dir()}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_makes_a_new_pipeline_with_the_name_of_a_shipped_one(page):
    assert not SHIPPED & set(re.findall(r"lockstep new (\w+) --topic", page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("word", ["position", "lane", "fill", "replay"])
def test_the_words_that_the_readme_begins_with_stand_in_the_glossary(word):
    assert re.search(rf"\b{word}", (ROOT / "README.md").read_text(encoding="utf-8"))
    glossary = (DOCS / "glossary.md").read_text(encoding="utf-8")
    assert re.search(rf"^\|.*\b{word}\b.*\|", glossary, re.MULTILINE)


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_heading_has_a_text_or_a_smaller_heading_below_it(page):
    text = FENCE.sub("a block", page.read_text(encoding="utf-8"))
    pairs = re.findall(r"^(#+) (.+)\n\s*(?=(#+) )", text, re.MULTILINE)
    assert [title for above, title, below in pairs if len(below) <= len(above)] == []


def test_the_page_of_feeds_names_every_target_that_takes_one():
    targets = [getattr(lockstep, name) for name in lockstep.__all__ if isclass(getattr(lockstep, name))]
    takes = [target.__name__ for target in targets if "feed" in signature(target).parameters]
    (told,) = re.findall(r"`feed` is an option of (.+)\.$", (DOCS / "feeds.md").read_text(), re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", told)) == sorted(takes)


def test_the_page_of_monitoring_says_more_of_each_metric():
    metrics = re.findall(r"^\| `(lockstep_\w+)` \|", (DOCS / "reference" / "metrics.md").read_text(), re.MULTILINE)
    told = re.findall(r"`(lockstep_\w+)`", (DOCS / "monitoring" / "README.md").read_text())
    assert len(metrics) > 30
    assert set(metrics) - set(told) == set()
