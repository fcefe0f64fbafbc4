"""Tests that a definition comes back from its document unchanged, whatever kinds it has."""

from __future__ import annotations

import json

import pytest

from lockstep.adapters import folders
from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.definition import (
    Accumulate,
    Append,
    AtLeastOnce,
    Avro,
    Count,
    Custom,
    Envelope,
    Feed,
    Files,
    History,
    Idempotent,
    Json,
    Limits,
    Max,
    Min,
    PerPartition,
    Pipeline,
    Postgres,
    Protobuf,
    Raw,
    Sum,
    Upsert,
)
from lockstep.core.pipeline.folder import PipelineFolder
from lockstep.core.pipeline.recorded import pipeline_of_document

JSON = Json("id string, n bigint, at timestamp", key="id", rest="more")
PIPELINES = [
    Pipeline("a", "t", JSON, Append("public.a")),
    Pipeline("a", "t", JSON, Append("public.a"), schedule="@hourly", alarm="1h30m"),
    Pipeline("a", "t", Json("id string", strict=True), Upsert("public.a", ("id",)), limits=Limits(5, 4, 3, 2.5)),
    Pipeline(
        "a",
        "t",
        JSON,
        Upsert("public.a", ("id",), order_by="n", transform="f", shared_with=("b",)),
        on_violation="quarantine",
    ),
    Pipeline(
        "a", "t", JSON, Accumulate("public.a", ("id",), (Count("c"), Sum("s", "n"), Min("l", "n"), Max("m", "at")))
    ),
    Pipeline("a", "t", JSON, (Append("public.a"), Upsert("public.b", ("id",)))),
    Pipeline("a", "t", JSON, History("public.a", key=("id",), order_by="at", transform="f")),
    Pipeline("a", "t", JSON, (History("public.a", key=("id",), feed=Feed(keep="3 days")), Upsert("public.b", ("id",)))),
    Pipeline(
        "a", "t", Avro("id string", subject="s"), Append("public.a"), guarantee=PerPartition(), nondeterministic=True
    ),
    Pipeline("a", "t", Protobuf("id string", message="s.M", key="id", rest="r"), Append("public.a")),
    Pipeline("a", "t", Json("id string", registry=True, subject="s", validate=True), Append("public.a")),
    Pipeline("a", "t", Raw("v"), Append("public.a"), envelope=Envelope(key="k binary", headers="h"), start="latest"),
    Pipeline("a", "t", Raw("v"), Append("public.a"), start={0: 123, 11: 0}),
    Pipeline("a", "t", Custom("id string", "read"), Append("public.a"), guarantee=AtLeastOnce(), store=Files("x")),
    Pipeline("a", "t", JSON, Upsert("public.a", ("id",)), guarantee=Idempotent(), store=Postgres("WAREHOUSE")),
]


@pytest.mark.parametrize("pipeline", PIPELINES, ids=range(len(PIPELINES)))
def test_a_definition_comes_back_from_json_as_it_was(pipeline):
    assert pipeline_of_document(json.loads(json.dumps(pipeline.document()))) == pipeline


def test_the_files_beside_a_definition_are_left_out():
    folder = PipelineFolder(
        PIPELINES[8], folders.Path(), "def transform(r): ...", {"name": "s"}, None, "def read(): ..."
    )
    assert pipeline_of_document(json.loads(json.dumps(folder.document()))) == PIPELINES[8]


@pytest.mark.parametrize("name", folders.pipeline_names())
def test_the_definitions_of_this_project_come_back(name):
    folder = folders.load(name)
    assert pipeline_of_document(json.loads(json.dumps(folder.document()))) == folder.pipeline


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"format": {"kind": "Telepathy"}}, "Telepathy"),
        ({"target": {"kind": "Append", "table": "public.a", "colour": "red"}}, "colour"),
        ({"mood": "fine"}, "mood"),
    ],
)
def test_a_document_of_a_later_version_is_refused_by_its_word(change, word):
    with pytest.raises(BadDefinition, match=f"another version.*{word}"):
        pipeline_of_document(PIPELINES[0].document() | change)
