"""`rename`: the folder goes first, and the ledger's name follows with all of the history."""

from __future__ import annotations

import shutil

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from lockstep.adapters.folders import load
from support.scenes.command_line import assert_refused, assert_wrong_call

GIVE = ("rename", "drill", "shop", "--reason", "a better name")


def move(here, old: str = "drill", new: str = "shop", **changes: str) -> None:
    """Renames the folder, and the name in its definition, as a user does first."""
    folder = (here.drill.home / old).rename(here.drill.home / new)
    text = (folder / "__init__.py").read_text().replace(f'name="{old}"', f'name="{new}"')
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    (folder / "__init__.py").write_text(text)


@pytest.fixture
def shop(here, monkeypatch):
    """Gives the drill 150 rows and renames its folder, so that `run shop` runs it."""
    here.drain()
    move(here)
    monkeypatch.setattr(type(here), "folder", property(lambda _: load("shop")))
    return here


def test_a_renamed_pipeline_has_its_history_and_goes_on(lockstep, shop, produce):
    said = lockstep(*GIVE)
    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "drill: is shop now; its history came along\n"
        "In Airflow the DAG shop goes on; runs of the DAG drill stay under its id\n"
        "Next: lockstep run shop\n"
    )
    produce(shop.drill.topic, [("k", '{"id": "later", "n": 1000}')])
    assert lockstep("run", "shop").code == 0
    batches = lockstep("batches", "shop", "--json").document["batches"]
    assert [(b["state"], b["rows_written"]) for b in batches] == [("committed", 150), ("committed", 1)]
    assert lockstep("verify", "shop", "--deep").code == 0
    traced = lockstep("lineage", "shop", "--partition", "0", "--offset", "0", "--json").document
    assert (traced["coverage"], traced["batch"]) == ("batch", 1)
    assert [each["pipeline"] for each in lockstep("status", "--all", "--json").document["pipelines"]] == ["shop"]


def test_the_answer_has_its_fixed_fields_and_a_second_call_changes_nothing(lockstep, shop):
    fields = {"pipeline": "shop", "former": "drill", "next": ["lockstep run shop"]}
    assert lockstep(*GIVE, "--json").document == fields | {"changed": True}
    assert lockstep(*GIVE, "--json").document == fields | {"changed": False}
    assert lockstep(*GIVE).out == "drill: was renamed to shop already\n"
    assert shop.drill.ask("select count(*) from lockstep.decision") == [(1,)]


def test_the_old_name_leads_to_the_new_one(lockstep, shop):
    assert lockstep(*GIVE).code == 0
    for call in (("batches", "drill"), ("status", "drill"), ("lineage", "drill", "--partition", "0", "--offset", "0")):
        assert_refused(lockstep(*call), "drill was renamed to shop by ", ": a better name", "the same with shop")
    assert_refused(lockstep("new", "drill", "--topic", "t"), "drill was renamed to shop by ")
    shutil.copytree(shop.drill.home / "shop", shop.drill.home / "drill")
    file = shop.drill.home / "drill" / "__init__.py"
    file.write_text(file.read_text().replace('"shop"', '"drill"'))
    for call in (("run", "drill"), ("plan", "drill"), ("pause", "drill"), ("migrate", "drill")):
        assert_refused(lockstep(*call), "drill was renamed to shop by ", ": a better name", "lockstep run shop")
    assert shop.drill.ask("select name from lockstep.pipeline") == [("shop",)]


