"""Tests that no role gains another's rights, by the ledger's own functions or by its objects on tables."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest

from lockstep.adapters.postgres import connect, transaction

ROLES = ("lockstep_planner", "lockstep_stager", "lockstep_committer", "lockstep_partition", "lockstep_reader")
EVIL = """create function {schema}.evil() returns boolean language plpgsql as $$
begin
    if current_user <> '{role}' then
        raise exception 'gained: ran as %', current_user;
    end if;
    return true;
end $$"""
# Types that functions of the ledger declare, or cast to, without a schema.
SHADOWED = (
    *("int8multirange", "int8range", "int4range", "text", "name", "regclass", "uuid", "jsonb"),
    *("interval", "timestamptz", "int4", "int8", "bool", "numeric"),
)
# The statements that run a function of the ledger's, or a trigger, for roles that may run them at all.
ACTS = {
    "covers": "insert into lockstep.coverage values ({s}, '[0,5)', 'skipped')",
    "covers as a batch": "insert into lockstep.coverage values ({s}, '[0,10)', 'batch', {b})",
    "takes coverage away": "delete from lockstep.coverage",
    "frees a claim": "delete from lockstep.claim where batch_id = {b}",
    "moves a position": "update lockstep.stream set position = 10 where stream_id = {s}",
    "commits": "insert into lockstep.commit (batch_id, stream_id, token, definition_hash) values ({b}, {s}, {t}, 'd1')",
    "contributes": "insert into lockstep.contribution select",
    "closes a batch": "update lockstep.batch set state = 'committed', closed_at = now() where batch_id = {b}",
    "delivers": "insert into lockstep.delivery (batch_id, token) values ({b}, {t})",
    "forgets a deletion": "delete from lockstep.tombstone",
    "completes an hour": "insert into lockstep.complete_hour (pipeline, until) values ('orders', now())",
    "owns a table": "insert into lockstep.target_owner (store, target, pipeline) values ('', 'public.t', 'orders')",
    "decides": "insert into lockstep.decision (pipeline, kind, who, why) values ('orders', 'pause', 'me', 'because')",
    "opens changes": "select lockstep.open_changes('public.t', {b}, null)",
    "numbers changes": "select lockstep.net_changes(), lockstep.number_changes()",
    "changes by hand": "select lockstep.manual_change('public.t', 'because')",
    "asks of a feed": "select lockstep.feed_misses('public.t')",
    "asks of coverage": "select lockstep.covers({s}, '[0,10)')",
    "asks of a stream": "select lockstep.is_gone({s}), lockstep.is_replaced({s}), lockstep.read_before({s})",
    "asks of a guarantee": "select lockstep.guarantee_of({b}, {t})",
    "passes over": "select lockstep.pass_over(1, 1, 1)",
    "makes a partition": "select lockstep.make_partition('lockstep.batch', {b}, {t})",
    "drops a partition": "select lockstep.drop_replaced_partition('lockstep.batch', 'lockstep.batch')",
    "attaches": "select lockstep.attach_staged('lockstep.batch', 'lockstep.batch', {b}, {t})",
}


@pytest.fixture
def known(ledger):
    """Makes an attempt under way on ten offsets of a stream."""
    s = ledger.stream(0)
    b = ledger.planned({s: (0, 10)})
    return {"s": s, "b": b, "t": ledger.opened(b)}


@pytest.fixture
def session(database):
    with closing(connect(database)) as conn:
        yield conn


def test_every_function_of_the_ledger_ends_its_path_in_pg_temp(ledger):
    paths = dict(
        ledger.ask(
            "select oid::regprocedure::text, (select string_agg(c, ', ') from unnest(proconfig) c where c ~ '^search_path=')"
            " from pg_proc"
            " where pronamespace in"
            " ('lockstep'::regnamespace, 'lockstep_staging'::regnamespace, 'lockstep_feed'::regnamespace,"
            " 'lockstep_send'::regnamespace, 'lockstep_lake'::regnamespace)"
        )
    )
    assert len(paths) > 30
    assert {name: path for name, path in paths.items() if path != "search_path=pg_catalog, pg_temp"} == {}


@pytest.mark.parametrize("role", ROLES)
def test_a_type_of_the_callers_is_never_taken_for_one_of_postgres(session, known, role):
    gained, passed = [], 0
    with transaction(session, role) as cur:
        cur.execute(EVIL.format(schema="pg_temp", role=role))
        for type_ in SHADOWED:
            cur.execute(f"create domain pg_temp.{type_} as pg_catalog.{type_} check (pg_temp.evil())")
        for act, statement in ACTS.items():
            cur.execute("savepoint before")
            try:
                cur.execute(statement.format(**known))
                cur.execute("set constraints all immediate")
                passed += 1
            except psycopg2.Error as error:
                if "gained" in str(error):
                    gained.append(f"{act}: {str(error).splitlines()[0]}")
            cur.execute("rollback to before; set constraints all deferred")
    assert gained == []
    assert passed > 1, "nothing was allowed: the test shows nothing"


@pytest.fixture
def validated(ledger, known):
    """Makes an attempt that may become a partition of an existing table of the owner's."""
    ledger.ask(
        "update lockstep.attempt set state = 'validated', staged_at = now(), validated_at = now()"
        " where token = %(t)s returning 1",
        **known,
    )
    ledger.ask("create table public.mine (id int, _batch int8 not null) partition by list (_batch); select 1")
    return known | {"staged": "lockstep_staging.attempt_{b}_{t}_x".format(**known)}


ROWS = "create table {staged} (id int, _reason text, _task bigint)"
FILLED = f"{ROWS}; insert into {{staged}} values (1)"
GUARD = """create function lockstep_staging.guard() returns trigger language plpgsql as
    'begin perform lockstep_staging.evil(); return old; end'"""
