"""The page of many pipelines counts them by health, and shows those that a reader chooses, in a link that keeps it."""

from __future__ import annotations

import re

import pytest

from web.answers import said


@pytest.fixture
def many(pages, here, dags):
    """Returns the pages of `drill`, which is well, and of `never_run`, which has an owner and was never planned."""
    here.drain()
    dags(drill=False)
    dags("lockstep", "live", owners="ada, finance", never_run=True)
    return pages


def names(text: str) -> list[str]:
    return re.findall(r"<strong>(\w+)</strong>", text)


def test_a_line_counts_the_pipelines_by_health_the_worst_first(many):
    assert "2 pipelines 1 not planned yet 1 well" in said(many("/"))


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ["drill", "never_run"]),
        ("name=RUN&health=&owner=", ["never_run"]),
        ("health=well", ["drill"]),
        ("health=not+planned+yet", ["never_run"]),
        ("owner=finance", ["never_run"]),
        ("owner=finance&health=well", []),
        ("owner=nobody", []),
    ],
)
def test_name_health_and_owner_choose_and_the_line_still_counts_all(many, query, shown):
    answer = many(f"/?{query}")
    assert names(answer.text) == shown
    assert "2 pipelines 1 not planned yet 1 well" in said(answer)


def test_a_choice_stays_in_the_form_and_in_the_links_of_the_counts(many):
    text = many("/?name=%22r&owner=ada&health=well").text
    assert 'name="name" type="search" value="&#34;r"' in text
    assert "<option selected>well</option>" in text
    assert "<option selected>ada</option>" in text
    assert 'href="?health=not%20planned%20yet&amp;name=%22r&amp;owner=ada"' in text
    assert "None of the 2 pipelines is like this" in text


def test_a_health_that_is_none_is_refused_with_those_that_are(many):
    words = said(many("/?health=fine"), 400)
    assert "health: fine is none of failing, blocked, unknown" in words
