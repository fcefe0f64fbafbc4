"""Tests that verify finds faults in an appended table.

It counts all of them, names the first ones, and says what it compared.
"""

from __future__ import annotations

import pytest

from lockstep.core.errors import Refusal
from lockstep.core.proof.verification import MOST_NAMED_ERRORS
from lockstep.ledger.migrate import migrate_target
from lockstep.ledger.proof.verify_contents import CONTENTS_AS_COMMITTED as BY_DIGEST
from lockstep.steps.proof.verify_append import ROWS_MATCH_RECORDS

ONCE = "every record exactly once"
COLUMNS, KEY = "id text, n int", "_stream, _offset, _ordinal"
BY_BATCH = "partition by list (_batch)"
COPY = """insert into public.drill (id, n, _stream, _offset, _ordinal, _batch)
    select id, n, _stream, {} from public.drill where n = 7"""
SPOILED = [
    ("a row is gone", "delete from public.drill where n = 7", "rows are all there"),
    ("a row is doubled", COPY.format("_offset, 1, _batch"), "rows are all there"),
    ("a row names another batch", "update public.drill set _batch = 99 where n = 7", "every row is its batch's"),
    ("a row was swapped", "update public.drill set _offset = 100000 where n = 7", ONCE),
    (
        "a row is of no stream",
        COPY.format("_offset, 0, _batch").replace("n, _stream, _offset, 0", "n, 999, _offset, 0"),
        "every row is its batch's",
    ),
    (
        "a reject appeared",
        """insert into lockstep.reject (stream_id, "offset", batch_id, reason)
           select _stream, 99999, _batch, 'x' from public.drill limit 1""",
        "rejects are all there",
    ),
]


@pytest.fixture(params=["a plain table", "by batch"])
def appended(request, verified):
    """Returns the drill's 150 records, appended to a plain table, and to one that is partitioned by batch."""
    if request.param == "by batch":
        verified.table(COLUMNS, f"{KEY}, _batch", BY_BATCH)
    verified.here.drain()
    assert verified.wrong() == {}
    return verified


@pytest.mark.parametrize(("statement", "check"), [s[1:] for s in SPOILED], ids=[s[0] for s in SPOILED])
def test_what_was_spoiled_is_found(verified, statement, check):
    verified.here.drain()
    assert verified.wrong() == {}

    verified.spoil(statement)

    found = verified.wrong()
    assert check in found
    assert all(found.values())


def where(verified, n: int) -> str:
    """Returns where the record of this number was read."""
    asked = "select s.topic, s.partition, _offset from public.drill join lockstep.stream s on stream_id = _stream where n = %s"
    return "{}-{} offset {}".format(*verified.here.drill.ask(asked, n)[0])


def test_deep_names_a_row_that_is_missing(appended):
    (_, _, offset) = where(appended, 7).rpartition(" ")
    appended.spoil("delete from public.drill where n = 7")

    assert appended.wrong()[ONCE] == f"batch 1: offset {offset} has neither row nor reject"


def test_deep_names_a_row_that_is_doubled(appended):
    (_, _, offset) = where(appended, 7).rpartition(" ")
    appended.spoil(COPY.format("_offset, 1, _batch"))

    assert appended.wrong()[ONCE] == f"batch 1: offset {offset} has 2 rows"


def test_deep_names_a_row_that_is_doubled_where_no_index_keeps_rows_apart(verified):
    verified.here.drain()
    verified.spoil("alter table public.drill drop constraint drill_pkey")
    verified.spoil(COPY.format("_offset, 0, _batch"))

    assert "has 2 rows" in verified.wrong()[ONCE]


def test_deep_names_a_row_that_was_put_in_by_hand(appended, produce):
    produce(appended.here.drill.topic, [("k", '{"id": "aborted", "n": 1}')], partition=0, end="abort")
    produce(appended.here.drill.topic, [("k", '{"id": "r150", "n": 150}')], partition=0)
    appended.here.drain()
    assert appended.wrong() == {}
    (_, _, offset) = where(appended, 150).rpartition(" ")
    made = COPY.format("_offset - 2, 0, _batch").replace("n = 7", "n = 150")
    appended.spoil(made)

    said = f"offset {int(offset) - 2} is in the target or the rejects and not in the log"
    assert appended.wrong()[ONCE] == f"batch 2: {said}"


def test_deep_names_a_row_that_was_changed(appended):
    appended.spoil("update public.drill set n = -1, id = null where n = 7")

    found = appended.wrong()
    assert "are not those that it committed" in found.pop(BY_DIGEST)
    assert found == {
        ROWS_MATCH_RECORDS: f"{where(appended, -1)}: id is null, its record says r7, n is -1, its record says 7"
    }
    assert appended.proved() == ("log", "wrong")
    assert appended.wrong(deep=False).keys() == {BY_DIGEST}


def test_rows_that_are_wrong_are_counted_and_the_first_are_named(appended):
    appended.spoil("update public.drill set n = -1 where n >= 100")
    appended.spoil("delete from public.drill where n between 0 and 29")

    found = appended.wrong()

    assert found[ROWS_MATCH_RECORDS].startswith("50 are wrong: ")
    assert found[ROWS_MATCH_RECORDS].count("its record says") == MOST_NAMED_ERRORS
    assert found[ROWS_MATCH_RECORDS].endswith("; and 40 more")
    missing = [check for check in appended.checks() if check.name.endswith(ONCE)]
    assert (
        sum(int(check.detail.split()[0]) if "are wrong" in check.detail else 1 for check in missing if not check.ok)
        == 30
    )


