"""Generates statements that would change tables, sequences, schemas and roles themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.inputs.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Iterator


def on_table(oid: int, name: str, columns: list[Any]) -> Iterator[Statement]:
    """Yields statements that would change a table itself."""
    acl = f"select relacl::text from pg_class where oid = {oid}"
    hung = f"create trigger mine before insert on {name} for each row execute function suppress_redundant_updates_trigger()"
    for what, sql in {
        "drop": f"drop table {name} cascade",
        "add column": f"alter table {name} add column mine int",
        "disable triggers": f"alter table {name} disable trigger all",
        "disable user triggers": f"alter table {name} disable trigger user",
        "owner": f"alter table {name} owner to current_user",
        "rename": f"alter table {name} rename to mine",
        "schema": f"alter table {name} set schema lockstep_staging",
        "row security": f"alter table {name} enable row level security",
        "policy": f"create policy mine on {name} using (false)",
        "rule": f"create rule mine as on insert to {name} do instead nothing",
        "trigger": hung,
        "index": f"create index on {name} ((1))",
        "unlogged": f"alter table {name} set unlogged",
        "comment": f"comment on table {name} is 'mine'",
    }.items():
        yield Statement("alter", name, what, "", sql)
    for to in ("public", "lockstep_executor", "current_user"):
        yield Statement("grant", name, "all", "", f"grant all on {name} to {to}", acl)
    yield Statement("grant", name, "revoke", "", f"revoke all on {name} from lockstep_reader, lockstep_committer", acl)
    for column in columns:
        for what in ("drop default", "drop not null", "set default null"):
            yield Statement("alter", name, "column", "", f"alter table {name} alter column {column.name} {what}")
        yield Statement("alter", name, "column", "", f"alter table {name} drop column {column.name} cascade")


def on_sequence(oid: int, name: str) -> Iterator[Statement]:
    """Yields statements on a sequence."""
    acl = f"select relacl::text from pg_class where oid = {oid}"
    yield Statement("nextval", name, "", "", f"select nextval('{name}')")
    yield Statement("read", name, "", "", f"select last_value from {name}")
    for to in ("1", "1000000", "9223372036854775806"):
        yield Statement("setval", name, "", "", f"select setval('{name}', {to})")
    for what in ("restart", "increment 2", "owned by none", "owner to current_user", "rename to mine"):
        yield Statement("alter", name, what, "", f"alter sequence {name} {what}")
    yield Statement("alter", name, "drop", "", f"drop sequence {name} cascade")
    yield Statement("grant", name, "all", "", f"grant all on sequence {name} to public", acl)


def on_schema(schema: str) -> Iterator[Statement]:
    """Yields statements that would make something in a schema, or change it."""
    acl = f"select nspacl::text from pg_namespace where nspname = '{schema}'"
    for what, sql in {
        "table": f"create table {schema}.mine (id int)",
        "table as": f"create table {schema}.mine as select 1 as id",
        "view": f"create view {schema}.mine as select 1 as id",
        "materialized view": f"create materialized view {schema}.mine as select 1 as id",
        "sequence": f"create sequence {schema}.mine",
        "type": f"create type {schema}.mine as (id int)",
        "domain": f"create domain {schema}.mine as int",
        "function": f"create function {schema}.mine() returns int language sql as 'select 1'",
        "definer function": f"create function {schema}.mine() returns int language sql security definer as 'select 1'",
        "trigger function": f"create function {schema}.mine() returns trigger language plpgsql as 'begin return null; end'",
        "operator": f"create operator {schema}.=== (function = int4eq, leftarg = int4, rightarg = int4)",
        "cast of a name": f"create domain {schema}.text as pg_catalog.text",
    }.items():
        yield Statement("create", schema, what, "", sql)
    for what, sql in {
        "drop": f"drop schema {schema} cascade",
        "rename": f"alter schema {schema} rename to mine",
        "owner": f"alter schema {schema} owner to current_user",
        "comment": f"comment on schema {schema} is 'mine'",
        "defaults": f"alter default privileges for role lockstep_owner in schema {schema} grant all on tables to public",
    }.items():
        yield Statement("alter", schema, what, "", sql)
    for to in ("public", "lockstep_executor", "lockstep_stager"):
        yield Statement("grant", schema, "all", "", f"grant all on schema {schema} to {to}", acl)
    for what in ("tables", "functions", "sequences"):
        all_of = f"grant all on all {what} in schema {schema} to public"
        catalog = {
            "tables": "relacl::text from pg_class where relkind <> 'S'",
            "functions": "proacl::text from pg_proc where true",
        }
        catalog["sequences"] = "relacl::text from pg_class where relkind = 'S'"
        select, rest = catalog[what].split(" from ")
        space = "pronamespace" if what == "functions" else "relnamespace"
        effect = f"select string_agg({select}, ' ' order by oid) from {rest} and {space} = '{schema}'::regnamespace"
        yield Statement("grant", schema, what, "", all_of, effect)


def on_role(role: str) -> Iterator[Statement]:
    """Yields statements by which a login would become, change or drop a role."""
    yield Statement("set role", role, "", "", f'set role "{role}"')
    yield Statement("session", role, "", "", f'set session authorization "{role}"')
    yield Statement("role", role, "grant", "", f'grant "{role}" to current_user')
    yield Statement("role", role, "alter", "", f'alter role "{role}" createrole')
    yield Statement("role", role, "rename", "", f'alter role "{role}" rename to mine')
    yield Statement("role", role, "setting", "", f"""alter role "{role}" set session_replication_role = 'replica'""")
    yield Statement("role", role, "drop", "", f'drop role "{role}"')
    yield Statement("role", role, "owned", "", f'drop owned by "{role}"')
    yield Statement("role", role, "reassign", "", f'reassign owned by "{role}" to lockstep_reader')


def hung_on_table(hung: Any) -> Iterator[Statement]:
    """Yields statements that drop a trigger or a constraint of a table, or switch it off."""
    what = f"{hung.kind} {hung.name}"
    if hung.kind == "constraint":
        yield Statement("alter", hung.of, what, "drop", f"alter table {hung.of} drop constraint {hung.name}")
        return
    yield Statement("alter", hung.of, what, "drop", f"drop trigger {hung.name} on {hung.of}")
    yield Statement("alter", hung.of, what, "disable", f"alter table {hung.of} disable trigger {hung.name}")
