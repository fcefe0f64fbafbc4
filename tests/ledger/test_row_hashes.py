"""Tests that rows which a forger has fitted to the ledger's digests are found by the SHA-256 that a decision keeps."""

from __future__ import annotations

import json
import re

import pytest
from psycopg2 import errors

from lockstep.adapters.postgres import COMMITTER, OWNER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.proof.certificate import BY_SHA, NOT_FORGERS, mistakes
from lockstep.core.proof.extent import conclusion, proofs
from lockstep.core.proof.verification import ROWS_BY_SHA
from lockstep.ledger.proof.row_hashes import row_hash_checks
from lockstep.steps.batch.seal import seal_all
from lockstep.steps.evidence.keep_hashes import hashes_to_keep, keep_row_hashes
from lockstep.steps.proof.certificate import beside_ledger, certificate_of_batch
from lockstep.steps.proof.verify import verify
from support.fakes.ledger_rows import NOON
from support.inputs.same_digest import forged_row
from support.scenes.erasing import erase_key, wrong
from support.scenes.forged import COORDINATES

OFFSETS = (3, 4, 5, 6)
PAID = 1_000_000
KEPT = "select detail from lockstep.decision where kind = 'hash-rows' order by decision_id"


def forge(here) -> None:
    """Changes both columns of four rows. Each keeps the hash that the ledger's digest adds up."""
    for offset in OFFSETS:
        where = f"where _stream = 1 and _offset = {offset}"
        ((text, number, other),) = here.sql(
            f"""select hashtextextended(id collate "C", 0) as text, hashint4extended(n, 0) as number,
            hashint4extended({PAID}, 0) as other from public.drill {where}"""
        )
        forged = forged_row({"text": text, "number": number, "other": other})
        quoted = "".join(f"\\{ord(letter):03o}" for letter in forged)
        assert here.sql(f"update public.drill set id = convert_from('{quoted}', 'UTF8'), n = {PAID} {where}") == [(1,)]


def hashed(here) -> None:
    """Looks at the log and keeps a hash of each segment, as `verify --deep` does."""
    found = hashes_to_keep(here.at.conn, here.folder.pipeline)
    checks = verify(here.at.conn, here.at.broker, here.folder, deep=True)
    assert keep_row_hashes(here.at.conn, "drill", found, checks) == ""
    seal_all(here.at.conn, "drill")


def last_line(here) -> str:
    checks = verify(here.at.conn, here.at.broker, here.folder, deep=False)
    return conclusion("drill", proofs(["public.drill"], checks), checks)


def certificate(here) -> dict:
    return certificate_of_batch(here.at.conn, "drill", 1, NOON)


def test_four_forged_rows_with_the_same_digests_are_found_by_their_sha256(contents):
    here = contents()
    here.drain()
    hashed(here)
    issued = certificate(here)
    assert list(mistakes(issued)) == list(beside_ledger(here.at.conn, issued)) == []

    forge(here)

    assert here.check().ok, "the digests find them, and the test is of no use"
    found = wrong(here, deep=False)
    assert [name for name, _ in found] == [ROWS_BY_SHA]
    detail = found[0][1]
    (decision,) = here.sql("select decision_id from lockstep.decision where kind = 'hash-rows'")
    assert re.search(
        rf"batch 1: the \d+ rows in public.drill are not those that decision {decision[0]} has hashed$", detail
    )
    assert list(beside_ledger(here.at.conn, issued)) == [detail]
    with pytest.raises(Refusal, match="nothing can be certified"):
        certificate(here)


def test_until_a_segment_has_a_sha256_verify_and_the_certificate_say_against_accidents(contents, produce):
    here = contents()
    here.drain()
    assert NOT_FORGERS in last_line(here)
    assert certificate(here)["contents"] == NOT_FORGERS
    hashed(here)
    assert NOT_FORGERS not in last_line(here)
    assert certificate(here)["contents"] == BY_SHA
    produce(here.drill.topic, [("k", '{"id": "later", "n": 1}')])
    here.drain()
    assert NOT_FORGERS in last_line(here)
    hashed(here)
    assert NOT_FORGERS not in last_line(here)
    assert [len(row[0]["segments"]) for row in here.sql(KEPT)] == [3, 1]
    hashed(here)
    assert len(here.sql(KEPT)) == 2


