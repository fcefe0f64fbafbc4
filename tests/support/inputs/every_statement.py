"""Generates statements over everything that the catalog has in the ledger's schemas: what a login could try to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.inputs.statement import Statement
from support.inputs.statements_on_functions import on_function
from support.inputs.statements_on_objects import hung_on_table, on_role, on_schema, on_sequence, on_table
from support.inputs.statements_on_rows import on_rows
from support.inputs.statements_together import TOGETHER

if TYPE_CHECKING:
    from psycopg2.extensions import cursor

SCHEMAS = "select nspname from pg_namespace where nspname ~ '^lockstep' order by 1"
ROLES = """select rolname from pg_roles where rolname ~ '^(lockstep|pg_)' and rolname not like 'pg\\_%%temp%%' or rolsuper
    order by 1"""
TABLES = """select c.oid, c.oid::regclass::text as name, c.relkind::text as kind, c.relnamespace::regnamespace::text as schema
    from pg_class c where c.relnamespace::regnamespace::text = any(%s) and c.relkind in ('r', 'p', 'v', 'm') order by 2"""
COLUMNS = """select a.attrelid as oid, quote_ident(a.attname) as name, format_type(a.atttypid, null) as type,
    a.attidentity <> '' as given, coalesce((select string_agg(pg_get_constraintdef(k.oid), ' ') from pg_constraint k
        where k.conrelid = a.attrelid and k.contype = 'c' and a.attnum = any(k.conkey)), '') as checks
    from pg_attribute a where a.attrelid = any(%s) and a.attnum > 0 and not a.attisdropped order by a.attrelid, a.attnum"""
HUNG = """select t.tgrelid::regclass::text as of, quote_ident(t.tgname) as name, 'trigger' as kind from pg_trigger t
    where t.tgrelid = any(%(oids)s) and not t.tgisinternal
    union all select k.conrelid::regclass::text, quote_ident(k.conname), 'constraint' from pg_constraint k
    where k.conrelid = any(%(oids)s) and k.contype <> 't' order by 1, 2"""
SEQUENCES = """select c.oid, c.oid::regclass::text as name from pg_class c
    where c.relnamespace::regnamespace::text = any(%s) and c.relkind = 'S' order by 2"""
FUNCTIONS = """select p.oid, p.oid::regprocedure::text as name,
    format('%%s.%%I', p.pronamespace::regnamespace, p.proname) as short, p.prorettype = 'trigger'::regtype as is_trigger,
    coalesce((select array_agg(format_type(a.type, null) order by a.n)
        from unnest(p.proargtypes) with ordinality a (type, n)), '{}') as types, coalesce(p.proargnames, '{}') as names
    from pg_proc p where p.pronamespace::regnamespace::text = any(%s) and p.prokind in ('f', 'p') order by 2"""


def every_statement(cur: cursor, known: dict[str, Any]) -> list[Statement]:
    """Returns the statements for all that the catalog has, in a fixed order. `cur` gives rows by name."""

    def rows(query: str, values: Any) -> list[Any]:
        cur.execute(query, values)
        return cur.fetchall()

    schemas = schemas_of_ledger(cur)
    tables = rows(TABLES, (schemas,))
    oids = [table.oid for table in tables]
    columns = rows(COLUMNS, (oids,))
    made: list[Statement] = []
    for table in tables:
        own = [column for column in columns if column.oid == table.oid]
        made += on_rows(table.name, own, is_view=table.kind in "vm")
        made += on_table(table.oid, table.name, own)
    for hung in rows(HUNG, {"oids": oids}):
        made += hung_on_table(hung)
    for sequence in rows(SEQUENCES, (schemas,)):
        made += on_sequence(sequence.oid, sequence.name)
    staging = next(table.name for table in tables if table.schema == "lockstep_staging")
    for function in rows(FUNCTIONS, (schemas,)):
        made += on_function(function, known | {"staging": f"'{staging}'"})
    for schema in schemas:
        made += on_schema(schema)
    for role in rows(ROLES, None):
        made += on_role(role.rolname)
    made += [Statement("together", words, "", "", sql.format(**known)) for words, sql in TOGETHER.items()]
    return made


def schemas_of_ledger(cur: cursor) -> list[str]:
    """Returns the names of the ledger's schemas."""
    cur.execute(SCHEMAS)
    return [row[0] for row in cur.fetchall()]
