"""Tests a definition that its table no longer fits: `migrate --propose` and `--apply`, `check`, `doctor`, `run`."""

from __future__ import annotations

import re
from functools import partial

import pytest

from support.fakes.registry import a_record, a_registry
from support.scenes.command_line import DEFINITION, TARGET, assert_away, assert_refused, assert_wrong_call
from support.scenes.drill import ask

WIDER = DEFINITION.replace("id string, n int", "id string, n bigint, channel string")
COLUMNS = """select attname, format_type(atttypid, atttypmod) from pg_attribute
    where attrelid = 'public.orders'::regclass and attnum > 0 and not attisdropped and not starts_with(attname, '_')
    order by attnum"""
ADDED = 'alter table "public"."orders" add column if not exists "channel" text'
WIDENED = 'alter table "public"."orders" alter column "n" type bigint'


@pytest.fixture
def asked(postgres, database):
    """Returns `asked(query)`: the rows of a query in the test's database."""
    return partial(ask, re.sub(r"/\w+$", database[database.rindex("/") :], postgres))


@pytest.fixture
def changed(lockstep, database):
    """Makes a pipeline whose definition has one more column, and a wider one, than its table."""
    lockstep.environ(LOCKSTEP_DSN=database)
    lockstep.define()
    assert lockstep("migrate", "orders").code == 0
    lockstep.define(init=WIDER)
    return lockstep


def digest(lockstep, *options: str) -> str:
    return lockstep("migrate", "orders", "--propose", "--json", *options).document["digest"]


def test_a_new_and_a_wider_column_are_proposed_applied_and_recorded(changed, asked):
    said = changed("migrate", "orders", "--propose")

    assert (said.code, said.err) == (0, "")
    assert f"  {ADDED};\n" in said.out
    assert f"  {WIDENED};\n" in said.out
    assert "every row is written again" in said.out
    shown = digest(changed)
    assert f"Next: lockstep migrate orders --apply {shown} --reason ..." in said.out
    assert asked(COLUMNS) == [("id", "text"), ("n", "integer")]

    applied = changed("migrate", "orders", "--apply", shown, "--reason", "the shop has channels")

    assert (applied.code, applied.err) == (0, "")
    assert "Append to orders/target.sql" in applied.out
    assert f"  {WIDENED};\n  {ADDED};\n" in applied.out
    assert asked(COLUMNS) == [("id", "text"), ("n", "bigint"), ("channel", "text")]
    ((why, told, statements),) = asked(
        "select why, detail ->> 'digest', detail -> 'statements' from lockstep.decision where kind = 'alter'"
    )
    assert (why, told, statements) == ("the shop has channels", shown, [WIDENED, ADDED])


def test_a_second_apply_of_the_same_digest_has_nothing_to_do(changed, asked):
    shown = digest(changed)
    assert changed("migrate", "orders", "--apply", shown, "--reason", "r", "--json").document["changed"]

    again = changed("migrate", "orders", "--apply", shown, "--reason", "r")

    assert (again.code, again.err) == (0, "")
    assert re.search(rf"orders: nothing to do; \S+ at \S+Z ran {shown}", again.out)
    assert asked("select count(*) from lockstep.decision where kind = 'alter'") == [(1,)]
    assert "no safe change is left" in changed("migrate", "orders", "--propose").out


def test_a_table_that_changed_since_refuses_the_digest(changed, asked, admin):
    shown = digest(changed)
    admin("alter table public.orders add column channel text")

    assert_refused(
        changed("migrate", "orders", "--apply", shown, "--reason", "r"),
        f"orders: {shown} is not what is proposed now",
        "lockstep migrate orders --propose",
    )

    assert asked(COLUMNS) == [("id", "text"), ("n", "integer"), ("channel", "text")]


def test_a_definition_that_changed_since_refuses_the_digest(changed, asked):
    shown = digest(changed)
    changed.define(init=WIDER.replace("channel string", "channel string, colour string"))

    assert_refused(
        changed("migrate", "orders", "--apply", shown, "--reason", "r"), f"{shown} is not what is proposed now"
    )

    assert asked(COLUMNS) == [("id", "text"), ("n", "integer")]


