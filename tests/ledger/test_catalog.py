"""Tests that ledger/catalog.txt has what the migrations make, and that every difference is named with its remedy."""

from __future__ import annotations

import re
from contextlib import closing
from importlib.resources import files

import psycopg2
import pytest
from psycopg2.extras import NamedTupleCursor

from lockstep.adapters.postgres import transaction
from lockstep.core.health.catalog import FUNCTIONS
from lockstep.ledger.admin import catalog

NOOP = "create or replace function lockstep.guard_commit() returns trigger language plpgsql security definer"
# A change, the finding about it, and True if that is only a warning.
TAMPERED = [
    ("alter table lockstep.commit disable trigger same_timeline", "trigger lockstep.commit.same_timeline is disabled"),
    (
        "alter table lockstep.commit enable replica trigger newest_attempt",
        "newest_attempt is enabled for replication only",
    ),
    ("drop trigger dead_stay_dead on lockstep.tombstone", "trigger lockstep.tombstone.dead_stay_dead is missing"),
    (
        "create trigger odd before insert on lockstep.batch for each row execute function lockstep.guard_version()",
        "trigger lockstep.batch.odd is no migration's",
    ),
    ("alter table lockstep.claim drop constraint claimed_once", "constraint lockstep.claim.claimed_once is missing"),
    (
        "alter table lockstep.stream drop constraint not_before_start, add constraint not_before_start check (true)",
        'constraint lockstep.stream.not_before_start is CHECK (true) instead of CHECK (("position" >= start_offset))',
    ),
    ("drop index lockstep.one_owner", "index lockstep.target_owner.one_owner is missing"),
    ("grant delete on lockstep.decision to lockstep_planner", "grant lockstep.decision to lockstep_planner is"),
    (
        "grant update (who) on lockstep.decision to public",
        "grant lockstep.decision to public is no migration's: update (who)",
    ),
    ("revoke insert on lockstep.commit from lockstep_committer", "grant lockstep.commit to lockstep_committer is"),
    (
        "grant create on schema lockstep to lockstep_stager",
        "grant schema lockstep to lockstep_stager is create, usage instead",
    ),
    (
        "grant usage on sequence lockstep.token_seq to lockstep_reader",
        "grant sequence lockstep.token_seq to lockstep_reader",
    ),
    (
        "grant execute on function lockstep.pass_over(bigint, bigint, bigint) to public",
        "grant function lockstep.pass_over(seen_token bigint, seen_batch bigint, seen_stream bigint) to public",
    ),
    ("alter table lockstep.decision owner to lockstep_planner", "owner lockstep.decision is lockstep_planner instead"),
    ("alter table lockstep.decision enable row level security", "row security lockstep.decision is no migration's"),
    (
        "create rule none as on delete to lockstep.claim do instead nothing",
        "rule lockstep.claim.none is no migration's",
    ),
    (
        "alter table lockstep.commit disable trigger all",
        "foreign key lockstep.commit.commit_batch_id_stream_id_fkey is disabled",
    ),
    (
        "create function lockstep_staging.evil() returns int language sql as 'select 1'",
        "function lockstep_staging.evil() is no migration's",
    ),
]
HARMLESS = [
    ("grant select on lockstep.batch to pg_monitor", "grant lockstep.batch to pg_monitor is no migration's: select"),
    ("alter table lockstep.batch add note text", "column lockstep.batch.note is no migration's: text"),
]


@pytest.fixture
def admin(database, postgres):
    """Runs statements in the test's database as the superuser."""
    with closing(psycopg2.connect(re.sub(r"/\w+$", database[database.rindex("/") :], postgres))) as conn:
        conn.autocommit = True
        yield conn.cursor(cursor_factory=NamedTupleCursor).execute


@pytest.fixture
def deviating(conn):
    def look() -> list:
        with transaction(conn, None) as cur:
            return catalog.deviating(cur)

    return look


def test_the_file_says_what_the_migrations_make(conn):
    with transaction(conn, None) as cur:
        found = catalog.found(cur)
    assert found == catalog.made(), "after a migration: make catalog"
    assert {kind for kind, _ in found} >= {
        "trigger",
        "function",
        "constraint",
        "index",
        "grant",
        "owner",
        "role",
        "member",
    }
    text = files("lockstep.ledger").joinpath("catalog.txt").read_text(encoding="utf-8")
    assert text == catalog.catalog_text(found)


def test_the_callers_path_is_his_own_again(conn):
    with transaction(conn, None) as cur:
        cur.execute("set local search_path = public, lockstep")
        assert catalog.deviating(cur) == []
        cur.execute("show search_path")
        assert cur.fetchone() == ("public, lockstep",)


def test_a_guard_that_was_taken_away_is_named_and_the_statements_put_it_back(admin, deviating):
    for done, words in TAMPERED:
        admin(done)
        found = deviating()
        assert any(words in str(each) for each in found), (done, list(map(str, found)))
        assert not any(each.is_harmless for each in found), done
        for _ in range(10):  # one statement may put several things back, or show the next
            if not (found := deviating()):
                break
            admin(found[0].remedy.partition(", as a superuser")[0])
        assert found == [], done


@pytest.mark.parametrize(("done", "words"), HARMLESS)
def test_what_only_adds_is_named_as_harmless(admin, deviating, done, words):
    admin(done)
    (each,) = deviating()
    assert (str(each), each.is_harmless) == (words, True)
    admin(each.remedy)
    assert deviating() == []


def test_a_functions_other_body_or_path_is_named(admin, deviating):
    admin(f"{NOOP} as 'begin return new; end'")
    (each,) = deviating()
    assert str(each) == "function lockstep.guard_commit() has another body, owner or option"
    assert each.remedy == FUNCTIONS
    admin("alter function lockstep.guard_position() set search_path = public")
    assert [each.name for each in deviating()] == ["lockstep.guard_commit()", "lockstep.guard_position()"]


def test_a_role_of_a_run_that_joins_another_is_named(admin, deviating):
    cur = admin.__self__
    cur.connection.autocommit = False  # roles are the whole cluster's: other tests must not see this one's
    admin("grant lockstep_owner to lockstep_planner")
    (each,) = catalog.deviating(cur)
    assert str(each) == "member lockstep_planner of lockstep_owner is no migration's: member"
    assert not each.is_harmless
    assert each.remedy == "revoke lockstep_owner from lockstep_planner"
    admin(each.remedy)
    assert catalog.deviating(cur) == []
    cur.connection.rollback()
    assert deviating() == []
