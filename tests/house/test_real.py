"""Crashes on the way of commits, with real Spark, Kafka and Postgres: nothing is lost, nothing doubled."""

from __future__ import annotations

import os

import pytest

from house.real import RealStorm


@pytest.mark.timeout(600)
def test_twenty_commits_that_were_struck_lose_and_double_nothing(drill):
    seed = int.from_bytes(os.urandom(4))
    storm = RealStorm(drill, seed)

    figures = storm.rage(commits=20)

    assert figures.violations == [], f"seed {seed}"
    assert len(storm.committed_and_struck()) >= 20