def test_changes_of_one_column_alone_are_applied(changed, asked):
    shown = digest(changed, "--column", "channel")
    assert changed("migrate", "orders", "--apply", shown, "--column", "channel", "--reason", "r").code == 0
    assert asked(COLUMNS) == [("id", "text"), ("n", "integer"), ("channel", "text")]
    assert_refused(
        changed("migrate", "orders", "--propose", "--column", "colour"),
        "no safe change of a column colour is proposed; there is: n",
    )


def test_migrate_check_and_doctor_name_the_way_out_of_the_loop(changed, findings, kafka):
    changed.environ(LOCKSTEP_KAFKA=kafka)
    found = "public.orders: column channel of type text is missing; old rows hold null in it"
    again = changed("migrate", "orders")
    assert (again.code, again.err) == (0, "")
    assert f"orders: {found}\n" in again.out
    assert again.out.endswith("Next: lockstep migrate orders --propose\n")
    assert changed("migrate", "orders", "--json").document["next"] == "lockstep migrate orders --propose"

    checked = changed("check", "orders")
    assert (checked.code, checked.out) == (1, "")
    assert f"orders: {found}  Next: lockstep migrate orders --propose" in checked.err

    told = [f for f in changed("doctor", "orders", "--json").document["findings"] if f["check"] == "target"]
    assert [(f["severity"], f["found"].partition(";")[0]) for f in told] == [
        ("problem", "public.orders: column channel of type text is missing"),
        ("warning", "public.orders: column n is integer and becomes bigint"),
    ]
    assert {f["remedy"] for f in told} == {"lockstep migrate orders --propose"}

    assert changed("migrate", "orders", "--apply", digest(changed), "--reason", "r").code == 0
    assert changed("migrate", "orders").out == "orders: public.orders is there\n"
    assert changed("check", "orders").out.startswith("orders: ok;")
    assert "target" not in findings("orders")


def test_check_says_nothing_of_a_table_that_is_not_there_yet(lockstep, database):
    lockstep.environ(LOCKSTEP_DSN=database)
    lockstep.define()
    assert lockstep("check", "orders").out.startswith("orders: ok;")


def test_lines_in_target_sql_give_a_new_database_the_same_table(changed, asked, admin):
    lines = changed("migrate", "orders", "--apply", digest(changed), "--reason", "r", "--json").document["target_sql"]
    changed.define(init=WIDER, target="\n".join([TARGET, *lines]))
    assert changed("migrate", "orders").out == "orders: public.orders is there\n"
    admin("drop table public.orders")
    assert changed("migrate", "orders").out == "orders: public.orders is there\n"
    assert asked(COLUMNS) == [("id", "text"), ("n", "bigint"), ("channel", "text")]


def test_an_index_that_a_table_lacks_is_named_proposed_and_made_by_a_decision(lockstep, database, kafka, asked, admin):
    lockstep.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA=kafka)
    lockstep.define()
    assert lockstep("migrate", "orders").out == "orders: public.orders is there\n"
    indexes = "select indexname from pg_indexes where tablename = 'orders' and indexname <> 'orders_pkey'"
    assert asked(indexes) == [("orders_by_offset",)]
    admin("drop index public.orders_by_offset")
    admin("insert into public.orders values ('a', 1, 1, 0, 0, 1)")
    found = "public.orders: no index on (_stream, _offset), so lineage and a replay read the whole table"

    assert f"orders: {found}" in lockstep("migrate", "orders").out
    told = [f for f in lockstep("doctor", "orders", "--json").document["findings"] if f["check"] == "target"]
    assert [(f["severity"], f["found"].startswith(found)) for f in told] == [("warning", True)]
    assert told[0]["remedy"] == "lockstep migrate orders --propose"
    assert asked(indexes) == []
    said = lockstep("migrate", "orders", "--apply", digest(lockstep), "--reason", "replays are slow")

    assert said.out.endswith("Next: lockstep run orders\n")
    statement = 'create index if not exists "orders_by_offset" on "public"."orders" (_stream, _offset)'
    assert f"  {statement};\n" in said.out
    assert asked(indexes) == [("orders_by_offset",)]
    assert lockstep("migrate", "orders").out == "orders: public.orders is there\n"
    assert lockstep("check", "orders").out.startswith("orders: ok;")


