"""Tests `erase` as a user calls it: its answers, its refusals, a kill in mid-work, and an older certificate."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg2
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from support.scenes.command_line import assert_refused, assert_wrong_call
from support.scenes.erasing import KEY, feed, holding, wrong
from support.scenes.here import into_feed

ERASE = ("erase", "drill", "--key", KEY, "--column", "id", "--reason", "letter 12")
TESTS = Path(__file__).parents[1]


@pytest.fixture
def fed(here, produce):
    """Returns the drill after it has committed the person's records."""
    feed(produce, here.drill.topic)
    here.drain()
    return here


def test_erase_says_what_it_took_and_verify_says_it_again(fed, lockstep):
    shown = lockstep(*ERASE, "--preview")
    assert (shown.code, shown.err) == (0, "")
    assert "drill: would be erased by id: 3 of lockstep.reject, 3 of public.drill" in shown.out
    assert KEY in "".join(str(row) for row in fed.drill.ask("select * from public.drill"))

    done = lockstep(*ERASE)

    assert (done.code, done.err) == (0, "")
    assert "drill: erased by id: 3 of lockstep.reject, 3 of public.drill" in done.out
    assert KEY not in done.out
    assert holding(fed.drill.dsn) == []
    proved = lockstep("verify", "drill", "--deep")
    assert proved.code == 0, proved.out
    assert "what was erased stays out" in proved.out
    assert "1 key by decision 1: 3 of lockstep.reject, 3 of public.drill" in " ".join(proved.out.split())
    again = lockstep(*ERASE)
    assert again.out == "drill: nothing of this key is there; it was erased before\n"


def test_the_document_says_the_same_and_never_the_key(fed, lockstep):
    said = lockstep(*ERASE, "--json")
    document = said.document
    assert (document["changed"], document["preview"], document["left"]) == (True, False, [])
    assert document["rows"] == {"lockstep.reject": 3, "public.drill": 3}
    assert KEY not in said.out
    assert holding(fed.drill.dsn) == []


