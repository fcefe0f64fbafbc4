"""Lists statements that a hostile author writes into target.sql, and those of an honest one."""

from __future__ import annotations

FORGE = "update lockstep.decision set who = 'forged'"
# The ways for a text to gain rights: as it stands, or in a block, a function, or a function of its owner's.
WAYS = {
    "as it is": "{act};",
    "reset role": "reset role; {act};",
    "set role of the owner": "set role lockstep_owner; {act};",
    "set role of the committer": "set role lockstep_committer; {act};",
    "set role none": "set role none; {act};",
    "set local role": "set local role none; {act};",
    "set_config": "select set_config('role', 'lockstep_owner', false); {act};",
    "another session's user": "set session authorization lockstep_owner; {act};",
    "the login": "set session authorization lockstep; {act};",
    "the first user": "set session authorization default; {act};",
    "reset session authorization": "reset session authorization; {act};",
    "a commit first": "commit; reset role; {act};",
    "a rollback first": "rollback; reset role; {act};",
    "a block": "do $x$ begin execute 'reset role'; execute 'set role lockstep_owner'; execute $y${act}$y$; end $x$;",
    "a function": "create function public.evil() returns void language plpgsql as $x$ begin execute 'reset role';"
    " execute $y${act}$y$; end $x$; select public.evil();",
    "a definer's function": "create function public.evil() returns void language plpgsql security definer as"
    " $x$ begin execute $y${act}$y$; end $x$; select public.evil();",
    "a procedure": "create procedure public.evil() language plpgsql as $x$ begin commit; execute 'reset role';"
    " execute $y${act}$y$; end $x$; call public.evil();",
    "all settings": "discard all; {act};",
}
ACTS = {
    "forges a decision": FORGE,
    "switches the fence off": "alter table lockstep.commit disable trigger user",
    "drops a guard": "drop trigger newest_attempt on lockstep.commit",
    "replaces a guard": "create or replace function lockstep.guard_commit() returns trigger language plpgsql as 'begin end'",
    "reads decisions": "create table public.stolen as select * from lockstep.decision",
    "reads staged rows": "create table public.stolen as select * from lockstep_staging.kept",
    "changes staged rows": "update lockstep_staging.kept set id = 'forged'",
    "drops staged rows": "drop table lockstep_staging.kept",
    "adds to the ledger's schema": "create table lockstep.mine (id int)",
    "adds to the staging schema": "create table lockstep_staging.mine (id int)",
    "adds to the feeds' schema": "create table lockstep_feed.mine (id int)",
    "changes a table by hand": "select lockstep.manual_change('public.kept', 'mine')",
    "catches changes of its own": "create table public.caught (id int); create trigger mine after insert on public.caught"
    " referencing new table as new_rows for each statement execute function lockstep.capture('public.kept')",
    "hangs code on the ledger": "create rule mine as on insert to lockstep.decision do instead nothing",
    "gives itself the owner": "grant lockstep_owner to lockstep_targets",
    "gives itself the committer": "grant lockstep_committer to current_user",
    "grants everybody": "grant all on all tables in schema lockstep to public",
    "default privileges of the owner": "alter default privileges for role lockstep_owner grant all on tables to public",
    "default privileges of the stager": "alter default privileges for role lockstep_stager in schema lockstep_staging"
    " grant all on tables to public",
    "an event trigger": "create event trigger mine on ddl_command_end execute function lockstep.guard_version()",
    "no triggers at all": "set session_replication_role = replica",
    "takes the schema": "alter schema lockstep owner to lockstep_targets",
    "takes what the owner has": "reassign owned by lockstep_owner to lockstep_targets",
    "makes a superuser": "create role mine superuser login password 'x'",
    "gives the owner a password": "alter role lockstep_owner login password 'x'",
    "reads passwords": "create table public.stolen as select * from pg_authid",
    "runs a program": "copy (select 1) to program 'id'",
}

EVIL = """create function public.evil() returns {type} language plpgsql as
    $x$ begin if current_user <> 'lockstep_targets' then perform set_config('role', 'none', true);
    update lockstep.decision set who = 'forged'; end if; return {value}; end $x$;"""
TRIGGER = EVIL.format(type="trigger", value="new")
HANG = "create trigger t before insert on public.drill for each row execute function public.evil()"
CHILD = """create table public.child (s int, o int8, r int, foreign key (s, o, r) references public.drill
    on delete cascade);"""
