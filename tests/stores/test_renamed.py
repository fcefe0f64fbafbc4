"""Tests a pipeline that takes another name: its results in another Postgres are its own under the new name, too."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from lockstep.adapters.folders import load
from lockstep.context.systems import results_elsewhere, stores
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.steps.batch.run import run
from lockstep.steps.changes.rename import rename
from lockstep.steps.proof.verify import verify
from support.fakes.plain_engine import PlainEngine
from support.scenes.here import ME, Here
from support.scenes.stores_facts import APPEND, UPSERT


def asked(statement: str) -> list[tuple]:
    with closing(psycopg2.connect(stores()["WAREHOUSE"])) as conn, conn.cursor() as cur:
        cur.execute(statement)
        return cur.fetchall()


def renamed(here: Here, old: str, new: str) -> Any:
    """Renames the folder and then the pipeline, as a user does."""
    folder = (here.drill.home / old).rename(here.drill.home / new)
    file = folder / "__init__.py"
    file.write_text(file.read_text().replace(f'name="{old}"', f'name="{new}"'))
    assert rename(here.at.conn, old, load(new).pipeline, ME)
    return load(new)


def drain(here: Here, folder: Any) -> str:
    """Runs batches until there is none. Returns the text of a refusal, or nothing."""
    engine = PlainEngine(folder, here.drill.kafka, here.drill.dsn)
    try:
        while run(here.at, engine, folder, Caller("me")).went_on:
            pass
    except Refusal as error:
        return str(error)
    return ""


@pytest.mark.parametrize("target", [APPEND, UPSERT], ids=["appended", "keyed"])
def test_a_renamed_pipeline_goes_on_in_its_store(delivered, produce, target):
    drill = delivered("Idempotent()", "warehouse", target)
    here = Here(drill)
    here.drain()

    for number, (old, new) in enumerate((("drill", "shop"), ("shop", "store"), ("store", "drill"))):
        folder = renamed(here, old, new)
        produce(drill.topic, [("k3", json.dumps({"id": "r3", "n": 1_000 + number}))])
        assert drain(here, folder) == ""

        assert asked("select max(n) from public.drill where id = 'r3'") == [(1_000 + number,)]
        assert asked("select distinct pipeline from lockstep.stream") == [(new,)]
        checks = verify(here.at.conn, here.at.broker, folder, deep=True, results=results_elsewhere(folder.pipeline))
        assert [check for check in checks if not check.ok] == []

    rows = {APPEND: 153, UPSERT: 150}[target]
    assert asked("select count(*), count(distinct id) from public.drill") == [(rows, 150)]
    here.at.close()


def test_results_in_a_folder_of_the_name_are_not_renamed(delivered):
    here = Here(delivered("Idempotent()", "files"))
    here.drain()

    with pytest.raises(Refusal, match="its results are files in a folder of its name, which the ledger cannot rename"):
        renamed(here, "drill", "shop")

    here.at.close()