def test_the_key_may_come_by_standard_input(fed, lockstep, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{KEY}\n"))
    said = lockstep("erase", "drill", "--key", "-", "--column", "id", "--reason", "letter 12")
    assert "3 of public.drill" in said.out
    assert holding(fed.drill.dsn) == []


def test_wrong_calls_are_refused_in_one_line(fed, lockstep):
    assert_wrong_call(lockstep("erase", "drill", "--key", "", "--column", "id", "--reason", "x"), "the key is empty")
    assert_wrong_call(lockstep("erase", "drill", "--key", "a\0b", "--column", "id", "--reason", "x"), "NUL")
    assert_wrong_call(lockstep("erase", "drill", "--key", "\udcff", "--column", "id", "--reason", "x"), "not UTF-8")
    assert_wrong_call(lockstep("erase", "drill", "--key", KEY), "reason")
    assert_refused(lockstep(*ERASE[:-1], f"for {KEY}"), "the reason holds the key", "without the key")
    assert_refused(lockstep(*ERASE[:4], "--reason", "x"), "say which column", "--column COLUMN")
    assert holding(fed.drill.dsn) != []


def test_a_key_is_kept_out_before_anything_was_read(here, produce, lockstep):
    feed(produce, here.drill.topic)
    said = lockstep(*ERASE)
    assert (said.code, said.err) == (0, "")
    assert "no row and no reject has it" in said.out
    here.drain()
    assert holding(here.drill.dsn) == []
    assert wrong(here) == []


def test_a_target_that_is_not_there_is_told(fed, lockstep):
    with psycopg2.connect(fed.drill.dsn) as conn, conn.cursor() as cur:
        cur.execute("set role lockstep_owner; drop table public.drill")
    conn.close()
    assert_refused(lockstep(*ERASE), "target public.drill is not there", "lockstep migrate drill")


@pytest.mark.parametrize(
    ("point", "is_done"),
    [("erase.rows_gone", False), ("erase.images_blank", False), ("erase.decided", False), ("erase.committed", True)],
)
def test_an_erase_that_is_killed_leaves_all_or_nothing(fed, lockstep, tmp_path, point, is_done):
    held = holding(fed.drill.dsn)
    (armed := tmp_path / "armed").touch()
    environ = os.environ | {"LOCKSTEP_FAULT": f"{point}=kill@{armed}"}
    environ["PYTHONPATH"] = os.pathsep.join([str(TESTS.parent / "include"), str(TESTS)])
    call = [sys.executable, "-c", "from lockstep.cli.app import main; main()", *ERASE]
    killed = subprocess.run(call, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert holding(fed.drill.dsn) == ([] if is_done else held)
    assert wrong(fed) == []
    assert lockstep(*ERASE).code == 0
    assert holding(fed.drill.dsn) == []
    assert fed.drill.ask("select count(*) from lockstep.decision where kind = 'erase'") == [(1,)]


def test_an_erased_change_is_shown_without_key_and_row_and_a_certificate_still_proves(
    here, produce, lockstep, tmp_path
):
    here = into_feed(here.drill)
    for _ in range(2):
        feed(produce, here.drill.topic)
        here.drain()
    ((batch,),) = here.drill.ask(f"select _batch from public.newest where id = '{KEY}'")
    proof = ("verify", *certified(lockstep, tmp_path, batch))
    shown = lockstep("changes", "drill", "--limit", "1000", "--json").document["changes"]
    its = [each["number"] for each in shown if each["key"] == {"id": KEY}]
    assert len(its) >= 2

    done = lockstep(*ERASE)

    assert f"{len(its) + 1} of lockstep_feed.public_newest, 1 of public.newest" in done.out
    changes = lockstep("changes", "drill", "--limit", "1000", "--json").document["changes"]
    erased = [each for each in changes if each["change"] == "erased"]
    assert [each["number"] for each in erased] == [*its, changes[-1]["number"]]
    assert {(each["key"], each["before"], each["after"]) for each in erased} == {(None, None, None)}
    assert [each for each in changes if each["change"] != "erased"] == [
        each for each in shown if each["number"] not in its
    ]
    said = lockstep("changes", "drill", "--limit", "1").out.splitlines()[1].split()
    assert (said[2:5], said[-1]) == (["erased", "a", "person"], "-")
    assert lockstep(*proof).code == 0
    assert lockstep("verify", "drill", "--deep").code == 0
    here.at.close()


def certified(lockstep, folder: Path, batch: int) -> tuple[str, ...]:
    """Returns the options that name a certificate of the batch, and the key that proves it."""
    key = Ed25519PrivateKey.generate()
    private, public, file = folder / "signing.pem", folder / "public.pem", folder / "batch.json"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    file.write_text(lockstep("certificate", "drill", "--batch", str(batch), "--key", str(private)).out)
    return ("--certificate", str(file), "--public-key", str(public))


def test_a_certificate_from_before_the_erasure_still_proves_and_says_what_is_gone(fed, lockstep, tmp_path):
    ((batch,),) = fed.drill.ask(f"select distinct _batch from public.drill where id = '{KEY}'")
    prove = certified(lockstep, tmp_path, batch)
    assert lockstep("verify", "drill", *prove, "--json").document["erased"] == []
    assert lockstep(*ERASE).code == 0
    assert lockstep("verify", *prove).code == 0
    said = lockstep("verify", "drill", *prove)
    assert said.code == 0, said.out
    assert f"batch {batch}: decision 1 has erased 3 rows and 3 rejects since" in said.out
    newly = lockstep("certificate", "drill", "--batch", str(batch), "--key", str(tmp_path / "signing.pem"))
    before = (tmp_path / "batch.json").read_text()
    links = [json.loads(text)["certificate"]["links"] for text in (before, newly.out)]
    assert links[0] == links[1]


def test_reap_empties_old_rejects_and_check_says_how_long_they_are_kept(fed, lockstep, produce):
    fed.rewrite("limits=", "reject_retention=7, limits=")
    produce(fed.drill.topic, [("k", "{broken")], partition=0)
    fed.drain()
    assert "; rejects keep their bytes for 7 days" in lockstep("check", "drill").out
    assert lockstep("check", "drill", "--json").document["pipelines"][0]["reject_retention"] == 7
    assert lockstep("reap", "--json").document["emptied_rejects"] == 0
    with_owner = "set role lockstep_owner; update lockstep.commit set at = at - interval '8 days' returning 1"
    fed.drill.ask(with_owner)
    assert "rejects older than their pipeline keeps them: 4 emptied" in lockstep("reap").out
    listed = lockstep("rejects", "drill", "--json").document
    assert {(reject["key"], reject["value"]) for reject in listed["rejects"]} == {(None, None)}
    assert listed["total"] == 4
