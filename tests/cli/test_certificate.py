"""Tests that a certificate states what was committed.

A changed byte is found, and so is a ledger that was rewritten.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import psycopg2
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from lockstep.adapters import signing
from lockstep.adapters.postgres import COMMITTER, OWNER, PLANNER, READER, STAGER, connect, transaction
from lockstep.cli.looks.certifying import _wrong
from lockstep.core.planning.hours import HOUR
from lockstep.core.proof.certificate import FIRST_FORMAT, mistakes
from lockstep.steps.batch.hours import keep_hours
from lockstep.steps.batch.seal import seal_all
from support.fakes.dated import on_a_new_topic, send
from support.scenes.command_line import assert_refused, assert_wrong_call

RECORDS = 150


def pem_of(key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.fixture
def keys(tmp_path, lockstep):
    """Returns a key that signs, named by the environment, and its public half."""
    key = Ed25519PrivateKey.generate()
    private, public = tmp_path / "signing.pem", tmp_path / "public.pem"
    private.write_bytes(pem_of(key))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    lockstep.environ(LOCKSTEP_SIGNING_KEY=str(private), LOCKSTEP_PUBLIC_KEY=str(public))
    return private, public


@pytest.fixture
def certified(request, here, lockstep, tmp_path):
    """Commits batch 1 of the drill, and writes its certificate to a file."""
    request.getfixturevalue("keys")
    here.drain()
    said = lockstep("certificate", "drill", "--batch", "1")
    assert (said.code, said.err) == (0, "")
    file = tmp_path / "batch-1.json"
    file.write_text(said.out)
    return file


def ask(here, query: str) -> list[tuple]:
    return here.drill.ask(query)


def as_owner(here, *statements: str) -> None:
    """Runs statements with the ledger's own role and its guards switched off, as an attacker would."""
    with closing(connect(here.drill.dsn)) as conn, transaction(conn, OWNER) as cur:
        for statement in statements:
            cur.execute(statement)


def chain_check(lockstep) -> dict:
    (check,) = [
        c for c in lockstep("verify", "drill", "--json").document["checks"] if c["name"].startswith("the chain")
    ]
    return check


def test_a_certificate_says_what_was_committed_and_is_proved_without_a_ledger(here, lockstep, certified):
    document = json.loads(certified.read_text())["certificate"]
    records = [json.loads(link["record"]) for link in document["links"]]
    ledger = ask(
        here,
        "select s.partition, lower(r.offsets), upper(r.offsets), u.delivered, u.written, u.rows_digest::text "
        "from lockstep.batch_range r join lockstep.stream s using (stream_id) "
        "join lockstep.result u using (batch_id, stream_id) where r.batch_id = 1 order by 1",
    )
    columns = ("partition", "from_offset", "until_offset", "delivered", "written", "rows_digest")
    assert sorted(tuple(record[column] for column in columns) for record in records) == ledger
    assert sum(row[3] for row in ledger) == document["totals"]["delivered"] == RECORDS
    assert all(
        record["passed"] and record["definition"] and record["targets"][0]["target_digest"] for record in records
    )

    lockstep.environ(LOCKSTEP_DSN="postgresql://nobody@127.0.0.1:1/away")
    said = lockstep("verify", "--certificate", str(certified))

    assert said.code == 0
    assert f"proved, batch 1 of drill: {RECORDS} delivered" in said.out


def test_each_changed_byte_of_a_certificate_is_found(certified, keys):
    public, content = signing.public_key(str(keys[1])), certified.read_bytes()
    assert list(_wrong(content, json.loads(content), public)) == []

    unnoticed = []
    for place, byte in enumerate(content):
        for other in (bytes([byte ^ 1]), bytes([byte]) + b" "):
            changed = content[:place] + other + content[place + 1 :]
            try:
                read = json.loads(changed)
                found = list(_wrong(changed, read, public))
            except (ValueError, KeyError, TypeError):
                continue  # no JSON any more, or no certificate: refused where it is read
            if not found:
                unnoticed.append(place)
    assert unnoticed == []
    assert len(content) > 1_000