def test_every_check_counts_what_is_wrong_also_without_deep(verified):
    verified.here.drain()
    verified.spoil("update public.drill set _batch = 99 where n < 30")

    found = verified.wrong(deep=False)

    assert found["every row is its batch's"].startswith("30 are wrong: ")
    assert found["every row is its batch's"].count("names batch 99") == MOST_NAMED_ERRORS


def test_a_reject_whose_record_is_a_row_and_a_row_whose_record_is_none_are_named(verified, produce):
    produce(verified.here.drill.topic, [("k", b"\xff")], partition=0)
    verified.here.drain()
    assert verified.wrong() == {}
    verified.spoil("""with j as (delete from lockstep.reject returning stream_id, "offset", batch_id)
        insert into public.drill select 'made', 1, stream_id, "offset", 0, batch_id from j""")
    verified.spoil("""with t as (delete from public.drill where n = 7 returning _stream, _offset, _batch)
        insert into lockstep.reject (stream_id, "offset", batch_id, reason) select *, 'made' from t""")

    said = verified.wrong()[ROWS_MATCH_RECORDS]

    assert "a row is there, and its record decodes to none" in said
    assert "it is a reject, and its record decodes to a row" in said
    assert said.startswith("2 are wrong")


def test_the_last_line_says_what_was_compared_with_what(verified):
    verified.here.drain()

    assert verified.last_line(deep=False) == (
        "drill: every check holds. public.drill: coordinates and contents compared with the ledger."
        " The ledger's digests prove contents against accidents, not against a forger."
    )
    assert (
        verified.last_line() == "drill: every check holds. public.drill: coordinates and contents compared with Kafka."
    )
    verified.spoil("update public.drill set n = -1 where n = 7")
    checks = len(verified.checks())
    assert verified.last_line() == (
        f"drill: NOT every check holds: 2 of {checks} fail. "
        "public.drill: coordinates compared with Kafka, contents WRONG."
    )


def test_contents_that_a_transform_made_are_not_compared_and_that_is_said(verified):
    verified.here.code = lambda value: value | {"n": value["n"] * 2}
    verified.here.drain()

    assert verified.wrong() == {}
    assert verified.proved() == ("log", "ledger")
    assert verified.left_out() == "transform.py makes the rows"


def test_batches_that_another_definition_decoded_are_not_compared_and_that_is_said(verified, produce):
    verified.here.drain()
    verified.here.rewrite('Json("id string, n int")', 'Json("id string, n int, more string")')
    verified.spoil("alter table public.drill add column more text")
    assert (verified.wrong(), verified.proved()) == ({}, ("log", "ledger"))

    produce(verified.here.drill.topic, [("k", '{"id": "r150", "n": 150, "more": "new"}')])
    verified.here.drain()

    assert (verified.wrong(), verified.proved()) == ({}, ("log", "part"))
    assert verified.last_line().endswith(
        "contents compared with Kafka for 1 of 151 rows, the rest with the ledger. "
        "The ledger's digests prove contents against accidents, not against a forger."
    )
    assert verified.left_out() == "1 batches that another definition decoded"
    verified.spoil("update public.drill set more = 'old' where n = 150")
    assert "more is old, its record says new" in verified.wrong()[ROWS_MATCH_RECORDS]


def test_a_trigger_that_may_change_rows_ends_the_comparison_of_contents_and_no_other(verified):
    verified.spoil("""create function public.shout() returns trigger language plpgsql as $$
        begin new.id = upper(new.id); return new; end $$;
        create trigger shout before insert on public.drill for each row execute function public.shout()""")
    verified.here.drain()

    assert verified.wrong() == {}
    assert verified.proved() == ("log", "ledger")
    assert "a trigger or a rule of public.drill" in verified.left_out()


def test_rows_of_another_pipeline_in_the_table_are_said_to_be_not_looked_at(verified):
    verified.here.drain()
    verified.spoil("""with other as (
        insert into lockstep.stream
            (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset, position)
        values ('other', 'c', 't', 't', 0, 0, 0, 0, 0) returning stream_id)
        insert into public.drill select id, n, stream_id, _offset, 0, 1 from public.drill, other where n = 7""")

    assert verified.wrong() == {}
    assert verified.left_out(deep=False) == "1 rows of pipeline other"


OTHERS = [
    ("another table", 'Append("public.drill")', 'Append("public.elsewhere")', "its target was"),
    ("another topic", 'topic="', 'topic="other-', "its topic was"),
    ("another guarantee", "limits=", "guarantee=PerPartition(), limits=", "its guarantee was"),
    ("another kind", 'Append("public.drill")', 'Upsert("public.drill", key=("id",))', "its target was"),
]


@pytest.mark.parametrize(("old", "new", "said"), [o[1:] for o in OTHERS], ids=[o[0] for o in OTHERS])
@pytest.mark.parametrize("deep", [False, True], ids=["plain", "deep"])
def test_a_definition_that_is_not_the_ledgers_is_refused(verified, topic, old, new, said, deep):
    verified.here.drain()
    verified.here.rewrite("import Append,", "import Append, PerPartition, Upsert,")
    file = verified.here.drill.home / "drill" / "target.sql"
    file.write_text(file.read_text() + file.read_text().replace("public.drill", "public.elsewhere"))
    if said == "its topic was":
        old, new = verified.here.drill.topic, topic()
    verified.here.rewrite(old, new)
    migrate_target(verified.here.at.conn, verified.here.folder)

    with pytest.raises(Refusal, match=said):
        verified.checks(deep=deep)


def test_a_table_that_is_not_there_is_named_with_the_command_that_makes_it(verified):
    verified.here.drain()
    verified.spoil("drop table public.drill")

    with pytest.raises(Refusal, match=r"target public\.drill is not there") as refused:
        verified.checks(deep=False)
    assert refused.value.next_command == "lockstep migrate drill"
