"""Tests that no role borrows the owner's rights: which functions run as the owner, who may call them, and on which tables."""

from __future__ import annotations

import re
from contextlib import closing

import psycopg2
import pytest

from lockstep.adapters.postgres import connect, transaction

SCHEMAS = "('lockstep', 'lockstep_staging', 'lockstep_feed', 'lockstep_send', 'lockstep_lake')"
FUNCTIONS = f"""select p.oid, p.oid::regprocedure::text as signature, p.proname::text as name, p.prosecdef, p.prosrc, p.proacl,
    p.proowner, p.prorettype = 'trigger'::regtype as is_trigger
    from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname in {SCHEMAS}"""

# The functions with the owner's rights that each role may call, and why. All others are refused.
MAY_CALL = {
    "lockstep_planner": {
        "archive_of",  # plans and upkeep leave alone what can be replayed
        "guarantee_of",
        "empty_old_rejects",  # reads the retention from the definition, not from its caller
        "feed_misses",
        "manual_change",  # writes its decision
        "pass_over",  # after a restore; bounded
        "rename_pipeline",  # writes its decision
        "trim_feed",  # what is older than the feed keeps, and sent
    },
    "lockstep_stager": {
        "archive_of",
        "guarantee_of",
        "show_to_judge",  # rows of the newest attempt, to a role without rights, within the transaction
    },
    "lockstep_committer": {
        "archive_of",
        "guarantee_of",
        "attach_parts",  # of the newest, validated attempt, as the next two
        "attach_staged",
        "make_partition",
        "batch_of_parts",
        "begin_merge",
        "end_merge",  # with as many rows as the commit counted
        "blank_images",  # while its erasure is not decided, as the next two
        "erase_rejects",
        "erase_said",
        "erasure_decision",
        "drop_replaced_partition",  # an empty one
        "net_changes",  # of its own transaction, as the next three
        "number_changes",
        "open_changes",
        "open_emission",
        "seal",
        "unsaid",
    },
    "lockstep_partition": {
        "archive_of",
        "guarantee_of",
        "make_part",  # of the newest attempt, as the next
        "close_part",
        "net_changes",
        "number_changes",
        "open_changes",
    },
    "lockstep_reader": {"archive_of", "guarantee_of", "erasure_decision", "feed_misses"},
    "lockstep_executor": set(),
    "lockstep_judge": set(),
    "lockstep_targets": set(),
}
# What a caller would make the owner do with rows of its own.
EACH, ALL = "for each row", "referencing new table as {new} for each statement"
BORROWED = {
    "the chain's queue": (
        ("note_decisions()", f"after insert on a {ALL.format(new='added')}"),
        ("pipeline text, decision_id bigint", "('orders', 99)"),
    ),
    "a lock": (
        ("begin_promotion()", f"before insert on a {EACH}"),
        ("pipeline text, kind text, detail jsonb", "('orders', 'promote', '{}')"),
    ),
    "a feed": (
        ("capture('public.clicks')", f"after insert on a {ALL.format(new='new_rows')}"),
        ("id int", "(1)"),
    ),
}
ROLES = tuple(MAY_CALL)


@pytest.fixture
def session(database):
    with closing(connect(database)) as conn:
        yield conn


def test_everybody_may_execute_no_function_of_the_ledger(ledger):
    found = ledger.ask(
        f"select f.signature from ({FUNCTIONS}) f cross join lateral"
        " aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) a where a.grantee = 0"
    )
    assert found == []


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_call_the_functions_of_the_written_list_with_the_owners_rights_and_no_others(ledger, role):
    found = ledger.ask(
        f"select f.name from ({FUNCTIONS}) f where f.prosecdef and has_function_privilege(%(role)s, f.oid, 'execute')",
        role=role,
    )
    assert {name for (name,) in found} == MAY_CALL[role]


def test_a_function_that_the_owner_makes_is_not_everybodys(ledger):
    with transaction(ledger.conn, "lockstep_owner") as cur:
        cur.execute("create function lockstep.later() returns int language sql as 'select 1'")
        cur.execute("select has_function_privilege('lockstep_reader', 'lockstep.later()', 'execute')")
        assert cur.fetchone() == (False,)
        cur.execute("drop function lockstep.later()")


@pytest.mark.parametrize("role", [r for r in ROLES if r != "lockstep_targets"])
@pytest.mark.parametrize("borrowed", BORROWED.values(), ids=BORROWED)
def test_a_trigger_of_the_owners_cannot_be_hung_on_a_table_of_ones_own(session, ledger, borrowed, role):
    ledger.stream(0)
    with pytest.raises(psycopg2.errors.InsufficientPrivilege):
        _borrow(session, role, *borrowed)
    assert ledger.ask("select count(*) from lockstep.unsealed where ledger_id is null") == [(0,)]


@pytest.mark.parametrize("borrowed", BORROWED.values(), ids=BORROWED)
def test_a_trigger_of_the_owners_refuses_a_table_that_is_not_the_ledgers(session, ledger, borrowed):
    ledger.stream(0)
    function = borrowed[0][0].partition("(")[0]
    with transaction(session, "lockstep_owner") as cur:
        cur.execute(f"grant execute on function lockstep.{function}() to lockstep_executor")
    with pytest.raises(psycopg2.Error) as refused:
        _borrow(session, "lockstep_executor", *borrowed)
    assert refused.value.diag.constraint_name == "own_table"
    assert ledger.ask("select count(*) from lockstep.unsealed where ledger_id is null") == [(0,)]


def test_each_trigger_with_the_owners_rights_asks_first_whose_table_it_is(ledger):
    found = ledger.ask(f"select f.name, f.prosrc from ({FUNCTIONS}) f where f.prosecdef and f.is_trigger")
    assert len(found) > 60
    assert {
        name
        for name, text in found
        if not re.search(r"^begin\n    if [^\n]+ then\n +raise exception 'own_table", text, re.MULTILINE)
    } == set()


def _borrow(session, role, trigger, rows):
    with transaction(session, role) as cur:
        cur.execute(f"create temp table a ({rows[0]})")
        cur.execute(f"create trigger t {trigger[1]} execute function lockstep.{trigger[0]}")
        cur.execute(f"insert into a values {rows[1]}")
