"""Tests that the doctor finds no fault in what `lockstep migrate` makes."""

from __future__ import annotations

from lockstep.core.health.findings import Check, DoctorReport
from lockstep.core.health.ledger_findings import ledger_findings
from lockstep.core.ledger_rights import EXPECTED_ROLES, GRANTS, HISTORY_TABLES, OF_A_RUN
from lockstep.ledger import migrate
from lockstep.ledger.admin.facts import ledger_facts

PRIVILEGES = """
    select g.grantee, g.privilege_type, g.table_name from information_schema.role_table_grants g
    join pg_class c on c.relname = g.table_name and c.relnamespace = 'lockstep'::regnamespace and c.relkind = 'r'
    where g.table_schema = 'lockstep' and g.grantee like 'lockstep%%' and g.grantee <> 'lockstep_owner'
"""
CHANGEABLE = """
    select distinct c.relname from pg_class c cross join unnest(%(roles)s::text[]) as r (role)
    where c.relnamespace = 'lockstep'::regnamespace and c.relkind = 'r'
      and (has_table_privilege(r.role, c.oid, 'UPDATE, DELETE, TRUNCATE') or has_any_column_privilege(r.role, c.oid, 'UPDATE'))
"""


def test_a_fresh_ledger_has_nothing_that_deviates(conn):
    facts = ledger_facts(conn)
    assert (facts.lacking, facts.rewriting, facts.roles) == ([], [], dict.fromkeys(EXPECTED_ROLES, True))
    known = {migration.version: migration.checksum for migration in migrate.known_migrations()}
    found = DoctorReport.of(ledger_findings(facts, known)).findings
    assert [f.check for f in found] == [Check.PRIVILEGES]  # the tests' login migrates, too


def test_every_insert_and_delete_that_migrations_grant_is_one_that_is_looked_for(ledger):
    granted = set(ledger.ask(PRIVILEGES))
    wanted = set(GRANTS)
    assert wanted <= granted
    assert {grant for grant in granted - wanted if grant[1] in {"INSERT", "DELETE"}} == set()


def test_every_table_that_nobody_changes_is_history(ledger):
    tables = {
        name
        for (name,) in ledger.ask(
            "select relname from pg_class where relnamespace = 'lockstep'::regnamespace and relkind = 'r'"
        )
    }
    changeable = {name for (name,) in ledger.ask(CHANGEABLE, roles=list(OF_A_RUN))}
    waiting = {"outbox", "unsealed"}  # what was sent or sealed is taken out of it
    assert tables - changeable - waiting == set(HISTORY_TABLES)
