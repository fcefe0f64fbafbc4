"""Tests `changes`: the entries of a feed, its snapshot, and what is asked for in vain."""

from __future__ import annotations

import pytest

from support.scenes.command_line import DEFINITION, assert_refused, assert_wrong_call

FED = DEFINITION.replace("Json, Pipeline", "Feed, Json, Pipeline").replace('key=("id",))', 'key=("id",), feed=Feed())')


@pytest.fixture
def fed(lockstep, database, admin):
    """Makes a pipeline whose table has a feed of three changes, all by a person."""
    lockstep.environ(LOCKSTEP_DSN=database)
    lockstep.define(init=FED)
    assert lockstep("migrate", "orders").code == 0
    for statement in (
        "insert into public.orders values ('a', 1, 1, 0, 0, 0), ('b', 1, 1, 1, 0, 0)",
        "update public.orders set n = 7 where id = 'a'",
        "delete from public.orders where id = 'b'",
    ):
        admin(f"begin; select lockstep.manual_change('public.orders', 'by hand'); {statement}; commit")
    return lockstep


def test_each_change_has_its_number_and_the_row_before_and_after(fed):
    document = fed("changes", "orders", "--json").document
    assert (document["target"], document["kept_from"], document["next_number"], document["last_seq"]) == (
        "public.orders", 0, 4, 3,
    )  # fmt: skip
    assert [(c["number"], c["seq"], c["change"], c["kind"], c["batch"]) for c in document["changes"]] == [
        (0, 1, "insert", "manual", None),
        (1, 1, "insert", "manual", None),
        (2, 2, "update", "manual", None),
        (3, 3, "delete", "manual", None),
    ]
    update = document["changes"][2]
    assert (update["key"], update["before"]["n"], update["after"]["n"]) == ({"id": "a"}, 1, 7)
    assert document["changes"][3]["after"] is None
    said = fed("changes", "orders", "--from", "2", "--limit", "1")
    assert (said.code, said.err) == (0, "")
    assert '{"id": "a", "n": [1, 7]}' in said.out
    assert "by hand" not in said.out
    assert "public.orders: changes [0, 4) are kept" in said.out
    assert [c["number"] for c in fed("changes", "orders", "--limit", "2", "--json").document["changes"]] == [2, 3]


def test_the_snapshot_is_the_table_and_says_where_to_go_on(fed):
    document = fed("changes", "orders", "--snapshot", "--json").document
    assert [(row["id"], row["n"]) for row in document["rows"]] == [("a", 7)]
    assert document["next_number"] == 4
    assert fed("changes", "orders", "--from", "4", "--json").document["changes"] == []
    assert "public.orders: 1 rows; go on at number 4" in fed("changes", "orders", "--snapshot").out


def test_decimals_of_changes_and_of_the_snapshot_are_exact_texts_and_floats_stay_numbers(fed, admin):
    admin("alter table public.orders add column amount numeric(30,10), add column share float8, add column rest jsonb")
    assert fed("migrate", "orders").code == 0
    values = """('c', 12345678901234567890.0123456789, 0.1, '{"deep": [12345678901234567890.0123456789, 0.5]}'::jsonb),
        ('d', 3, 2, null)"""
    insert = f"""insert into public.orders (id, amount, share, rest, _stream, _offset, _ordinal, _batch)
        select v.*, 1, 9, 0, 0 from (values {values}) v"""
    admin(f"begin; select lockstep.manual_change('public.orders', 'by hand'); {insert}; commit")
    large = "12345678901234567890.0123456789"
    expected = {"c": (large, 0.1, {"deep": [large, 0.5]}), "d": ("3.0000000000", 2, None)}

    read = fed("changes", "orders", "--from", "4", "--json").document["changes"]
    held = fed("changes", "orders", "--snapshot", "--json").document["rows"]
    for found in ([each["after"] for each in read], [row for row in held if row["id"] in expected]):
        assert {row["id"]: (row["amount"], row["share"], row["rest"]) for row in found} == expected
    assert f'"amount": "{large}"' in fed("changes", "orders").out