UNSAFE = {
    "a narrower type": ("id string, n boolean", TARGET, "public.orders.n is integer, and cannot hold each boolean"),
    "a column that is gone": (
        "id string",
        TARGET,
        "to drop it: alter table public.orders drop column if exists n, in target.sql",
    ),
    "another name": ("id string, m int", TARGET, "to rename it: alter table public.orders rename column n to m"),
    "not null": (
        "id string",
        TARGET.replace("n int,", "n int not null,"),
        "alter table public.orders alter column n drop not null, in target.sql",
    ),
    "a key of another type": (
        "id bigint, n int",
        TARGET.replace("id text", "id int"),
        "public.orders.id is integer, and cannot hold each bigint  Recipe: give the new type another column name",
    ),
    "no unique key": ("id string, n int", TARGET.replace("primary key", "not null"), "has no unique index on (id)"),
    "no coordinates": (
        "id string, n int",
        TARGET.replace("_ordinal int4 not null,", ""),
        "public.orders needs a column _ordinal of type integer",
    ),
}


@pytest.mark.parametrize(("columns", "target", "words"), UNSAFE.values(), ids=UNSAFE)
def test_what_is_not_safe_is_explained_with_its_recipe_and_never_run(lockstep, database, asked, columns, target, words):
    lockstep.environ(LOCKSTEP_DSN=database)
    lockstep.define(target=target)
    lockstep("migrate", "orders")
    lockstep.define(init=DEFINITION.replace("id string, n int", columns))
    before = asked(COLUMNS)

    said = lockstep("migrate", "orders", "--propose")

    assert (said.code, said.err) == (0, "")
    assert ["  Recipe: " in line for line in said.out.splitlines() if words in line] == [True]
    document = lockstep("migrate", "orders", "--propose", "--json").document
    run = lockstep("migrate", "orders", "--apply", document["digest"], "--reason", "r")
    if document["changes"]:
        assert run.code == 0
        assert set(asked(COLUMNS)) >= set(before)
    else:
        assert_refused(run, "holds no safe change to run")
        assert asked(COLUMNS) == before


TYPES = [
    ("smallint", "int", "integer"),
    ("integer", "bigint", "bigint"),
    ("real", "double", "double precision"),
    ("varchar(5)", "string", "text"),
    ("numeric(5,2)", "decimal(9,2)", "numeric(9,2)"),
    ("numeric(5,2)", "decimal(6,4)", "numeric(7,4)"),
    ("bigint", "int", None),
    ("text", "string", None),
    ("double precision", "float", None),
    ("numeric(9,4)", "decimal(5,2)", None),
    ("text", "int", None),
    ("date", "timestamp", None),
    ('text collate "C"', "string", None),
    ('varchar(5) collate "C"', "string", None),
]


@pytest.mark.parametrize(("held", "decoded", "wanted"), TYPES, ids=[f"{h} for {d}" for h, d, _ in TYPES])
def test_a_type_is_widened_only_where_every_value_stays_as_it_is(lockstep, database, asked, held, decoded, wanted):
    lockstep.environ(LOCKSTEP_DSN=database)
    lockstep.define(init=DEFINITION.replace("n int", f"n {decoded}"), target=TARGET.replace("n int,", f"n {held},"))
    assert lockstep("migrate", "orders").code == 0
    document = lockstep("migrate", "orders", "--propose", "--json").document
    assert [change["wanted"] for change in document["changes"]] == ([wanted] if wanted else [])
    if wanted:
        assert lockstep("migrate", "orders", "--apply", document["digest"], "--reason", "r").code == 0
        assert dict(asked(COLUMNS))["n"] == wanted
        assert lockstep("migrate", "orders", "--propose", "--json").document["changes"] == []