@pytest.mark.parametrize(
    "change",
    [
        "insert into public.drill select id, n, _stream, _offset, 1, _batch from public.drill where _offset = 3",
        "delete from public.drill where _offset = 3",
        "update public.drill set n = null where _offset = 3",
        "update public.drill set _offset = 1000 where _offset = 3",
    ],
    ids=["put in", "missing", "emptied", "moved"],
)
def test_each_changed_row_changes_its_segments_sha256(contents, change):
    here = contents()
    here.drain()
    hashed(here)
    here.sql(change)
    assert dict(wrong(here, deep=False)).get(ROWS_BY_SHA, "").startswith("3 are wrong: ")


def test_a_wider_type_and_other_settings_of_the_session_keep_the_sha256(contents, produce):
    schema = "id string, n int, day date, at timestamp, price decimal(12,2), share float"
    table = f"""create table public.drill (id text, n int, day date, at timestamptz, price numeric(12,2), share real,
        {COORDINATES}, primary key (_stream, _offset, _ordinal))"""
    here = contents(target_sql=table, schema=schema)
    record = {
        "id": "x",
        "n": 1,
        "day": "2026-05-01",
        "at": "2026-05-01T12:00:00.5+02:00",
        "price": "1.50",
        "share": 0.1,
    }
    produce(here.drill.topic, [("k", json.dumps(record))])
    here.drain()
    hashed(here)

    def compared() -> str:
        (check,) = row_hash_checks(cur, here.folder.pipeline)
        assert check.ok, check
        return check.detail

    with transaction(here.at.conn, OWNER) as cur:
        for setting in ("datestyle = 'German'", "intervalstyle = 'iso_8601'"):
            cur.execute(f"set local {setting}")
            assert compared() == "3 segments by SHA-256"
        cur.execute("""alter table public.drill alter id type varchar, alter n type bigint,
            alter price type numeric(14,4), alter share type float8""")
        assert compared() == "3 segments by SHA-256"
        cur.execute("update public.drill set share = share + 0.001 where id = 'x'")
        (check,) = row_hash_checks(cur, here.folder.pipeline)
        assert not check.ok


def test_a_replay_and_an_erasure_end_a_sha256_and_the_next_look_keeps_another(contents):
    here = contents()
    here.drain()
    hashed(here)
    here.replay("0:0", "0:50")
    assert wrong(here, deep=False) == []
    assert NOT_FORGERS in last_line(here)
    hashed(here)
    assert NOT_FORGERS not in last_line(here)
    (key,) = here.sql("select id from public.drill where _stream = 1 and _offset = 3")[0]
    erase_key(here, key)
    assert wrong(here, deep=False) == []
    assert NOT_FORGERS in last_line(here)
    hashed(here)
    assert NOT_FORGERS not in last_line(here)
    here.sql("update public.drill set n = -1 where _stream = 1 and _offset = 4")
    assert ROWS_BY_SHA in dict(wrong(here, deep=False))


def test_a_second_decision_with_another_sha256_is_wrong(contents):
    here = contents()
    here.drain()
    hashed(here)
    here.sql("""insert into lockstep.decision (pipeline, kind, who, why, detail)
        select pipeline, kind, who, why, jsonb_set(detail, '{segments,0,sha256}', to_jsonb(repeat('0', 64)))
        from lockstep.decision where kind = 'hash-rows'""")
    assert "keep different hashes of its rows" in dict(wrong(here, deep=False)).get(ROWS_BY_SHA, "")


SEGMENT = {"batch": 1, "stream": 1, "erasure": 0, "rows": 3, "sha256": "0" * 64}
TOLD = {"target": "public.t", "columns": ["id"], "segments": [SEGMENT]}


@pytest.mark.parametrize(
    "detail",
    [
        {},
        TOLD | {"target": 1},
        TOLD | {"columns": "id"},
        TOLD | {"segments": []},
        TOLD | {"segments": [SEGMENT, SEGMENT | {"sha256": "0" * 16}]},
        TOLD | {"segments": [SEGMENT | {"batch": "1"}]},
    ],
    ids=["nothing", "no target", "no columns", "no segment", "a short hash", "a text"],
)
def test_the_database_refuses_hashes_that_do_not_say_of_what(ledger, conn, detail):
    ledger.stream(0)
    decide = (
        "insert into lockstep.decision (pipeline, kind, who, why, detail) values ('orders', 'hash-rows', 'me', 'x', %s)"
    )
    with transaction(conn, COMMITTER) as cur:
        cur.execute(decide, (json.dumps(TOLD),))
    with pytest.raises(errors.CheckViolation, match="hashes_are_told"), transaction(conn, COMMITTER) as cur:
        cur.execute(decide, (json.dumps(detail),))
