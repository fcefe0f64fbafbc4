"""Tests that a ledger keeps its chain and certificates when requests, its id and processes come into the chain."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from lockstep.adapters.postgres import OWNER, connect, transaction
from lockstep.core.proof.certificate import FIRST_FORMAT, NOT_FORGERS, digest_of, mistakes
from lockstep.ledger.migrate import migrate
from lockstep.ledger.proof.chain import chain_check
from lockstep.steps.batch.seal import seal_all
from lockstep.steps.proof.certificate import beside_ledger, certificate_of_batch
from support.fakes.ledger_rows import NOON, LedgerRows, read
from support.scenes.older_ledger import migrate_below

SEALED = "select number, digest from lockstep.link order by number"
DECIDE = "insert into lockstep.decision (pipeline, kind, who, why) values ('orders', %s, 'me', 'because')"
ASK = """with asked as (
        insert into lockstep.request (pipeline, lane, token, who, why)
        values ('orders', 'replay', nextval('lockstep.token_seq'), 'me', 'once more') returning request_id)
    insert into lockstep.request_window select request_id, %s, int8range(0, 5) from asked"""


class Before:
    """A ledger that was migrated to 0089, with sealed commits, decisions and requests, and some that are not sealed."""

    def __init__(self, conn) -> None:
        self.ledger = LedgerRows(conn)
        self.streams = (self.ledger.stream(0), self.ledger.stream(1))
        self.sealed = self.ledger.done(dict.fromkeys(self.streams, (0, 10)))[0]
        self.write(DECIDE, "pause")
        self.write(ASK, self.streams[0])
        self.write("select lockstep.seal('orders', %s)", 99)
        self.links = self.ledger.ask(SEALED)
        self.first = self.certificate_of_first_format()
        self.unsealed = self.ledger.done({self.streams[0]: (10, 20)})[0]
        self.write(DECIDE, "unpause")
        self.write(ASK, self.streams[1])

    def write(self, statement: str, value) -> None:
        with transaction(self.ledger.conn, OWNER) as cur:
            cur.execute(statement, (value,))

    def certificate_of_first_format(self) -> dict:
        """Returns the document of the sealed batch as code before 0090 wrote it."""
        found = self.ledger.ask("""select l.number, l.digest, c.record, coalesce((
                select p.digest from lockstep.link p where p.number = l.number - 1), '')
            from lockstep.link l join lockstep.committed_record c using (batch_id, stream_id) order by 1""")
        links = [
            {"number": number, "previous": previous, "record": record, "digest": digest}
            for number, digest, record, previous in found
        ]
        records = [json.loads(link["record"]) for link in links]
        counted = {n: sum(r[n] for r in records) for n in ("delivered", "written", "filtered", "rejected", "rows")}
        number, digest = self.links[-1]
        return {
            "format": FIRST_FORMAT,
            "pipeline": "orders",
            "of": {"kind": "batch", "batch": self.sealed},
            "links": links,
            "head": {"number": number, "digest": digest},
            "totals": {"offsets": 20, **counted},
            "contents": NOT_FORGERS,
            "issued_at": "2026-05-01T12:00:00Z",
        }


@pytest.fixture
def before(empty, monkeypatch):
    with closing(connect(empty)) as conn:
        migrate_below(conn, 90, monkeypatch)
        yield Before(conn)


@pytest.fixture
def migrated(request, empty):
    """Yields a connection of this version's code to the ledger of before, which it has migrated."""
    request.getfixturevalue("before")
    with closing(connect(empty)) as conn:
        assert next(migration.version for migration in migrate(conn)) == 90
        yield conn


def test_a_chain_of_before_holds_and_goes_on_when_the_ledger_is_migrated(before, migrated):
    check = read(migrated, chain_check, "orders")
    assert (check.ok, check.detail) == (True, "3 links, 5 records wait for the next run")

    seal_all(migrated, "orders")

    check = read(migrated, chain_check, "orders")
    assert (check.ok, check.detail) == (True, "8 links, 0 records wait for the next run")
    ledger = LedgerRows(migrated)
    assert ledger.ask(SEALED)[:3] == before.links
    asked = ledger.ask("select request_id from lockstep.link where request_id is not null order by number")
    assert asked == ledger.ask("select request_id from lockstep.request order by 1")
    assert ledger.ask("select number from lockstep.link where ledger_id is not null") == [(4,)]


def test_certificates_of_before_are_proved_and_new_ones_are_made_of_batches_of_before(before, migrated):
    assert list(mistakes(before.first)) == []
    assert list(beside_ledger(migrated, before.first)) == []
    for batch, ranges in ((before.sealed, 2), (before.unsealed, 1)):
        document = certificate_of_batch(migrated, "orders", batch, NOON)
        assert document["of"]["ranges"] == len(document["links"]) == ranges
        assert list(mistakes(document)) == []
        assert list(beside_ledger(migrated, document)) == []
        assert ("ran" in json.loads(document["links"][0]["record"])) == (batch == before.unsealed)


def test_requests_of_before_and_processes_from_then_on_cannot_be_rewritten_unseen(before, migrated):
    seal_all(migrated, "orders")
    for statement, named in (
        (f"update lockstep.attempt set owner = 'x' where batch_id = {before.sealed}", ""),
        (
            f"update lockstep.attempt set owner = 'x' where batch_id = {before.unsealed}",
            f"does not fit the commit of batch {before.unsealed}",
        ),
        ("update lockstep.request set who = 'x' where request_id = 1", "does not fit request 1"),
    ):
        with transaction(migrated, OWNER) as cur:
            cur.execute("alter table lockstep.attempt disable trigger user")
            cur.execute("alter table lockstep.request disable trigger user")
            cur.execute("savepoint as_it_was")
            cur.execute(statement)
            check = chain_check(cur, "orders")
            assert (check.ok, named in check.detail) == (not named, True)
            cur.execute("rollback to savepoint as_it_was")


def test_a_pipeline_without_a_link_begins_with_the_one_that_names_the_ledger(migrated):
    with transaction(migrated, OWNER) as cur:
        cur.execute("insert into lockstep.pipeline (name) values ('new')")
    seal_all(migrated, "new")
    ((number, digest, record),) = LedgerRows(migrated).ask(
        "select number, digest, record from lockstep.link join lockstep.ledger_record using (ledger_id) where pipeline = 'new'"
    )
    assert (number, digest) == (1, digest_of("", record))
