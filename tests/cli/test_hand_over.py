"""Tests `hand-over`, `check` and `new`: another pipeline's table is reported before anything is read."""

from __future__ import annotations

import pytest

from support.scenes.command_line import DEFINITION, assert_refused, assert_wrong_call

OTHER = DEFINITION.replace('name="orders"', 'name="renamed"')
GIVE = ("hand-over", "public.orders", "--from", "orders", "--to", "renamed", "--reason", "a better name")


@pytest.fixture
def two(lockstep, database):
    """Makes two definitions of one table. The ledger knows the first as its owner."""
    lockstep.environ(LOCKSTEP_DSN=database)
    lockstep.define()
    assert lockstep("migrate", "orders").code == 0
    lockstep.define("renamed", init=OTHER)
    return lockstep


def test_a_table_is_handed_over_and_its_new_owner_may_be_set_up(two):
    assert_refused(
        two("migrate", "renamed"),
        "renamed: public.orders belongs to orders",
        "lockstep hand-over public.orders --from orders --to renamed --reason ...",
    )

    said = two(*GIVE)

    assert (said.code, said.err) == (0, "")
    assert "public.orders: belongs to renamed now; orders may write it no longer" in said.out
    assert two("migrate", "renamed").code == 0
    assert_refused(two("migrate", "orders"), "orders: public.orders belongs to renamed")
    back = two("hand-over", "public.orders", "--from", "renamed", "--to", "orders", "--reason", "no", "--json")
    assert back.document == {"store": "", "name": "public.orders", "from": "renamed", "to": "orders", "begins_at": []}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"--to": "orders", "--from": "orders"}, ("orders would hand it over to itself",)),
        ({"--to": "nobody"}, ("no pipeline 'nobody'", "lockstep new nobody")),
        ({"--from": "nobody"}, ("nobody cannot hand it over: it belongs to orders", "--from orders --to renamed")),
        ({"table": "public.other"}, ("renamed: its definition writes public.orders, not public.other",)),
        (
            {"table": "lockstep.sales.orders"},
            ("renamed: its definition writes public.orders, not lockstep.sales.orders",),
        ),
        ({"table": "POLARIS.web.orders"}, ("renamed: its definition writes public.orders, not POLARIS.web.orders",)),
        (
            {"--from": "renamed", "--to": "orders"},
            ("renamed cannot hand it over: it belongs to orders", "migrate orders"),
        ),
    ],
    ids=[
        "itself",
        "an unknown receiver",
        "a stranger",
        "another table",
        "in the lake",
        "elsewhere",
        "the wrong way round",
    ],
)
def test_a_hand_over_that_makes_no_sense_is_refused_in_one_line(two, change, words):
    options = {"--from": "orders", "--to": "renamed", "--reason": "r"} | change
    table = options.pop("table", "public.orders")

    assert_refused(two("hand-over", table, *(word for pair in options.items() for word in pair)), *words)

    assert_refused(two("migrate", "renamed"), "belongs to orders")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("hand-over", "orders", *GIVE[2:]), "not schema.table in lower case"),
        (("hand-over", "public.Orders", *GIVE[2:]), "not schema.table in lower case"),
        (("hand-over", "shop.sales.orders", *GIVE[2:]), "not schema.table in lower case"),
        (("hand-over", "public.orders", "--from", "Or ders", *GIVE[4:]), "not the name of a pipeline"),
        ((*GIVE[:-1], " "), "a reason in words"),
        (GIVE[:-2], "--reason"),
    ],
    ids=["no schema", "capitals", "no catalog", "no name", "an empty reason", "no reason"],
)
def test_a_wrong_call_says_which_argument_is_wrong(two, arguments, words):
    assert_wrong_call(two(*arguments), words)


def test_check_names_the_other_definition_without_a_ledger(lockstep):
    lockstep.define()
    lockstep.define("renamed", init=OTHER)

    said = lockstep("check")

    assert (said.code, said.out) == (1, "")
    for name, other in (("orders", "renamed"), ("renamed", "orders")):
        assert f"{name}: public.orders belongs to {other}" in said.err
        assert f"lockstep hand-over public.orders --from {other} --to {name} --reason ..." in said.err


def test_check_takes_the_ledgers_word_for_who_owns_the_table(two):
    assert two("check", "orders").out.startswith("orders: ok;")
    assert "renamed: public.orders belongs to orders" in two("check", "renamed").err
    assert two(*GIVE).code == 0
    assert two("check", "renamed").out.startswith("renamed: ok;")
    assert "orders: public.orders belongs to renamed" in two("check", "orders").err


def test_definitions_that_name_each_other_share_the_table(lockstep):
    share = 'key=("id",), shared_with=("{}",))'
    lockstep.define(init=DEFINITION.replace('key=("id",))', share.format("renamed")))
    lockstep.define("renamed", init=OTHER.replace('key=("id",))', share.format("orders")))
    assert lockstep("check").code == 0
    lockstep.define("renamed", init=OTHER)
    assert "orders: public.orders belongs to renamed, whose definition does not name orders in shared_with" in (
        lockstep("check").err
    )


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ('"renamed"', "target.shared_with must be a tuple of pipeline names"),
        ('("Re named",)', "'Re named' is not the name of a pipeline"),
        ('("renamed", "renamed")', "'renamed' is there twice"),
        ('("orders",)', "'orders' is this pipeline itself"),
    ],
)
def test_a_bad_shared_with_is_named(lockstep, given, fault):
    lockstep.define(init=DEFINITION.replace('key=("id",))', f'key=("id",), shared_with={given})'))
    said = lockstep("check", "orders")
    assert said.code == 1
    assert fault in said.err


def test_new_writes_no_definition_of_a_table_that_another_one_names(lockstep):
    lockstep.define()
    before = lockstep.tree()

    assert_refused(
        lockstep("new", "renamed", "--topic", "t", "--table", "public.orders"),
        "renamed: public.orders belongs to orders",
        "lockstep new renamed --topic t --table public.ANOTHER; or rename its folder, then lockstep rename orders renamed",
    )

    assert lockstep.tree() == before


def test_doctor_tells_both_pipelines_of_a_table_that_both_have_written(two, database, kafka, findings):
    import psycopg2  # noqa: PLC0415 - this test alone writes into the ledger by hand

    two.environ(LOCKSTEP_KAFKA=kafka)
    conn = psycopg2.connect(database)
    with conn, conn.cursor() as cur:
        cur.execute(
            "set role lockstep_owner; delete from lockstep.target_owner;"
            " create or replace view lockstep.target_writer as select ''::text as store, 'public.orders'::text as target, p as"
            " pipeline from unnest(array['orders', 'renamed']) p"
        )
    conn.close()
    for name, other in (("orders", "renamed"), ("renamed", "orders")):
        found = findings(name)["owner"]
        assert (found["severity"], found["subject"]) == ("problem", f"pipeline {name}")
        assert found["found"] == f"public.orders was written by {other} and by {name}, and no owner is recorded"
        assert f"lockstep hand-over public.orders --from {other} --to {name}" in found["remedy"]
