"""Tests that a transform's outside values are found in its source, and named by line and function."""

from __future__ import annotations

import pytest

from lockstep.core.pipeline.determinism import doubts, unseen

FOUND = [
    ("from datetime import datetime", "datetime.now()", "use run.planned_at"),
    ("import datetime as dt", "dt.datetime.utcnow()", "use run.planned_at"),
    ("import datetime", "datetime.datetime.now(datetime.UTC)", "use run.planned_at"),
    ("from datetime import date", "date.today()", "use run.planned_at"),
    ("import time", "time.time()", "use run.planned_at"),
    ("from time import time_ns as t", "t()", "use run.planned_at"),
    ("from uuid import uuid4", "uuid4()", "take it from the record"),
    ("import random", "random.choice([1, 2])", "take it from the record"),
    ("import random", "random.Random()", "take it from the record"),
    ("import numpy as np", "np.random.default_rng()", "take it from the record"),
    ("import secrets", "secrets.token_hex()", "take it from the record"),
    ("import os", "os.urandom(3)", "take it from the record"),
    ("import pandas as pd", "pd.Timestamp.now()", "use run.planned_at"),
    ("from pyspark.sql import functions as F", "F.current_timestamp()", "use run.planned_at"),
    ("from pyspark.sql.functions import rand", "rand(7)", "take it from the record"),
    ("import pyspark.sql.functions as F", "F.unix_timestamp()", "use run.planned_at"),
    ("from pyspark.sql import functions as F", "F.monotonically_increasing_id()", "_stream and _offset"),
]
LEFT = [
    ("import random", "random.Random(7).random()"),
    ("import numpy as np", "np.random.default_rng(seed=3)"),
    ("import time", "time.gmtime(0)"),
    ("from datetime import datetime", "datetime.fromisoformat(text)"),
    ("from uuid import uuid5", "uuid5(space, text)"),
    ("from pyspark.sql import functions as F", "F.unix_timestamp('at')"),
    ("", "run.planned_at.now()"),
]


def source(imported: str, call: str) -> str:
    return f"{imported}\n\n\ndef transform(records, run):\n    at = {call}\n    return records\n"


@pytest.mark.parametrize(("imported", "call", "remedy"), FOUND, ids=[call for _, call, _ in FOUND])
def test_a_call_that_gives_another_value_each_time_is_found(imported, call, remedy):
    (doubt,) = doubts(source(imported, call))
    assert (doubt.line, doubt.function) == (5, "transform")
    assert str(doubt).startswith(f"transform.py:5: transform: {call.partition('(')[0]}() is another at every attempt; ")
    assert remedy in str(doubt)


@pytest.mark.parametrize(("imported", "call"), LEFT, ids=[call for _, call in LEFT])
def test_what_its_arguments_fix_is_no_doubt(imported, call):
    assert doubts(source(imported, call)) == ()


def test_what_stands_in_sql_is_told_by_the_plan_and_nothing_twice():
    found = doubts(source("from pyspark.sql import functions as F", "F.rand()"))
    (more,) = unseen(found, "lines", ["rand", "uuid"])
    assert str(more).startswith("transform.py: lines: uuid() is another at every attempt; take it from the record")
