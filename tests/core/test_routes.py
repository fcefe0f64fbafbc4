"""Tests the engine of a batch: chosen in one place, with a reason."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep import (
    Append,
    Avro,
    Custom,
    Debezium,
    Envelope,
    Iceberg,
    Json,
    PerPartition,
    Pipeline,
    Protobuf,
    Raw,
    Upsert,
)
from lockstep.core.errors import BadDefinition, Refusal
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.core.planning.routes import Route, Way, choose_engine, needs_spark, route

PIPELINE = Pipeline("orders", "orders.v1", Json("id string, n int"), Append("public.orders"))
ENGINE = Path(lockstep.__file__).parent


def folder(transform: str | None = None, **changed: Any) -> PipelineFolder:
    return PipelineFolder(replace(PIPELINE, **changed), Path("orders"), transform, None, None)


def choice(its: PipelineFolder, wanted: str | None = None, environment: str = "", *, has_spark: bool = True) -> Any:
    return choose_engine(its, wanted=wanted, environment=environment, has_spark=has_spark)


@pytest.mark.parametrize(
    "changed",
    [
        {"format": Avro("id string, b binary, wide decimal(38,18)", key="id", subject="s")},
        {"format": Avro("id string", rest="more")},
        {"format": Json("id string", registry=True)},
        {"format": Json("id string", strict=True)},
        {"format": Raw("body")},
        {"format": Protobuf("id string", rest="more")},
        {"format": Debezium("id string"), "target": Upsert("public.o", key=("id",))},
        {"format": Custom("id string")},
        {"envelope": Envelope(timestamp="at")},
        {"guarantee": PerPartition()},
    ],
)
def test_spark_is_the_default_and_this_process_is_a_choice_for_every_format(changed):
    its = folder(**changed)
    assert route(its, choice(its)).document() == {
        "way": "spark",
        "because": "the default; tasks read, decode and write in one pass",
    }
    assert route(its, choice(its, "process")).document() == {
        "way": "process",
        "because": "--engine is process; this process reads, decodes and writes",
    }


def test_the_command_goes_before_the_definition_and_that_before_the_environment():
    said = folder(engine="process")
    assert choice(said, environment="spark") == Route(Way.PROCESS, "the definition's engine is process")
    assert choice(said, "spark", "process") == Route(Way.SPARK, "--engine is spark")
    assert choice(folder(), environment="process") == Route(Way.PROCESS, "LOCKSTEP_ENGINE is process")


def test_without_pyspark_this_process_is_the_default_and_says_so():
    assert choice(folder(), has_spark=False) == Route(Way.PROCESS, "PySpark is not installed")
    with pytest.raises(Refusal, match="orders: --engine is spark, and PySpark is not installed"):
        choice(folder(), "spark", has_spark=False)
    with pytest.raises(Refusal, match="orders: a transform makes the rows, and PySpark is not installed"):
        choice(folder("def transform(records): ..."), has_spark=False)


def test_an_engine_that_does_not_exist_is_refused_by_the_name_of_who_asks():
    with pytest.raises(Refusal, match="--engine is 'java': it must be spark or process"):
        choice(folder(), "java")
    with pytest.raises(Refusal, match="LOCKSTEP_ENGINE is 'java'"):
        choice(folder(), environment="java")


@pytest.mark.parametrize(
    ("changed", "because"),
    [
        ({"transform": "def transform(records): ..."}, "a transform makes the rows"),
        ({"target": Append("public.a", transform="cheap")}, "a transform makes the rows"),
        ({"target": (Append("public.a"), Append("public.b"))}, "2 targets take the rows of one read"),
    ],
)
def test_what_only_spark_can_do_is_its_work_and_a_wish_for_this_process_is_refused(changed, because):
    its = folder(**changed)
    assert route(its, choice(its)).document() == {"way": "spark", "because": f"the default; {because}"}
    for_all = choice(its, environment="process")
    assert route(its, for_all).document() == {"way": "spark", "because": f"LOCKSTEP_ENGINE is process; {because}"}
    with pytest.raises(BadDefinition, match=f"orders: --engine is process, and {because}: only Spark can do that"):
        choice(its, "process")
    with pytest.raises(BadDefinition, match="the definition's engine is process, and"):
        choice(folder(**changed, engine="process"))


def test_tables_of_the_lake_and_the_database_take_their_rows_from_one_read():
    both = folder(target=(Append("public.a"), Append(Iceberg("sales.a"))))
    assert choice(both, "process").way is Way.PROCESS
    assert (both.fans_out, both.decodes_to_rows, both.is_straight) == (True, True, False)
    newest = (Upsert("public.a", key=("id",)), Append(Iceberg("sales.a")))
    assert folder(format=Json("id string"), target=newest).fans_out
    keyed = folder(format=Json("id string", key="id"), target=newest)  # a tombstone gives the lake no row
    made = folder(target=(Append("public.a", transform="cheap"), Append(Iceberg("sales.a"))))
    assert [each.fans_out for each in (keyed, made, folder())] == [False, False, False]
    assert needs_spark(keyed) == "2 targets take the rows of one read"


def test_a_record_that_keeps_this_process_busy_leads_to_spark():
    left = route(folder(), choice(folder(), "process"), left=True)
    assert left.way is Way.SPARK
    assert left.because.startswith("a record keeps the decoder of this process busy; ")


def test_a_definition_may_name_its_engine_and_others_keep_their_hash():
    with pytest.raises(BadDefinition, match="engine is 'java': it must be spark or process"):
        folder(engine="java")
    assert "engine" not in folder().document()
    assert folder(engine="process").document()["engine"] == "process"


def test_route_is_one_function_and_few_ask_it():
    calls = {
        str(file.relative_to(ENGINE))
        for file in ENGINE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "route"
    }
    assert calls == {
        "cli/pipelines/checking.py",
        "engine/chosen.py",
        "engine/spark/engine.py",
    }