def test_a_text_with_a_greatest_length_is_not_told_unasked(lockstep, database):
    lockstep.environ(LOCKSTEP_DSN=database)
    lockstep.define(init=DEFINITION.replace("n int", "n string"), target=TARGET.replace("n int,", "n varchar(5),"))
    assert lockstep("migrate", "orders").out == "orders: public.orders is there\n"
    assert lockstep("check", "orders").out.startswith("orders: ok;")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--propose", "--apply", "0" * 64, "--reason", "r"), "one of them at a time"),
        (("--apply", "0" * 64), "--reason"),
        (("--apply", "0" * 64, "--reason", " "), "a reason in words"),
        (("--apply", "xyz", "--reason", "r"), "not a digest"),
        (("--apply", "0" * 15 + "\n", "--reason", "r"), "not a digest"),
        (("--reason", "r"), "belongs to --apply"),
        (("--column", "n"), "belongs to --propose"),
        (("--propose", "--column", 'n"; drop'), "not the name of a column"),
    ],
    ids=[
        "both",
        "no reason",
        "an empty reason",
        "no digest",
        "a line",
        "a reason alone",
        "a column alone",
        "no column",
    ],
)
def test_a_wrong_call_says_which_option_is_wrong(changed, asked, arguments, words):
    assert_wrong_call(changed("migrate", "orders", *arguments), words)
    assert asked(COLUMNS) == [("id", "text"), ("n", "integer")]


def test_the_pipeline_must_be_named(changed):
    for options in (("--propose",), ("--apply", "0" * 64, "--reason", "r")):
        assert_wrong_call(changed("migrate", *options), "name the pipeline")


def test_what_cannot_be_done_is_refused_in_one_line_and_changes_nothing(changed, asked, admin, monkeypatch):
    apply = ("migrate", "orders", "--apply", digest(changed), "--reason", "r")
    assert_refused(changed("migrate", "nobody", "--propose"), "no pipeline 'nobody'")
    assert_refused(changed(*apply[:3], "0" * 64, *apply[4:]), f"{'0' * 64} is not what is proposed now")

    admin("create view public.seen as select n from public.orders")
    assert_refused(changed(*apply), "public.orders.n: cannot alter type of a column used by a view", "--propose")
    admin("drop view public.seen")

    admin("alter table public.orders owner to postgres")
    assert_refused(changed(*apply), "lockstep_targets may not alter public.orders", "owner to lockstep_targets")
    admin("alter table public.orders owner to lockstep_targets")

    monkeypatch.setenv("PGOPTIONS", "-c default_transaction_read_only=on")
    assert_away(changed(*apply), "is read-only", "default_transaction_read_only")
    monkeypatch.delenv("PGOPTIONS")

    assert asked(COLUMNS) == [("id", "text"), ("n", "integer")]
    assert asked("select count(*) from lockstep.decision where kind = 'alter'") == [(0,)]
    admin("drop table public.orders")
    assert_refused(
        changed("migrate", "orders", "--propose"), "target public.orders is not there", "lockstep migrate orders"
    )
    assert_refused(changed(*apply), "target public.orders is not there")


def test_a_login_of_a_run_may_see_the_proposal_and_may_not_apply_it(changed, login, asked):
    shown = digest(changed)
    login()
    assert digest(changed) == shown
    assert_refused(
        changed("migrate", "orders", "--apply", shown, "--reason", "r"),
        "this login may not alter targets",
        "lockstep_targets",
    )
    assert asked(COLUMNS) == [("id", "text"), ("n", "integer")]


def test_another_pipelines_table_is_not_altered(changed, asked):
    changed.define("renamed", init=WIDER.replace('name="orders"', 'name="renamed"'))
    shown = changed("migrate", "renamed", "--propose", "--json").document["digest"]
    assert_refused(
        changed("migrate", "renamed", "--apply", shown, "--reason", "r"), "renamed: public.orders belongs to orders"
    )
    assert asked(COLUMNS) == [("id", "text"), ("n", "integer")]


