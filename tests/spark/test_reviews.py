"""Tests the example `reviews`: each row of its two tables is compared with what plain Python makes of the same records."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from lockstep.dev.catalogue import SAMPLES
from support.oracles.plain_reviews import ratings_of, review_of, usable
from support.scenes.command_line import CommandLine

EXAMPLE = Path(__file__).parents[2] / "include" / "pipelines" / "reviews"
SAMPLED = 1_000
REVIEW = {
    "productId": "p-1",
    "author": {"displayName": " Zoë ", "countryCode": "fr"},
    "text": "Ça va 👍",
    "ratings": [],
}
LINES = "review_id, product_id, author, country, body, fewest_stars, posted_at"


def event(number: int, *, escaped: bool = True, **fields: Any) -> tuple[str, bytes]:
    value = {"id": f"o-{number}", "time": "2026-01-02T03:04:05Z", "data": {**REVIEW, **fields}}
    return "p-1", json.dumps(value, ensure_ascii=escaped).encode()


ODD = [
    event(1),
    event(2, escaped=False),
    event(3, text='"quoted" \\ and\ta tab', author=None),
    event(4, author={"displayName": "👩‍👩‍👧"}, ratings=[{"aspect": "größe", "stars": 5, "by": {"deep": [1]}}]),
    event(5, ratings=[{"stars": 3}, {"aspect": "fit", "stars": None}]),
    event(6, ratings=None),
    ("p-1", b'{"id":"o-7","time":"2026-01-02T03:04:05Z","data":{"productId":"p-1"'),
]


@pytest.fixture
def source(topic):
    return topic(partitions=3)


@pytest.fixture
def lockstep(monkeypatch, capsys, tmp_path, database, kafka, source):
    """Returns `lockstep("run", "reviews")`, where the example reads a topic of its own."""
    called = CommandLine(monkeypatch, capsys, tmp_path)
    called.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA=kafka)
    (folder := called.pipelines / "reviews").mkdir(parents=True)
    for file in filter(Path.is_file, EXAMPLE.iterdir()):
        (folder / file.name).write_text(file.read_text().replace("reviews.v1", source))
    assert called("migrate", "reviews").code == 0
    return called


@pytest.fixture
def ask(database):
    def asked(query: str) -> list[tuple]:
        with closing(psycopg2.connect(database)) as conn, conn.cursor() as cur:
            cur.execute(query)
            return cur.fetchall()

    return asked


def test_each_row_of_both_tables_is_what_plain_python_makes_of_its_record(lockstep, source, produce, ask):
    sent = [*SAMPLES["reviews"].records(0, 0, SAMPLED), *ODD]
    good = [found for _, value in sent if (found := usable(value))]
    produce(source, sent)

    run = lockstep("run", "reviews", "--until-idle")

    assert run.code == 0, run.err
    assert ask(f"select {LINES} from reviews order by 1") == sorted(map(review_of, good))
    wanted = sorted(rating for found in good for rating in ratings_of(found))
    assert ask("select review_id, _ordinal, aspect, stars from review_ratings order by 1, 2") == wanted
    assert ask("select count(*) from lockstep.reject") == [(len(sent) - len(good),)]
    proof = lockstep("verify", "reviews", "--deep")
    assert proof.code == 0, proof.out


def test_stars_that_nobody_can_give_refuse_the_batch(lockstep, source, produce, ask):
    produce(source, [event(1), event(2, ratings=[{"aspect": "fit", "stars": 0}])])

    run = lockstep("run", "reviews")

    assert "expect_column_values_to_be_between on fewest_stars failed for 1 rows" in run.err
    assert ask("select count(*) from reviews") == [(0,)]
    assert ask("select count(*) from review_ratings") == [(0,)]
