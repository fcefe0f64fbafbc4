"""Types what docs/tutorial.md says, from the definition to the preview, and compares what is printed with the page."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from support.scenes.typed import home_like_a_checkout, typed

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
TYPED = "## 2. ", "## 7. "
SHOWN = re.compile(r"^    \$ (lockstep .+)\n((?:(?:    .*)?\n)*)|^    (lockstep .+)$", re.MULTILINE)
LINES = re.compile(r"(?:^    \{.*\}\n)+", re.MULTILINE)
TRANSFORM = re.compile(r"^```python\n(.+?)^```", re.MULTILINE | re.DOTALL)
VARIES = (
    (r"\d+\.\d+ s\b", "S s"),
    (r"\bbatch \d+", "batch N"),
    (r" +", " "),
    (r"\d{4}-\d\d-\d\d[T ][\d:.]+\S*", "TIME"),
)


def commands():
    """Returns each command of the page with the output that stands below it, or None."""
    begin, end = (PAGE.index(heading) for heading in TYPED)
    return [
        (
            shown.split("  #")[0].strip() if shown else plain.split("  #")[0].strip(),
            output if shown else None,
            found.start(),
        )
        for found in SHOWN.finditer(PAGE, begin, end)
        for shown, output, plain in [found.groups()]
    ]


def lines(text):
    """Returns the lines of an output, without what differs from run to run."""
    for pattern, instead in VARIES:
        text = re.sub(pattern, instead, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.fixture
def at_home(database, kafka, tmp_path):
    """Yields a folder like a checkout's, with the variables that lead to this test's servers."""
    with home_like_a_checkout(database, kafka, tmp_path, "refunds.v1") as found:
        yield found


@pytest.mark.long
def test_the_tutorial_prints_what_it_says(at_home, database):
    home, environ = at_home
    (sample,) = LINES.findall(PAGE)
    (home / "refunds.jsonl").write_text("".join(f"{line.strip()}\n" for line in sample.splitlines()))
    (transform,) = TRANSFORM.findall(PAGE)
    place = home / "include" / "pipelines" / "refunds" / "transform.py"
    names = []
    for command, output, where in commands():
        if where > PAGE.index(transform) and not place.exists():
            place.write_text(transform)
        printed = typed(command, home, environ)
        names.append(command.split()[1])
        if output is not None:
            assert lines(printed) == lines(output), command

    assert {"new", "check", "try", "migrate", "dev", "run", "verify", "blame", "lineage", "replay"} <= set(names)
    (query,) = re.findall(r'psql "\$LOCKSTEP_DSN" -c "(.+)"', PAGE)
    with closing(psycopg2.connect(database)) as conn, conn.cursor() as cur:
        cur.execute(query)
        assert {(key, str(amount), topic) for key, amount, topic, *_ in cur.fetchall()} == {
            ("r-1", "10.00", "refunds.v1"),
            ("r-2", "3.00", "refunds.v1"),
        }
        cur.execute("select country from public.refunds")
        assert {country for (country,) in cur.fetchall()} == {"de", "at"}, "a preview changes nothing"
