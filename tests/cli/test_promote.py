"""`lockstep promote` makes a file the one transform of a pipeline, from exact offsets on. Only Spark is left out."""

from __future__ import annotations

import json
import os

import pytest

from lockstep.cli.exits import Exit
from lockstep.core.changes.promotion import transform_digest
from lockstep.dev import canary
from support.fakes.plain_engine import PlainEngine
from support.scenes.command_line import assert_refused, assert_wrong_call

OLD = "def transform(records):\n    return records\n"
NEW = f"{OLD}# in cents\n"
WHY = ("--reason", "amounts are in cents")
PROMOTE = ("promote", "drill", "--transform", "new.py", *WHY)
WITHDRAW = ("promote", "drill", "--withdraw", "--reason", "wrong after all")


@pytest.fixture
def trial(here, lockstep, topic, produce, monkeypatch):
    """The drill with a transform, four committed records, two that wait, and a file with another transform."""
    name = topic(partitions=1)
    here.rewrite(here.drill.topic, name)
    here.drill.topic = name
    here.transform = here.drill.home / "drill" / "transform.py"
    here.transform.write_text(OLD)
    (lockstep.home / "new.py").write_text(NEW)
    produce(name, [("k", json.dumps({"id": f"r{n}", "n": n})) for n in range(4)], partition=0)
    here.drain()
    produce(name, [("k", json.dumps({"id": f"r{n}", "n": n})) for n in range(4, 6)], partition=0)

    def engine_for(folder, at, _registry):
        its = (lambda value: value | {"n": -1}) if folder.transform == NEW else here.code
        return PlainEngine(folder, here.drill.kafka, at.dsn, its)

    monkeypatch.setattr(canary, "local_engine", engine_for)
    return here


def tried(lockstep) -> None:
    said = lockstep("canary", "drill", "--transform", "new.py", "--json")
    assert said.code == 0
    (lockstep.home / "canary.json").write_text(said.out)


def test_the_whole_answer_as_json_with_what_a_canary_counted(trial, lockstep):
    tried(lockstep)
    ((batch, _),) = trial.drill.committed()
    said = lockstep(*PROMOTE, "--canary", "canary.json", "--json")
    assert (said.code, said.err) == (0, "")
    document = said.document
    at, who = document.pop("at"), document.pop("who")
    assert at.startswith("20")
    assert "@" in who
    decision = trial.drill.ask("select decision_id from lockstep.decision")[0][0]
    live = document["canary"].pop("live")
    assert len(live) == 64
    assert document == {
        "pipeline": "drill",
        "changed": True,
        "decision": decision,
        "why": "amounts are in cents",
        "transform": transform_digest(NEW),
        "file": "new.py",
        "from": [{"topic": trial.drill.topic, "partition": 0, "offset": 4}],
        "canary": {
            "batches": [batch],
            "targets": {"public.drill": {"same": 0, "changed": 4, "only_live": 0, "only_canary": 0}},
            "rejects": {"live": 0, "canary": 0},
        },
        "installed": "pipelines/drill/transform.py",
        "not_installed": None,
    }
    assert trial.transform.read_text() == NEW
    assert [path.name for path in trial.transform.parent.iterdir() if path.name.startswith(".")] == []
    assert lockstep("run", "drill").code == 0
    ((kind, canary_of),) = trial.drill.ask("select kind, detail -> 'canary' -> 'batches' from lockstep.decision")
    assert (kind, canary_of) == ("promote", [batch])


def test_the_same_for_people_and_once_more(trial, lockstep):
    tried(lockstep)
    ((batch, _),) = trial.drill.committed()
    said = lockstep(*PROMOTE, "--canary", "canary.json")
    assert (said.code, said.err) == (0, "")
    decision = trial.drill.ask("select decision_id from lockstep.decision")[0][0]
    lines = said.out.splitlines()
    assert lines[0] == (
        f"drill: new.py ({transform_digest(NEW)[:16]}) makes the rows from these offsets on, by decision {decision}"
    )
    assert [line.split() for line in lines[1:3]] == [["partition", "offset"], [f"{trial.drill.topic}-0", "4"]]
    assert lines[3] == f"canary of batch {batch}: public.drill: 0 same, 4 changed, 0 only live, 0 only canary"
    assert lines[4].startswith("pipelines/drill/transform.py is this file.  Next: ")
    again = lockstep(*PROMOTE)
    assert (again.code, again.err) == (0, "")
    assert f"in decision {decision}: amounts are in cents" in again.out
    assert trial.drill.ask("select count(*) from lockstep.decision") == [(1,)]