# The objects that a stager adds to the table that the owner's function attaches. Each runs the stager's code.
HUNG = {
    "a view": "create view {staged} as select 1 as id, null::text as _reason, 1::bigint as _task where lockstep_staging.evil()",
    "a trigger": f"{FILLED}; {GUARD}; create trigger t before delete on {{staged}} for each row"
    " execute function lockstep_staging.guard()",
    "a rule": f"{FILLED}; create rule r as on delete to {{staged}} do also select lockstep_staging.evil()",
    "a policy": f"{FILLED}; alter table {{staged}} enable row level security, force row level security;"
    " create policy p on {staged} using (lockstep_staging.evil())",
    "a constraint": f"{FILLED}; alter table {{staged}} add check (lockstep_staging.evil()) not valid",
    "an index": f"{ROWS}; create function lockstep_staging.same(int) returns int language plpgsql immutable as"
    " 'begin perform lockstep_staging.evil(); return $1; end'; create index on {staged} (lockstep_staging.same(id))",
    "a default": "create table {staged} (id int default random()::int, _reason text, _task bigint)",
    "a type": f"create domain lockstep_staging.odd as int check (lockstep_staging.evil()); {ROWS};"
    " alter table {staged} add more lockstep_staging.odd",
    "a parent": f"create table lockstep_staging.parent (id int); {ROWS};"
    " alter table {staged} inherit lockstep_staging.parent",
}


@pytest.mark.parametrize("hung", HUNG.values(), ids=HUNG)
def test_nothing_that_hangs_on_staged_rows_runs_as_the_owner(session, validated, hung):
    with transaction(session, "lockstep_stager") as cur:
        cur.execute(EVIL.format(schema="lockstep_staging", role="lockstep_stager"))
        cur.execute(hung.format(**validated))
    with pytest.raises(psycopg2.Error) as refused, transaction(session, "lockstep_committer") as cur:
        cur.execute("select lockstep.attach_staged('public.mine', '{staged}', {b}, {t})".format(**validated))
    assert "own_staging" in str(refused.value)


def test_rows_and_nothing_else_are_attached(session, validated):
    with transaction(session, "lockstep_stager") as cur:
        cur.execute(ROWS.format(**validated))
    with transaction(session, "lockstep_committer") as cur:
        cur.execute("select lockstep.attach_staged('public.mine', '{staged}', {b}, {t})".format(**validated))
        cur.execute("select inhrelid::regclass::text from pg_inherits where inhparent = 'public.mine'::regclass")
        assert cur.fetchall() == [("public.mine_1",)]


@pytest.mark.parametrize("role", ["lockstep_stager", "lockstep_committer"])
def test_a_table_of_a_run_roles_own_is_no_target_of_the_owners_functions(session, validated, role):
    theirs = "create table lockstep_staging.theirs (id int, _batch int8 not null) partition by list"
    with transaction(session, role) as cur:
        cur.execute(EVIL.format(schema="lockstep_staging", role=role))
        cur.execute(f"{theirs} (_batch); grant select on lockstep_staging.theirs to lockstep_owner")
        cur.execute(ROWS.format(**validated))
    for act in (
        "select lockstep.attach_staged('lockstep_staging.theirs', '{staged}', {b}, {t})",
        "select lockstep.make_partition('lockstep_staging.theirs', {b}, {t})",
    ):
        with pytest.raises(psycopg2.Error) as refused, transaction(session, "lockstep_committer") as cur:
            cur.execute(act.format(**validated))
        assert "own_target" in str(refused.value)


def test_a_policy_of_the_committers_does_not_run_as_the_owner(session, ledger, known):
    ledger.ask(
        "update lockstep.attempt set state = 'abandoned', closed_at = now();"
        "delete from lockstep.claim; update lockstep.batch set state = 'abandoned', closed_at = now() returning 1"
    )
    with transaction(session, "lockstep_committer") as cur:
        cur.execute(EVIL.format(schema="lockstep_staging", role="lockstep_committer"))
        cur.execute(
            "create table lockstep_staging.mine (_batch int8) partition by list (_batch);"
            "create table lockstep_staging.part partition of lockstep_staging.mine for values in ({b});"
            "insert into lockstep_staging.part values ({b});"
            "alter table lockstep_staging.part enable row level security;"
            "create policy p on lockstep_staging.part using (lockstep_staging.evil());"
            "grant select on lockstep_staging.part to lockstep_owner".format(**known)
        )
    with transaction(session, "lockstep_committer") as cur:
        cur.execute("select lockstep.drop_replaced_partition('lockstep_staging.mine', 'lockstep_staging.part')")
        assert cur.fetchone() == (False,)


def test_a_policy_of_a_targets_author_does_not_run_as_the_owner(session, ledger, known):
    ledger.ask(
        "update lockstep.attempt set state = 'abandoned', closed_at = now();"
        "delete from lockstep.claim; update lockstep.batch set state = 'abandoned', closed_at = now() returning 1"
    )
    with transaction(session, "lockstep_targets") as cur:
        cur.execute(EVIL.format(schema="public", role="lockstep_targets"))
        cur.execute(
            "create table public.mine (_batch int8) partition by list (_batch);"
            "create table public.part partition of public.mine for values in ({b}); insert into public.part values ({b});"
            "alter table public.part enable row level security, force row level security;"
            "create policy p on public.part using (public.evil());".format(**known)
        )
    with pytest.raises(psycopg2.Error) as refused, transaction(session, "lockstep_committer") as cur:
        cur.execute("select lockstep.drop_replaced_partition('public.mine', 'public.part')")
    assert "row-level security" in str(refused.value)
    assert "gained" not in str(refused.value)