def test_the_commands_refuse_a_certificate_that_was_changed(lockstep, certified):
    text = certified.read_text()
    for old, new in [(f'"delivered": {RECORDS}', f'"delivered": {RECORDS + 1}'), ("\n", "\n\n"), ("batch", "bitch")]:
        assert old in text
        certified.write_text(text.replace(old, new, 1))
        said = lockstep("verify", "--certificate", str(certified), "--json")
        assert said.code == 1
        assert said.document.get("wrong") or "is no certificate" in said.document["error"]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not there")
def test_openssl_and_sha256_alone_prove_it(certified, keys, tmp_path):
    read = json.loads(certified.read_text())
    payload, signature = tmp_path / "payload", tmp_path / "signature"
    payload.write_text(json.dumps(read["certificate"], sort_keys=True, separators=(",", ":"), ensure_ascii=False))
    subprocess.run(
        ["openssl", "base64", "-d", "-A", "-out", str(signature)], input=read["signature"]["value"].encode(), check=True
    )

    said = subprocess.run(
        [
            *("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(keys[1])),
            *("-rawin", "-in", str(payload), "-sigfile", str(signature)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (said.returncode, said.stdout.strip()) == (0, "Signature Verified Successfully")
    for link in read["certificate"]["links"]:
        assert hashlib.sha256(f"{link['previous']}\n{link['record']}".encode()).hexdigest() == link["digest"]


@pytest.mark.parametrize(
    ("statements", "named"),
    [
        (["update lockstep.result set bytes = bytes + 1, rows_digest = rows_digest + 1 where batch_id = 1"], "batch 1"),
        (["update lockstep.commit set at = at - interval '1 day' where batch_id = 1"], "batch 1"),
        (["update lockstep.decision set why = 'looks fine' where kind = 'pause'"], "decision 1"),
        (["update lockstep.decision set who = 'somebody else' where kind = 'unpause'"], "decision 2"),
        (["update lockstep.request set who = 'innocent@bank'"], "request 1"),
        (["update lockstep.request set why = 'ordered by the board', login = 'ceo'"], "request 1"),
        (["update lockstep.request_window set offsets = int8range(0, 1)"], "request 1"),
        (
            ["insert into lockstep.pipeline values ('other')", "update lockstep.request set pipeline = 'other'"],
            "is of request 1, which another pipeline made",
        ),
        (["update lockstep.ledger set ledger_id = ledger_id, at = at - interval '1 day'"], "the ledger"),
        (["delete from lockstep.link where ledger_id is not null"], "follows link 0"),
        (
            ["delete from lockstep.link where decision_id = 1", "delete from lockstep.decision where decision_id = 1"],
            "link",
        ),
        (["delete from lockstep.link where number = (select max(number) from lockstep.link)"], "is in no link"),
        (["update lockstep.link set number = number + 10 where number > 1"], "follows link 1"),
        (["delete from lockstep.unsealed", "delete from lockstep.link"], "is in no link"),
        (["update lockstep.attempt set owner = 'another host'"], "batch 1"),
        (["update lockstep.attempt set dag_id = 'drill', dag_run_id = 'manual__by_somebody_else'"], "batch 1"),
        (["update lockstep.attempt set dag_run_id = 'x'", "update lockstep.link set form = 1"], "batch 1"),
    ],
)
@pytest.mark.usefixtures("keys")
def test_verify_names_what_was_rewritten_and_nothing_is_certified(here, lockstep, statements, named):
    here.drain()
    assert lockstep("pause", "drill", "--reason", "looks odd").code == 0
    assert lockstep("unpause", "drill", "--reason", "it was nothing").code == 0
    assert lockstep("replay", "drill", "--batch", "1", "--reason", "once more").code == 0
    assert lockstep("certificate", "drill", "--batch", "1").code == 0
    assert chain_check(lockstep)["ok"]

    off = [f"alter table lockstep.{table} disable trigger user" for table in ("request", "attempt")]
    as_owner(here, *off, *statements)

    check = chain_check(lockstep)
    assert not check["ok"]
    assert named in check["detail"]
    refused = lockstep("certificate", "drill", "--batch", "1")
    assert_refused(refused)
    assert "the chain does not hold" in refused.err


def test_a_chain_that_was_made_anew_holds_and_the_certificate_shows_it(here, lockstep, certified):
    as_owner(here, "update lockstep.result set bytes = bytes - 1, rows_digest = rows_digest - 1 where batch_id = 1")
    as_owner(
        here,
        "insert into lockstep.unsealed (pipeline, batch_id, stream_id, decision_id, request_id, ledger_id) "
        "select pipeline, batch_id, stream_id, decision_id, request_id, ledger_id from lockstep.link",
        "delete from lockstep.link",
    )
    with closing(connect(here.drill.dsn)) as conn:
        seal_all(conn, "drill")
    assert chain_check(lockstep)["ok"], "whoever owns the ledger can make a chain that fits"

    said = lockstep("verify", "drill", "--certificate", str(certified))

    assert said.code == 1
    assert "has another digest in the ledger" in said.out


def test_a_range_that_was_left_out_of_a_certificate_is_missed(certified):
    document = json.loads(certified.read_text())["certificate"]
    assert document["of"]["ranges"] == len(document["links"]) > 1
    left = json.loads(document["links"].pop()["record"])
    document["totals"] = {
        name: total - (left["until_offset"] - left["from_offset"] if name == "offsets" else left[name])
        for name, total in document["totals"].items()
    }
    held, ranges = len(document["links"]), document["of"]["ranges"]
    assert list(mistakes(document)) == [f"it holds {held} links, and the batch has {ranges} ranges"]


def test_a_certificate_names_its_ledger_and_is_refused_beside_another(here, lockstep, certified):
    document = json.loads(certified.read_text())["certificate"]
    ((ledger,),) = ask(here, "select ledger_id::text from lockstep.ledger")
    assert document["ledger"]["id"] == ledger
    other = str(uuid4())
    changed = document | {"ledger": document["ledger"] | {"id": other}}
    assert list(mistakes(changed)) == [f"link {document['ledger']['link']['number']} does not name ledger {other}"]

    as_owner(
        here,
        "create table public.kept as select * from lockstep.link where ledger_id is not null",
        "delete from lockstep.link where ledger_id is not null",
        f"update lockstep.ledger set ledger_id = '{other}'",
        "insert into lockstep.link select pipeline, number, batch_id, stream_id, decision_id, digest, at, request_id, "
        f"'{other}', form from public.kept",
    )
    said = lockstep("verify", "drill", "--certificate", str(certified))
    assert said.code == 1
    assert f"it is of ledger {ledger}, and this is ledger {other}" in said.out


def test_an_hour_without_offsets_is_not_proved(certified):
    document = json.loads(certified.read_text())["certificate"]
    document["of"] = {"kind": "hour", "from": "x", "until": "y", "offsets": [], "losses": []}
    assert list(mistakes(document)) == ["it is of an hour, and names no offsets"]


def test_a_certificate_of_the_first_format_is_proved_as_before(certified):
    document = json.loads(certified.read_text())["certificate"]
    del document["ledger"], document["of"]["ranges"], document["contents"]
    assert list(mistakes(document | {"format": FIRST_FORMAT})) == []
    named = document | {"format": "lockstep-certificate-9", "ledger": {"link": document["links"][0], "id": "x"}}
    named["of"] = named["of"] | {"ranges": len(document["links"])}
    assert "its format is lockstep-certificate-9" in next(mistakes(named))


def test_a_certificate_is_compared_with_a_ledger_that_holds(lockstep, certified):
    said = lockstep("verify", "drill", "--certificate", str(certified), "--json")
    assert (said.code, said.document["wrong"], said.document["against_ledger"]) == (0, [], True)


@pytest.mark.parametrize("role", [PLANNER, STAGER, COMMITTER, READER, "lockstep_partition"])
@pytest.mark.parametrize(
    "statement",
    [
        "insert into lockstep.link (pipeline, number, decision_id, digest) values ('drill', 99, null, 'x')",
        "update lockstep.link set digest = 'x'",
        "delete from lockstep.link",
        "insert into lockstep.unsealed (pipeline) values ('drill')",
        "delete from lockstep.unsealed",
    ],
)
def test_no_role_of_a_run_writes_the_chain(here, role, statement):
    with (
        closing(connect(here.drill.dsn)) as conn,
        pytest.raises(psycopg2.errors.InsufficientPrivilege),
        transaction(conn, role) as cur,
    ):
        cur.execute(statement)


@pytest.mark.usefixtures("keys")
def test_runs_decisions_and_replays_are_linked_in_one_order_whoever_seals(here, lockstep):
    for step in range(4):
        assert lockstep("pause" if step % 2 == 0 else "unpause", "drill", "--reason", f"step {step}").code == 0
    here.drain()
    assert lockstep("replay", "drill", "--batch", "1", "--reason", "once more").code == 0
    as_owner(
        here,
        "insert into lockstep.unsealed (pipeline, batch_id, stream_id, decision_id, request_id, ledger_id) "
        "select pipeline, batch_id, stream_id, decision_id, request_id, ledger_id from lockstep.link",
        "delete from lockstep.link",
    )

    def seal() -> None:
        with closing(connect(here.drill.dsn)) as conn:
            seal_all(conn, "drill")

    sealers = [threading.Thread(target=seal) for _ in range(4)]
    for sealer in sealers:
        sealer.start()
    for sealer in sealers:
        sealer.join()

    (commits,), (decisions,) = ask(
        here, "select count(*) from lockstep.commit union all select count(*) from lockstep.decision"
    )
    assert ask(here, "select count(*), max(number) from lockstep.link") == [(commits + decisions + 2,) * 2]
    assert chain_check(lockstep)["ok"]
    assert chain_check(lockstep)["detail"].endswith("0 records wait for the next run")


@pytest.mark.usefixtures("keys")
def test_an_hour_is_certified_with_its_offsets_and_each_of_them_must_be_in_a_link(here, lockstep, topic, tmp_path):
    ten = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - 10 * HOUR
    on_a_new_topic(here, topic, 2)
    here.run()
    as_owner(here, f"update lockstep.stream set opened_at = '{ten.isoformat()}'")
    send(here, 0, [ten + HOUR * part for part in (0.1, 0.9, 1.2)])
    send(here, 1, [ten + HOUR * 0.5])
    here.drain()
    keep_hours(here.at.conn, here.at.broker, here.folder.pipeline, ten + 1.5 * HOUR)

    said = lockstep("certificate", "drill", "--hour", f"{ten:%Y-%m-%dT%H}")

    document = json.loads(said.out)["certificate"]
    parts = [(part["partition"], part["from_offset"], part["until_offset"]) for part in document["of"]["offsets"]]
    assert parts == [(0, 0, 2), (1, 0, 1)]
    assert list(mistakes(document)) == []
    file = tmp_path / "hour.json"
    file.write_text(said.out)
    assert f"the hour from {ten:%Y-%m-%dT%H}" in lockstep("verify", "--certificate", str(file)).out

    document["of"]["offsets"][0]["until_offset"] = 7
    assert list(mistakes(document)) == [f"{here.drill.topic}-0: offset 3 belongs to the hour, and no link commits it"]


def test_bad_input_is_named(lockstep, keys, certified, tmp_path):
    other = tmp_path / "other.pem"
    other.write_bytes(pem_of(generate_private_key(SECP256R1())))
    stranger = tmp_path / "stranger.pem"
    stranger.write_bytes(
        Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    hour = datetime.now(UTC).strftime("%Y-%m-%dT%H")
    for words, said_of in [
        (("certificate", "drill", "--batch", "99"), "drill has no batch 99"),
        (("certificate", "drill", "--hour", hour), "is not told complete"),
        (("certificate", "drill", "--batch", "1", "--key", str(other)), "a key of another kind"),
        (("certificate", "drill", "--batch", "1", "--key", str(certified)), "holds no such key"),
        (("certificate", "drill", "--batch", "1", "--key", "nowhere.pem"), "nowhere.pem: No such file"),
        (("verify", "--certificate", "nowhere.json"), "nowhere.json: No such file"),
        (("verify", "--certificate", str(keys[1])), "is no certificate"),
        (("verify", "--certificate", str(certified), "--public-key", str(keys[0])), "holds no such key"),
    ]:
        refused = lockstep(*words)
        assert_refused(refused)
        assert said_of in refused.err, words
    for words in [
        ("certificate", "drill"),
        ("certificate", "drill", "--batch", "1", "--hour", hour),
        ("certificate", "drill", "--hour", "yesterday"),
        ("certificate", "drill", "--hour", f"{hour}:30"),
        ("verify",),
        ("verify", "drill", "--public-key", str(keys[1])),
    ]:
        assert_wrong_call(lockstep(*words))
    forged = lockstep("verify", "--certificate", str(certified), "--public-key", str(stranger))
    assert forged.code == 1
    assert "it is signed by key" in forged.out
    assert Path(certified).exists()