# Code that target.sql leaves behind for the next run to execute with its rights, and its name in the refusal.
LEFT = {
    "a trigger": (f"{TRIGGER} {HANG}", "trigger t"),
    "a statement's trigger": (
        f"{TRIGGER} create trigger t after insert on public.drill execute function public.evil()",
        "trigger t",
    ),
    "a definer's trigger": (
        TRIGGER.replace("plpgsql", "plpgsql security definer")
        + " create trigger t before insert on public.drill for each row execute function public.evil()",
        "trigger t",
    ),
    "a trigger's condition": (
        EVIL.format(type="boolean", value="true").replace("plpgsql", "plpgsql immutable")
        + " create trigger t before insert on public.drill for each row when (public.evil())"
        " execute function suppress_redundant_updates_trigger()",
        "trigger t",
    ),
    "a default": (
        EVIL.format(type="int", value="1") + "alter table public.drill add more int default public.evil()",
        "default of more",
    ),
    "a default that takes a role on": (
        "alter table public.drill add more text default set_config('role', 'none', true)",
        "set_config",
    ),
    "a default that runs a text": (
        "alter table public.drill add more xml default query_to_xml('select public.evil()', true, true, '')",
        "query_to_xml",
    ),
    "a default that reads a view": (
        EVIL.format(type="int", value="1") + "create view public.seen as select public.evil() as one;"
        "grant select on public.seen to public;"
        "alter table public.drill add more xml default table_to_xml('public.seen', true, true, '')",
        "table_to_xml",
    ),
    "a generated column": (
        EVIL.format(type="int", value="1").replace("plpgsql", "plpgsql immutable")
        + "alter table public.drill add more int generated always as (public.evil()) stored",
        "default of more",
    ),
    "a constraint": (
        EVIL.format(type="boolean", value="true") + "alter table public.drill add constraint c check (public.evil()) not valid",
        "constraint c",
    ),
    "an index": (
        EVIL.replace("()", "(text)").format(type="text", value="$1").replace("plpgsql", "plpgsql immutable")
        + "create index i on public.drill (public.evil(id))",
        "index i",
    ),
    "a part of an index": (
        EVIL.replace("()", "(text)").format(type="boolean", value="true").replace("plpgsql", "plpgsql immutable")
        + "create index i on public.drill (id) where public.evil(id)",
        "index i",
    ),
    "an operator": (
        ("create function public.same(text, int) returns boolean language sql immutable as 'select true';"
        "create operator public.=== (leftarg = text, rightarg = int, function = public.same);"
        "alter table public.drill add constraint c check (id operator(public.===) n) not valid"),
        "constraint c",
    ),
    "a policy": (
        EVIL.format(type="boolean", value="true") + "alter table public.drill enable row level security;"
        "create policy p on public.drill using (public.evil())",
        "policy p",
    ),
    "a policy with a query": (
        ("create view public.seen as select 1 as one; grant select on public.seen to public;"
        "create policy p on public.drill using (exists (select from public.seen))"),
        "policy p",
    ),
    "a rule": ("create rule r as on insert to public.drill do also select set_config('role', 'none', true)", "rule r"),
    "a domain": (
        EVIL.format(type="boolean", value="true")
        + "create domain public.odd as int check (public.evil()); alter table public.drill add more public.odd",
        "column more",
    ),
    "a domain in a default": (
        EVIL.format(type="boolean", value="true")
        + "create domain public.odd as int check (public.evil()); alter table public.drill add more int"
        " default (1::public.odd)::int",
        "default of more",
    ),
    "a cast": (
        ("create type public.mood as enum ('sad', 'ok'); create function public.feel(text) returns public.mood"
        " language sql as $$ select 'ok'::public.mood $$;"
        "create cast (text as public.mood) with function public.feel(text) as assignment;"
        "alter table public.drill add more public.mood"),
        "column more",
    ),
    "a child's trigger": (
        (f"{TRIGGER} create table public.child () inherits (public.drill);"
        "create trigger t before update on public.child for each row execute function public.evil()"),
        "trigger t",
    ),
    "a trigger of a table that follows": (
        f"{TRIGGER} {CHILD} create trigger t after delete on public.child for each row execute function public.evil()",
        "trigger t",
    ),
    "a trigger that waits for COMMIT": (
        (f"{TRIGGER} create constraint trigger t after insert on public.drill deferrable initially deferred for each row"
        " execute function public.evil()"),
        "at COMMIT",
    ),
    "a trigger on a table of its own that waits for COMMIT": (
        (f"{TRIGGER} create table public.own (id int); create constraint trigger t after insert on public.own deferrable"
        " initially deferred for each row execute function public.evil(); insert into public.own values (1)"),
        "at COMMIT",
    ),
    "a cursor that waits for COMMIT": (
        EVIL.format(type="int", value="1")
        + "do $d$ declare c cursor for select 1; begin execute 'declare x cursor with hold for select public.evil()'; end $d$",
        "at COMMIT",
    ),
    "names of its own": (
        (f"{TRIGGER} create trigger t before insert on public.drill for each row execute function public.evil();"
        "create table public.pg_trigger (); create function public.to_regclass(text) returns regclass language sql as"
        " 'select null::regclass'; set search_path = public, pg_catalog"),
        "trigger t",
    ),
}  # fmt: skip

PLAIN = """alter table public.drill add seen timestamptz default now(), add uid uuid default gen_random_uuid(),
    add number bigserial, add big text generated always as (upper(id)) stored, add at date default current_date,
    add constraint c check (n >= 0 and length(id) < 100 and id ~ '^r' and n is not null);
    create index i on public.drill (lower(id)) where n > 3;
    create type public.mood as enum ('sad', 'ok'); alter table public.drill add feeling public.mood default 'ok';
    grant usage on sequence public.drill_number_seq to public;
    alter table public.drill enable row level security;
    create policy p on public.drill using (n is not null and current_user <> 'nobody');
    create view public.shown as select id, n from public.drill; grant select on public.shown to public;
    create function public.twice(int) returns int language sql immutable as 'select $1 * 2';
    create table public.seen_by (id text, at timestamptz default clock_timestamp());"""
