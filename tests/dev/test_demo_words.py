"""Tests that the last words of `make demo` can be typed as they stand."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import typer

from lockstep.cli.app import app
from lockstep.dev.demo import IN_LAKE, PIPELINES, WINDOWED, last_words
from lockstep.installed import CHECKOUT

WORDS = last_words("http://127.0.0.1:1", "admin", "the password")
PLACE = Path(Path(sys.executable).parent.parent.name, "bin")


def test_the_last_words_say_how_lockstep_is_typed_and_who_logs_in():
    assert f"source {PLACE}/activate" in WORDS
    assert f"type {PLACE}/lockstep\n" in WORDS
    assert Path(sys.executable).with_name("activate").is_file()
    assert "Airflow  http://127.0.0.1:1   user admin   password the password" in WORDS


def test_the_readme_says_it_too():
    text = (CHECKOUT / "README.md").read_text()
    assert "The command line is `.venv/bin/lockstep`." in text
    assert "\n    source .venv/bin/activate\n" in text


@pytest.mark.parametrize("page", ["the demo", "README.md", "docs/cookbook.md", "docs/tutorial.md"])
def test_every_command_that_is_shown_exists(page):
    text = WORDS if page == "the demo" else (CHECKOUT / page).read_text()
    shown = [line.split() for line in text.splitlines() if line.startswith(("  lockstep ", "    lockstep "))]
    assert len(shown) >= 4
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for _, name, *more in shown:
        assert name in commands, name
        if name == "dev":
            assert more[0] in commands["dev"].commands, more[0]


def test_help_says_which_pipelines_the_demo_loads_and_by_what():
    said = typer.main.get_command(app).commands["demo"].help  # type: ignore[attr-defined]
    (of_make,) = re.findall(r"^demo:.*## (.+)$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)

    *first, last = PIPELINES
    for text in (said, of_make):
        assert f"{', '.join(first)} and {last} by Airflow's scheduler" in text, text
        assert f"then {WINDOWED} and {IN_LAKE}" in text, text