def test_a_number_that_is_not_there_is_refused_in_one_line(fed, admin):
    assert_refused(
        fed("changes", "orders", "--from", "9"),
        "orders: the next change of public.orders gets number 4, 9 is asked for",
        "lockstep changes orders --target public.orders --from 4",
    )
    admin("update lockstep.feed set kept_from = 3")
    assert_refused(
        fed("changes", "orders", "--from", "2"),
        "orders: the changes of public.orders below number 3 are trimmed, 2 is asked for",
        "lockstep changes orders --target public.orders --snapshot",
    )


def test_a_target_without_a_feed_is_refused_and_a_wrong_call_is_one_line(fed):
    assert_refused(
        fed("changes", "orders", "--target", "public.other"), "orders: 'public.other' has no feed: public.orders"
    )
    assert_wrong_call(fed("changes", "orders", "--snapshot", "--limit", "3"), "--snapshot: shows rows")


def test_two_definitions_of_one_table_have_the_same_feed(fed):
    shared = FED.replace("feed=", 'shared_with=("more",), feed=')
    fed.define(init=shared)
    other = shared.replace('"orders"', '"more"').replace('("more",)', '("orders",)')
    fed.define("more", init=other.replace("Feed()", "Feed('1 day')"))
    assert_refused(
        fed("migrate", "more"),
        "more: its feed of public.orders is Feed(keep='1 day'), and orders says Feed(keep='7 days'): one table has one feed",
    )
    assert fed("migrate", "orders").code == 1
    fed.define("more", init=other.replace(", feed=Feed()", ""))
    assert_refused(
        fed("migrate", "orders"), "orders: its feed of public.orders is Feed(keep='7 days'), and more says None"
    )
    (fed.pipelines / "more" / "__init__.py").unlink()
    assert fed("migrate", "orders").code == 0
    fed.define("more", init=other.replace(", feed=Feed()", ""))
    assert_refused(fed("migrate", "more"), "more: target public.orders has a feed and the definition has none")
    fed.define("more", init=other)
    assert fed("migrate", "orders").code == 0
    assert fed("migrate", "more").code == 0


def test_the_doctor_names_a_table_whose_changes_are_not_caught(fed, kafka, admin):
    fed.environ(LOCKSTEP_KAFKA=kafka)
    found = [f for f in fed("doctor", "orders", "--json").document["findings"] if "feed" in f["found"]]
    assert found == []
    admin("alter table public.orders disable trigger only_by_commit_delete")
    found = [f for f in fed("doctor", "orders", "--json").document["findings"] if "feed" in f["found"]]
    assert [(f["severity"], f["check"], f["subject"], f["found"], f["remedy"]) for f in found] == [
        (
            "problem",
            "target",
            "table public.orders",
            "feed: its changes are not caught: a trigger is gone or disabled",
            "lockstep migrate orders",
        )
    ]
    assert fed("migrate", "orders").code == 0
    assert not [f for f in fed("doctor", "orders", "--json").document["findings"] if "feed" in f["found"]]


def test_a_feed_of_a_table_with_rows_says_where_to_begin(lockstep, database, admin):
    lockstep.environ(LOCKSTEP_DSN=database)
    lockstep.define()
    assert lockstep("migrate", "orders").code == 0
    admin("insert into public.orders values ('a', 1, 1, 0, 0, 0)")
    lockstep.define(init=FED)
    begins = (
        "orders: the feed of public.orders begins behind the rows that are there: lockstep changes orders --snapshot\n"
    )
    assert begins in lockstep("migrate", "orders").out
    assert begins not in lockstep("migrate", "orders").out
    assert len(lockstep("changes", "orders", "--snapshot", "--json").document["rows"]) == 1