def test_code_of_an_author_does_not_run_by_a_change(changed, asked, admin):
    admin(
        "create function public.evil(int) returns boolean language plpgsql as"
        " $$ begin perform set_config('role', 'lockstep_owner', false); return true; end $$;"
        " alter function public.evil(int) owner to lockstep_targets;"
        " alter table public.orders add constraint evil check (public.evil(n))"
    )
    assert_refused(
        changed("migrate", "orders", "--apply", digest(changed), "--reason", "r"),
        "constraint evil on public.orders runs public.evil(integer), and the change would run it",
    )
    assert asked(COLUMNS) == [("id", "text"), ("n", "integer")]


AVRO = DEFINITION.replace("Json", "Avro")


@pytest.fixture
def registered(lockstep, database):
    """Makes a pipeline of Avro whose table and definition agree, beside a registry."""
    lockstep.environ(LOCKSTEP_DSN=database)
    lockstep.define(init=AVRO)
    assert lockstep("migrate", "orders").code == 0
    with a_registry() as registry:
        lockstep.environ(LOCKSTEP_REGISTRY=registry.url)
        yield registry


def test_a_schema_that_grows_narrows_and_loses_a_field_is_told_with_the_line_to_paste(lockstep, registered, asked):
    topic = "orders.v1"
    registered.register(f"{topic}-value", a_record(("id", "string"), ("n", "long"), ("note", ["null", "string"])))

    said = lockstep("migrate", "orders", "--propose")

    where = f"orders: subject {topic}-value, schema id 1: field"
    assert (said.code, said.err) == (0, "")
    assert f"{where} n is long, and int cannot hold it: such a batch stops: paste n bigint\n" in said.out
    assert f"{where} note is string and has no column: paste note string\n" in said.out
    assert 'orders: the schema of the definition would be "id string, n bigint, note string"; nothing is' in said.out
    assert "no safe change is left to propose" in said.out
    assert asked(COLUMNS) == [("id", "text"), ("n", "integer")]

    lockstep.define(init=AVRO.replace("id string, n int", "id string, n bigint, note string"))
    document = lockstep("migrate", "orders", "--propose", "--json").document
    assert document["registry"]["fields"] == []
    assert [each["column"] for each in document["changes"]] == ["n", "note"]
    registered.register(f"{topic}-value", a_record(("n", "int")))
    later = lockstep("migrate", "orders", "--propose", "--json").document
    assert [(each["kind"], each["field"], each["line"]) for each in later["registry"]["fields"]] == [
        ("lost", "id", None),
        ("narrowed", "n", None),
        ("lost", "note", None),
    ]
    assert later["digest"] == document["digest"], "nothing of the registry is run"
    assert lockstep("migrate", "orders", "--apply", later["digest"], "--reason", "r").code == 0
    assert asked(COLUMNS) == [("id", "text"), ("n", "bigint"), ("note", "text")]


def test_a_registry_that_does_not_answer_or_is_not_named_stops_no_proposal(lockstep, registered):
    registered.trouble = 503, b"no"
    lockstep.environ(LOCKSTEP_REGISTRY_CONFIG='{"max.retries": 0}')
    said = lockstep("migrate", "orders", "--propose")
    assert said.code == 0
    assert "orders: the registry's newest schema was not compared: schema registry http" in said.out
    lockstep.environ(LOCKSTEP_REGISTRY="")
    assert "was not compared: LOCKSTEP_REGISTRY is not set" in lockstep("migrate", "orders", "--propose").out


def test_a_table_that_was_dropped_after_commits_is_made_anew_and_its_loss_is_told(lockstep, here, postgres):
    here.drain()
    assert lockstep("migrate", "drill", "--json").document["made_anew"] == []
    ask(re.sub(r"/\w+$", here.drill.dsn[here.drill.dsn.rindex("/") :], postgres), "drop table public.drill; select 1")

    said = lockstep("migrate", "drill")

    assert said.code == 0
    told = "drill: public.drill was gone and is made anew: the rows that batches have committed are not in it"
    assert f"{told}  Next: lockstep verify drill" in said.out.splitlines()
    assert "NO  rows are all there" in lockstep("verify", "drill").out
