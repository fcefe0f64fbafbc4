"""`lockstep canary` says how another transform's rows differ on committed batches. Only Spark is left out."""

from __future__ import annotations

import json

import pytest

from lockstep.cli.exits import Exit
from lockstep.dev import canary
from support.fakes.plain_engine import PlainEngine
from support.scenes.command_line import assert_refused, assert_wrong_call
from support.scenes.odd_logs import delete_records

SUITE = {
    "name": "drill",
    "expectations": [
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "n", "max_value": 30},
            "severity": "critical",
        }
    ],
}


@pytest.fixture
def trial(here, lockstep, topic, produce, monkeypatch):
    """The drill with one committed batch of four records, and a file with another transform."""
    name = topic(partitions=1)
    here.rewrite(here.drill.topic, name)
    here.drill.topic = name
    produce(name, [("k", json.dumps({"id": f"r{n}", "n": n})) for n in range(4)], partition=0)
    here.drain()
    (lockstep.home / "new.py").write_text("def transform(records):\n    return records\n")

    def code(value):
        return value | {"n": value["n"] * 20}

    def engine_for(folder, at, _registry):
        its = code if folder.transform_file.name == "new.py" else here.code
        return PlainEngine(folder, here.drill.kafka, at.dsn, its)

    monkeypatch.setattr(canary, "local_engine", engine_for)
    return here


def test_the_whole_answer_as_json(trial, lockstep):
    said = lockstep("canary", "drill", "--transform", "new.py", "--json")
    assert (said.code, said.err) == (0, "")
    document = said.document
    ((batch, _),) = trial.drill.committed()
    counts = {"same": 1, "changed": 3, "only_live": 0, "only_canary": 0}
    assert list(document) == ["pipeline", "transform", "definitions", "ok", "targets", "rejects", "batches"]
    assert (document["pipeline"], document["transform"], document["ok"]) == ("drill", "new.py", True)
    assert document["definitions"]["live"] == trial.folder.content_hash() != document["definitions"]["canary"]
    assert document["targets"] == {"public.drill": counts}
    assert document["rejects"] == {"live": 0, "canary": 0}
    (found,) = document["batches"]
    assert (found["batch"], found["targets"]) == (batch, {"public.drill": counts})
    assert found["ranges"] == [{"topic": trial.drill.topic, "partition": 0, "from_offset": 0, "until_offset": 4}]
    assert found["verdict"]["canary"] == {"ok": True, "refusals": [], "expectations": []}
    assert [(each["offset"], each["differs"], each["live"]["n"], each["canary"]["n"]) for each in found["samples"]] == [
        (1, ["n"], 1, 20),
        (2, ["n"], 2, 40),
        (3, ["n"], 3, 60),
    ]
    assert not (trial.drill.home / "drill" / "transform.py").exists()


def test_the_same_for_people(trial, lockstep):
    said = lockstep("canary", "drill", "--transform", "new.py")
    assert (said.code, said.err) == (0, "")
    ((batch, _),) = trial.drill.committed()
    assert said.out.splitlines()[0] == f"drill: new.py beside the live transform, batch {batch}, 4 offsets"
    assert said.out.splitlines()[2] == "public.drill: 1 same, 3 changed, 0 only live, 0 only canary"
    assert [line.split() for line in said.out.splitlines()[3:7]] == [
        ["batch", "record", "row", "column", "live", "canary"],
        [str(batch), "0:1", "changed", "n", "1", "20"],
        [str(batch), "0:2", "changed", "n", "2", "40"],
        [str(batch), "0:3", "changed", "n", "3", "60"],
    ]
    assert said.out.splitlines()[8:] == [
        "rejects: 0 live, 0 canary",
        "the canary's rows would be committed",
        "nothing was changed",
    ]


def test_a_canary_that_the_suite_refuses_ends_with_the_code_of_refused_data(trial, lockstep):
    (trial.drill.home / "drill" / "expectations.json").write_text(json.dumps(SUITE))
    said = lockstep("canary", "drill", "--transform", "new.py", "--json")
    assert said.code == Exit.DATA
    (batch,) = said.document["batches"]
    assert batch["verdict"]["live"]["ok"]
    (refusal,) = batch["verdict"]["canary"]["refusals"]
    assert refusal.startswith("expect_column_values_to_be_between on n failed for 2 rows")
    assert batch["targets"]["public.drill"]["changed"] == 3


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (b"def transform(records):\n    return (\n", ("new.py:2: syntax: '(' was never closed",)),
        (b"def other(records):\n    return records\n", ("drill: new.py has no function transform", "it has: other")),
        (b"import nothing_of_this_name\n", ("drill: new.py fails: ModuleNotFoundError",)),
        (b"\xff\xfe", ("new.py: cannot be read: it is no text of UTF-8",)),
        (None, ("new.py: cannot be read: No such file or directory",)),
    ],
    ids=["syntax", "no function", "import", "bytes", "missing"],
)
def test_a_file_that_is_no_transform_is_refused_in_one_line(trial, lockstep, source, words):
    assert trial.drill.committed()
    file = lockstep.home / "new.py"
    file.unlink() if source is None else file.write_bytes(source)
    assert_refused(lockstep("canary", "drill", "--transform", "new.py"), *words, "Next: lockstep ca")


def test_what_cannot_be_compared_is_refused_in_one_line(trial, lockstep):
    file = ("--transform", "new.py")
    assert_refused(lockstep("canary", "nobody", *file), "no pipeline 'nobody'; there are: drill", "Next: lockstep new")
    assert_wrong_call(
        lockstep("canary", "drill", *file, "--batches", "0"), "'--batches': Input should be greater than or equal to 1"
    )
    assert_wrong_call(
        lockstep("canary", "drill", *file, "--batches", "21"), "'--batches': Input should be less than or equal to 20"
    )
    assert_wrong_call(lockstep("canary", "drill"), "--transform")
    delete_records(trial.drill.kafka, trial.drill.topic, 2)
    lost = lockstep("canary", "drill", *file)
    assert_refused(lost, f"{trial.drill.topic}-0 [0, 4): the log now starts at 2", "Next: lockstep run drill")