def test_certificates_from_before_and_after_are_proved_under_the_new_name(lockstep, here, tmp_path):
    key = Ed25519PrivateKey.generate()
    (tmp_path / "key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "public").write_bytes(public)
    lockstep.environ(LOCKSTEP_SIGNING_KEY=str(tmp_path / "key"), LOCKSTEP_PUBLIC_KEY=str(tmp_path / "public"))
    here.drain()
    (tmp_path / "before").write_text(lockstep("certificate", "drill", "--batch", "1").out)
    move(here)
    assert lockstep(*GIVE).code == 0
    (tmp_path / "after").write_text(lockstep("certificate", "shop", "--batch", "1").out)
    for file in ("before", "after"):
        said = lockstep("verify", "shop", "--certificate", str(tmp_path / file))
        assert said.code == 0, said
        assert "and the ledger holds the same chain" in said.out
    assert '"former_names": [\n      "drill"\n    ]' in (tmp_path / "after").read_text()
    forged = (
        (tmp_path / "after").read_text().replace('"former_names": [\n      "drill"', '"former_names": [\n      "x"')
    )
    (tmp_path / "forged").write_text(forged)
    assert lockstep("verify", "--certificate", str(tmp_path / "forged")).code == 1


def test_rename_is_refused_while_a_batch_is_under_way(lockstep, here):
    here.plan()
    move(here)
    assert_refused(lockstep(*GIVE), "drill: batch 1 is unfinished", "lockstep abandon 1 --reason")
    assert here.drill.ask("select name from lockstep.pipeline") == [("drill",)]


def test_a_definition_that_is_more_than_renamed_is_refused(lockstep, here):
    here.drain()
    move(here, **{"public.drill": "public.another"})
    assert_refused(
        lockstep(*GIVE), "shop: its target was", "a rename changes the name alone", "lockstep rename drill shop"
    )
    assert here.drill.ask("select name from lockstep.pipeline") == [("drill",)]


def test_a_folder_that_was_not_renamed_or_was_copied_is_refused(lockstep, here):
    here.drain()
    assert_refused(lockstep(*GIVE), "shop: it has no folder yet, and drill has one", "mv ")
    shutil.copytree(here.drill.home / "drill", here.drill.home / "shop")
    assert_refused(lockstep(*GIVE), "is still there, beside", "a copy is no rename", "rm -r ")
    shutil.rmtree(here.drill.home / "drill")
    assert_refused(lockstep(*GIVE), "name is 'drill', and the folder's is 'shop': they must be equal")


def test_a_name_that_is_taken_or_unknown_is_refused(lockstep, shop):
    assert_refused(
        lockstep("rename", "nobody", "shop", "--reason", "r"), "the ledger has no pipeline 'nobody'; it has: drill"
    )
    assert lockstep(*GIVE).code == 0
    assert_refused(lockstep("rename", "shop", "shop", "--reason", "r"), "shop: it has this name")
    move(shop, "shop", "other")
    shop.drill.ask("insert into lockstep.pipeline (name) values ('other') returning 1")
    assert_refused(lockstep("rename", "shop", "other", "--reason", "r"), "the ledger has a pipeline other already")
    move(shop, "other", "drill")
    assert_refused(lockstep("rename", "other", "drill", "--reason", "r"), "drill is a former name of shop")
    assert lockstep("rename", "shop", "drill", "--reason", "back").code == 0


def test_a_forgotten_pipeline_is_not_renamed(lockstep, shop):
    assert lockstep("forget", "drill", "--reason", "closed").code == 0
    assert shop.drill.ask("select name from lockstep.pipeline") == [("drill",)]
    assert_refused(lockstep(*GIVE), "drill was forgotten by ", "lockstep forget drill --undo")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (GIVE[:3], "--reason"),
        ((*GIVE[:4], " "), "a reason in words"),
        (("rename", "drill", "Sh op", *GIVE[3:]), "'Sh op' is not the name of a pipeline"),
        (("rename", "dr\0ill", "shop", *GIVE[3:]), "is not the name of a pipeline"),
        (("rename", "drill", *GIVE[3:]), "NEW"),
    ],
    ids=["no reason", "an empty reason", "no name", "NUL", "one name"],
)
def test_a_wrong_call_says_which_argument_is_wrong(lockstep, here, call, words):
    assert_wrong_call(lockstep(*call), words)
    assert here.drill.ask("select count(*) from lockstep.decision") == [(0,)]


def test_a_name_that_no_dag_can_have_is_refused(lockstep, here):
    assert here
    assert_refused(lockstep("rename", "drill", "import", "--reason", "r"), "import")