def test_a_folder_that_has_another_transform_is_blocked_and_status_says_so(trial, lockstep):
    assert lockstep(*PROMOTE).code == 0
    trial.transform.write_text(OLD)
    for call in (("plan", "drill"), ("run", "drill")):
        assert_refused(
            lockstep(*call),
            f"promoted new.py ({transform_digest(NEW)[:16]}) in decision",
            f"the folder here has {transform_digest(OLD)[:16]}; no other transform is committed",
            "deploy new.py as transform.py, or lockstep promote drill --withdraw --reason ...",
            code=Exit.BLOCKED,
        )
    status = lockstep("status", "drill", "--json").document
    assert status["health"] == "blocked"
    assert (status["promoted"]["transform"], status["promoted"]["why"]) == (
        transform_digest(NEW),
        "amounts are in cents",
    )
    assert status["promoted"]["from"] == [{"topic": trial.drill.topic, "partition": 0, "offset": 4}]
    said = lockstep("status", "drill").out
    assert "blocked: drill: " in said
    assert (
        f"new.py makes the rows from {trial.drill.topic}-0:4 on: decision {status['promoted']['decision']} of" in said
    )
    assert lockstep("watch", "drill", "--json").document["health"] == "blocked"
    trial.transform.write_text(NEW)
    assert lockstep("status", "drill", "--json").document["health"] != "blocked"
    assert lockstep("run", "drill").code == 0


def test_a_withdrawal_lets_any_transform_commit_and_leaves_the_folder_alone(trial, lockstep):
    none = lockstep(*WITHDRAW, "--json").document
    assert none == {"pipeline": "drill", "changed": False, "withdrawn": None, "decision": None, "from": []}
    made = lockstep(*PROMOTE, "--json").document
    trial.transform.write_text(OLD)
    assert lockstep("run", "drill").code == Exit.BLOCKED

    said = lockstep(*WITHDRAW, "--json").document

    assert said["changed"]
    assert said["withdrawn"]["decision"] == made["decision"] < said["decision"]
    assert said["from"] == [{"topic": trial.drill.topic, "partition": 0, "offset": 4}]
    assert trial.transform.read_text() == OLD
    assert lockstep("status", "drill", "--json").document["promoted"] is None
    assert lockstep("run", "drill").code == 0
    assert lockstep(*WITHDRAW).out == "drill: no transform is promoted\n"


def test_the_file_that_is_installed_keeps_its_rights_and_a_link_keeps_leading_there(trial, lockstep, tmp_path):
    real = tmp_path / "elsewhere.py"
    trial.transform.rename(real)
    real.chmod(0o640)
    trial.transform.symlink_to(real)
    assert lockstep(*PROMOTE, "--json").document["installed"] == "elsewhere.py"
    assert trial.transform.is_symlink()
    assert (real.read_text(), real.stat().st_mode & 0o777) == (NEW, 0o640)


def test_a_folder_that_cannot_be_written_is_told_with_what_to_deploy(trial, lockstep):
    (trial.transform.parent / f".transform.py.{os.getpid()}").mkdir()  # where the new file is written first
    said = lockstep(*PROMOTE)
    assert said.code == 0
    assert "not installed: pipelines/drill: Is a directory.  Next: deploy new.py as drill/transform.py" in said.out
    assert lockstep(*PROMOTE, "--json").document["installed"] is None
    assert trial.transform.read_text() == OLD
    assert lockstep("run", "drill").code == Exit.BLOCKED


def test_figures_that_are_not_of_this_file_are_refused_and_nothing_is_recorded(trial, lockstep):
    tried(lockstep)
    report = lockstep.home / "canary.json"
    (lockstep.home / "new.py").write_text(f"{NEW}# edited since\n")
    assert_refused(
        lockstep(*PROMOTE, "--canary", "canary.json"),
        "canary.json: it has tried definition ",
        "Next: lockstep canary drill --transform new.py --json",
    )
    for text, why in (("", "it is no JSON document"), ("[1]", "it is not what lockstep canary --json prints")):
        report.write_text(text)
        assert_refused(lockstep(*PROMOTE, "--canary", "canary.json"), f"canary.json: {why}")
    assert_refused(lockstep(*PROMOTE, "--canary", "nowhere.json"), "nowhere.json: cannot be read: No such file")
    assert trial.drill.ask("select count(*) from lockstep.decision") == [(0,)]
    assert trial.transform.read_text() == OLD


def test_a_file_that_is_no_transform_is_refused_and_nothing_is_recorded(trial, lockstep):
    for source, words in (
        ("def transform(records):\n    return (\n", "new.py:2: syntax: '(' was never closed"),
        ("def other(records):\n    return records\n", "drill: new.py has no function transform"),
    ):
        (lockstep.home / "new.py").write_text(source)
        assert_refused(lockstep(*PROMOTE), words, "Next: lockstep promote drill --transform new.py --reason ...")
    assert_wrong_call(lockstep("promote", "drill", *WHY), "--transform", "name the file, or end a promotion")
    assert trial.drill.ask("select count(*) from lockstep.decision") == [(0,)]
    assert trial.transform.read_text() == OLD
