"""Runs the demo in a fresh clone, and looks at its ledger: Airflow has staged one pipeline through a transform."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2
import pytest

from lockstep.dev.catalogue import SAMPLES
from lockstep.dev.demo import PIPELINES
from support.oracles.plain_reviews import ratings_of, review_of, usable
from support.scenes.clone import a_clone, typed_in_one_shell

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
ENV = "lockstep dev env --json"
ATTEMPTS = """select route ->> 'way', route ->> 'because' like '%a transform makes the rows%', batch.state, attempt.dag_id
from lockstep.attempt join lockstep.batch using (batch_id) where pipeline = 'reviews' and attempt.state = 'committed'"""
REVIEWS = "select review_id, product_id, author, country, body, fewest_stars, posted_at from reviews order by 1"
RATINGS = "select review_id, _ordinal, aspect, stars from review_ratings order by 1, 2"
PROVED = "every row is what the transform makes of its record: public."


def test_the_demo_stages_a_pipeline_through_a_transform_and_proves_both_of_its_tables(tmp_path):
    with a_clone(tmp_path.resolve() / "lockstep") as clone:
        printed = typed_in_one_shell(["make demo", "source .venv/bin/activate", ENV], clone)
        with closing(psycopg2.connect(json.loads(printed[ENV])["dsn"])) as conn, conn.cursor() as cur:
            attempts, reviews, ratings = (answer(cur, query) for query in (ATTEMPTS, REVIEWS, RATINGS))

    sent = SAMPLES["reviews"].records(0, 0, PIPELINES["reviews"])
    good = [event for _, value in sent if (event := usable(value))]
    assert attempts == [("spark", True, "committed", "reviews")]
    assert reviews == sorted(map(review_of, good))
    assert ratings == sorted(rating for event in good for rating in ratings_of(event))
    proof = printed["make demo"].partition("$ lockstep verify reviews --deep\n")[2].partition("\n$ ")[0]
    for table, rows in (("reviews", reviews), ("review_ratings", ratings)):
        (line,) = [line for line in proof.splitlines() if f"{PROVED}{table} " in line]
        assert line.startswith("ok ")
        assert f"{len(rows)} of {len(rows)} rows compared" in line
        assert f"public.{table}: coordinates and contents compared with Kafka." in proof


def answer(cur, query: str) -> list[tuple]:
    cur.execute(query)
    return cur.fetchall()
