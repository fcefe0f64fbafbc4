"""Tests that the page on what is supported tells the logins, versions and pins that the code has."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from lockstep.core.errors import BadDefinition
from lockstep.core.kafka_options import KAFKA_WORD_OPTIONS, kafka_options
from lockstep.core.login.mechanisms import MECHANISMS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "airflow.md").read_text(encoding="utf-8")
PART = PAGE[PAGE.index("## What is supported") : PAGE.index("## 1. Install")]
ROWS = {
    cells[0]: cells[1:]
    for line in PART.splitlines()
    if len(cells := [cell.strip() for cell in line.split("|")[1:-1]]) == 4
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_each_login_that_the_code_takes_is_tried_or_named_as_not_tried():
    tried, not_tried, _ = ROWS["Kafka login"]
    assert set(KAFKA_WORD_OPTIONS["sasl.mechanism"]) == set(re.findall(r"`([A-Z0-9_-]+)`", f"{tried} {not_tried}"))


def test_an_unknown_login_is_refused_and_its_refusal_names_the_page():
    with pytest.raises(BadDefinition, match=r"docs/kafka\.md says which logins there are"):
        kafka_options({"sasl.mechanism": "NTLM"})


def test_the_page_of_logins_has_each_with_what_it_needs_and_its_examples_are_taken():
    page = (ROOT / "docs" / "kafka.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]*`) \| ([^|]*`[^|]*) \| ([^|]*) ?\|$", page.partition("## Logins")[2], re.MULTILINE)
    words = {
        name: (tuple(re.findall(r"`([^`]+)`", needs)), tuple(re.findall(r"`([^`]+)`", may)))
        for names, needs, may in rows
        for name in re.findall(r"`([^`]+)`", names)
    }
    assert words == {each.name: (each.needs, each.may) for each in MECHANISMS.values()}
    examples = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert [kafka_options(json.loads(each)).mechanism for each in examples] == ["OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"]


def test_versions_are_those_that_are_pinned():
    for lock, said in (("requirements", r"(\S+) with Local"), ("requirements-oldest", r" with (\S+)$")):
        pinned = re.search(r"^apache-airflow==(\S+)", (ROOT / f"{lock}.txt").read_text(), re.MULTILINE)
        shown = re.search(said, ROWS["Airflow"][0])
        assert pinned is not None
        assert shown is not None
        assert pinned[1] == shown[1]
    assert PROJECT["requires-python"] == f">={ROWS['Python'][0]},<{ROWS['Python'][2].split()[0]}"
