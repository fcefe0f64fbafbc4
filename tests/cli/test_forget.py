"""`forget`, and what still reads a pipeline whose folder is gone: the ledger alone."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from lockstep.ledger.migrate import migrate_target
from support.scenes.command_line import assert_refused, assert_wrong_call
from support.scenes.drill import DEFINITION, TARGET, write_folder

END = ("forget", "drill", "--reason", "the shop closed")
REPLAY = ("replay", "drill", "--from", "0:0")
OF_LEDGER = "drill has no folder here; read from the ledger alone\n"


@pytest.fixture
def gone(here, produce):
    """The drill with 150 rows and a reject, and then without its folder."""
    produce(here.drill.topic, [("k", "no JSON")], partition=0)
    here.drain()
    shutil.rmtree(here.drill.home / "drill")
    return here


def ended(lockstep, *more: str) -> None:
    assert lockstep(*END, *more).code == 0


def last_of(here) -> int:
    return here.drill.ask("""select "offset" from lockstep.reject""")[0][0]


def test_a_pipeline_is_forgotten_with_what_stays_and_what_is_free(lockstep, here):
    here.drain()

    said = lockstep(*END)

    assert (said.code, said.err) == (0, "")
    assert "drill: forgotten; its history stays.  lockstep batches drill" in said.out
    assert "public.drill: free for another pipeline; its rows stay" in said.out
    for partition, position in here.drill.ask("select partition, position from lockstep.stream"):
        assert f"{here.drill.topic}-{partition}: stopped at {position}" in said.out
    assert "still there: " in said.out
    again = lockstep(*END)
    assert (again.code, again.err) == (0, "")
    assert "drill: was forgotten already by " in again.out
    assert here.drill.ask("select kind, why from lockstep.decision") == [("forget", "the shop closed")]


def test_the_answer_has_its_fixed_fields(lockstep, here):
    here.drain()
    here.ask("replay", "0:0", "0:5")
    document = lockstep(*END, "--json").document
    assert set(document) == {
        *("pipeline", "forgotten", "changed", "by", "tables", "closed_requests", "positions", "files"),
    }
    assert (document["pipeline"], document["forgotten"], document["changed"]) == ("drill", True, True)
    assert document["tables"] == [{"store": "", "name": "public.drill"}]
    assert document["closed_requests"] == [1]
    assert [set(each) for each in document["positions"]] == [{"topic", "partition", "position"}] * 3
    assert [path.rpartition("/")[2] for path in document["files"]] == ["drill"]
    undone = lockstep("forget", "drill", "--undo", "--reason", "it opens again", "--json")
    assert undone.document == {"pipeline": "drill", "forgotten": False, "changed": True}


def test_a_run_of_a_forgotten_pipeline_names_who_ended_it_and_the_way_back(lockstep, here):
    here.drain()
    ended(lockstep)
    for call in (("run", "drill"), ("plan", "drill"), ("pause", "drill"), ("migrate", "drill"), REPLAY):
        assert_refused(
            lockstep(*call), "drill was forgotten by ", ": the shop closed", "lockstep forget drill --undo --reason ..."
        )
    said = lockstep("forget", "drill", "--undo", "--reason", "it opens again")
    assert said.out == "drill: goes on where it stopped.  Next: lockstep run drill\n"
    assert lockstep("run", "drill").code == 0
    assert lockstep("forget", "drill", "--undo", "--reason", "r").out == "drill: was not forgotten\n"


def test_status_leaves_forgotten_pipelines_out_and_tells_all_with_all(lockstep, here):
    here.drain()
    assert [each["pipeline"] for each in lockstep("status", "--json").document["pipelines"]] == ["drill"]
    ended(lockstep)
    assert lockstep("status", "--json").document == {"pipelines": []}
    (told,) = lockstep("status", "--all", "--json").document["pipelines"]
    assert (told["pipeline"], told["forgotten"]["why"], told["asks_kafka"]) == ("drill", "the shop closed", True)
    shutil.rmtree(here.drill.home / "drill")
    (told,) = lockstep("status", "--all", "--json").document["pipelines"]
    assert (told["pipeline"], told["forgotten"]["why"], told["asks_kafka"]) == ("drill", "the shop closed", False)
    assert ": the shop closed" in lockstep("status", "--all").out


def test_status_of_a_pipeline_without_a_folder_says_what_it_cannot(lockstep, gone):
    said = lockstep("status", "drill")
    assert (said.code, said.err) == (0, OF_LEDGER)
    assert "of the ledger alone: there is no folder here, so Kafka was not asked for bounds and lag" in said.out
    document = lockstep("status", "drill", "--json").document
    assert (document["forgotten"], document["asks_kafka"], document["warnings"]) == (None, False, [])
    found = sorted((s["partition"], s["position"], s["stable_end"], s["holes"]) for s in document["streams"])
    positions = gone.drill.ask("select partition, position from lockstep.stream order by 1")
    assert found == [(partition, position, None, 0) for partition, position in positions]
    ended(lockstep)
    assert lockstep("status", "drill").err.startswith("drill has no folder here, forgotten by ")


def test_history_is_read_from_the_ledger_alone(lockstep, gone):
    ended(lockstep)
    (batch,) = lockstep("batches", "drill", "--json").document["batches"]
    assert (batch["state"], batch["rows_written"], batch["rows_rejected"]) == ("committed", 150, 1)
    whole = lockstep("batch", str(batch["batch"]), "--json")
    assert (whole.document["pipeline"], whole.document["state"], whole.err) == ("drill", "committed", "")
    traced = lockstep("lineage", "drill", "--partition", "0", "--offset", "0", "--json").document
    assert (traced["coverage"], traced["batch"], traced["rows"][0]["_offset"]) == ("batch", batch["batch"], 0)
    reject = lockstep("lineage", "drill", "--partition", "0", "--offset", str(last_of(gone)), "--json").document
    assert reject["rows"] == []
    assert reject["reject"]["value"] == "no JSON"
    rejects = lockstep("rejects", "drill", "--json").document
    assert (rejects["total"], rejects["rejects"][0]["offset"]) == (1, last_of(gone))
    assert lockstep("holes", "drill", "--json").document == {"pipeline": "drill", "holes": []}
    hours = lockstep("hours", "drill", "--json").document
    assert (hours["hours"], hours["waits_for"]) == ([], None)


def test_verify_proves_what_it_can_without_a_folder(lockstep, gone):
    ended(lockstep)
    said = lockstep("verify", "drill", "--json")
    assert said.code == 0, said
    sides = {"target": "public.drill", "coordinates": "ledger", "contents": "ledger"}
    assert said.document["proved"] == [sides | {"coordinates_part": None, "contents_part": None}]
    checks = {each["name"]: each for each in said.document["checks"]}
    assert checks["rows are all there"]["ok"]
    assert checks["no other pipeline writes the table"]["detail"] == "public.drill was given free and has no owner"

    gone.drill.ask("update public.drill set n = -1 where id = 'r7' returning 1")
    wrong = lockstep("verify", "drill")
    assert wrong.code == 1
    assert "public.drill: coordinates compared with the ledger, contents WRONG" in wrong.out

    gone.drill.ask("drop table public.drill; select 1")
    said = lockstep("verify", "drill")
    assert said.code == 0
    assert "not compared: public.drill is not there any more  (rows of public.drill)" in said.out
    assert "every check holds. public.drill: coordinates and contents not compared." in said.out
    assert "--deep" not in said.out


def test_rows_of_a_table_that_has_a_new_owner_are_not_held_against_a_forgotten_pipeline(lockstep, gone):
    ended(lockstep)
    gone.drill.ask("delete from public.drill returning 1")
    folder = gone.drill.home / "other"
    folder.mkdir()
    (folder / "__init__.py").write_text(DEFINITION.format(topic=gone.drill.topic).replace('"drill"', '"other"', 1))
    (folder / "target.sql").write_text(TARGET)
    assert lockstep("migrate", "other").code == 0
    said = lockstep("verify", "drill")
    assert said.code == 0, said
    assert "not compared: public.drill was given free, and belongs to other" in said.out


def test_what_needs_the_folder_says_so(lockstep, gone):
    assert gone
    assert_refused(
        _alone(lockstep("verify", "drill", "--deep")),
        "--deep decodes by the definition's own files",
        "lockstep verify drill",
    )
    assert_refused(
        _alone(lockstep("holes", "drill", "--explain")),
        "--explain reads Kafka by the definition",
        "lockstep holes drill",
    )


def _alone(said):
    """The answer without the line that says where it was read from."""
    assert said.err.startswith(OF_LEDGER)
    return replace(said, err=said.err.removeprefix(OF_LEDGER))


def test_a_pipeline_that_never_began_an_attempt_has_batches_and_no_definition(lockstep, here):
    here.plan()
    shutil.rmtree(here.drill.home / "drill")
    (batch,) = lockstep("batches", "drill", "--json").document["batches"]
    assert batch["state"] == "planned"
    assert_refused(
        _alone(lockstep("lineage", "drill", "--partition", "0", "--offset", "0")),
        "drill: its folder is gone, and the ledger has no definition of it",
        "lockstep batches drill",
    )


def test_forget_is_refused_while_a_batch_is_under_way_and_nothing_is_half_done(lockstep, here):
    here.plan()
    assert_refused(lockstep(*END), "drill: batch 1 is unfinished", "lockstep run drill, or lockstep abandon 1 --reason")
    assert here.drill.ask("select pipeline from lockstep.target_owner") == [("drill",)]
    assert lockstep("abandon", "1", "--reason", "r").code == 0
    ended(lockstep)


@pytest.mark.parametrize("undo", [(), ("--undo",)])
def test_a_name_that_the_ledger_does_not_have_is_refused(lockstep, here, undo):
    assert here
    assert_refused(
        lockstep("forget", "nobody", "--reason", "r", *undo),
        "the ledger has no pipeline 'nobody'; it has: drill",
        "lockstep status --all",
    )
    assert_refused(lockstep("batches", "nobody"), "no pipeline 'nobody'; there are: drill")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("forget", "drill"), "--reason"),
        (("forget", "drill", "--reason", " "), "a reason in words"),
        (("forget", "Dr ill", "--reason", "r"), "'Dr ill' is not the name of a pipeline"),
        (("forget", "drill\0", "--reason", "r"), "is not the name of a pipeline"),
        (("forget", "--reason", "r"), "NAME"),
        (("status", "drill", "--all"), "leave NAME out"),
    ],
    ids=["no reason", "an empty reason", "no name of a pipeline", "NUL", "no name", "all of one"],
)
def test_a_wrong_call_says_which_argument_is_wrong(lockstep, here, call, words):
    assert_wrong_call(lockstep(*call), words)
    assert here.drill.ask("select count(*) from lockstep.decision") == [(0,)]


def test_a_pipeline_that_is_set_up_again_under_a_forgotten_name_is_refused_at_migrate(lockstep, gone):
    ended(lockstep)
    write_folder(gone.drill.home.parent, gone.drill.topic)
    assert_refused(lockstep("migrate", "drill"), "drill was forgotten by")
    with pytest.raises(Exception, match="drill was forgotten by"):
        migrate_target(gone.at.conn, gone.folder)


def test_no_new_pipeline_is_laid_out_under_a_forgotten_name(lockstep, gone):
    ended(lockstep)
    assert_refused(
        lockstep("new", "drill", "--topic", "t"),
        "drill was forgotten by ",
        ": the shop closed",
        "or lockstep new ANOTHER_NAME --topic TOPIC",
    )
    assert [path.name for path in gone.drill.home.iterdir()] == []
