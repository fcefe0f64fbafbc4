"""Deep verify runs each batch of a transform again, and compares rows and rejects with what it makes now."""

from __future__ import annotations

import itertools

import pytest

from lockstep.core.proof.extent import conclusion, more_to_compare, proofs
from lockstep.steps.proof.verify import verify
from lockstep.steps.proof.verify_totals import TOTALS_MATCH_RECORDS
from lockstep.steps.proof.verify_upsert import KEYS_HAVE_NEWEST, ROWS_MATCH_NEWEST
from lockstep.steps.rerun.appended import ROWS_MATCH_TRANSFORM
from lockstep.steps.rerun.rejects import REJECTS_AGAIN
from support.fakes.plain_rerunner import PlainRerunner
from support.oracles.verified import Details
from support.scenes.odd_logs import delete_records

KEYED = 'Upsert("public.drill", key=("id",))'
ADDED = 'Accumulate("public.drill", key=("id",), totals=(Count("records"), Sum("total", of="n")))'
WHOLE = "drill: every check holds. public.drill: coordinates and contents compared with Kafka."
BY_DIGESTS = "The ledger's digests prove contents against accidents, not against a forger."


def doubled(value: dict) -> dict | None:
    """Filters 0, rejects 3, and doubles the others."""
    if value["n"] == 3:
        raise ValueError("three")
    return value | {"n": value["n"] * 2} if value["n"] else None


class Again:
    """The drill with a transform, and deep verify of it."""

    def __init__(self, verified) -> None:
        self.verified, self.here = verified, verified.here
        self.rewritten("# one\n")
        self.here.code = doubled
        self.runner = PlainRerunner(self.here)

    def rewritten(self, text: str) -> None:
        (self.here.drill.home / "drill" / "transform.py").write_text(text)

    def checks(self):
        at = self.here.at
        return verify(at.conn, at.broker, self.here.folder, deep=True, rerunner=self.runner)

    def wrong(self) -> dict[str, str]:
        return Details({check.name: check.detail for check in self.checks() if not check.ok and check.against == "log"})

    def last_line(self) -> str:
        checks = self.checks()
        return conclusion("drill", proofs(["public.drill"], checks), checks)


@pytest.fixture
def again(verified):
    return Again(verified)


def test_rows_that_a_transform_made_are_compared_with_what_it_makes_again(again):
    again.here.drain()

    assert (again.wrong(), again.last_line()) == ({}, WHOLE)
    assert [c.detail for c in again.checks() if c.name == REJECTS_AGAIN] == ["1 rejects of 3 segments"]
    assert [c.detail for c in again.checks() if c.name == ROWS_MATCH_TRANSFORM] == [
        "148 of 148 rows compared with what the transform makes again"
    ]

    again.verified.spoil("update public.drill set n = -1 where id = 'r7'")

    wrong = again.wrong()
    assert list(wrong) == [ROWS_MATCH_TRANSFORM]
    detail = wrong[ROWS_MATCH_TRANSFORM]
    assert "n is -1, its record says 14 (batch 1 was made by definition " in detail
    assert again.here.folder.content_hash()[:16] in detail
    assert [c.batches for c in again.checks() if c.name == ROWS_MATCH_TRANSFORM] == [(1,)]


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("delete from public.drill where id = 'r7'", "the transform makes a row of it, and none is there"),
        (
            """insert into public.drill (id, n, _stream, _offset, _ordinal, _batch)
                select id, n, _stream, _offset, 1, _batch from public.drill where id = 'r7'""",
            "a row is there, and the transform makes none of its record",
        ),
    ],
    ids=["a row is gone", "a row came"],
)
def test_a_row_that_is_gone_or_was_added_is_named(again, statement, what):
    again.here.drain()
    again.verified.spoil(statement)

    assert what in again.wrong()[ROWS_MATCH_TRANSFORM]


def test_a_row_of_nulls_that_is_gone_is_named(again):
    again.here.code = lambda value: {"id": None, "n": None} if value["n"] == 7 else value
    again.here.drain()
    assert again.wrong() == {}

    again.verified.spoil("delete from public.drill where id is null")

    assert "the transform makes a row of it, and none is there" in again.wrong()[ROWS_MATCH_TRANSFORM]


def test_a_record_that_the_transform_rejects_is_compared_as_a_reject(again):
    again.here.drain()

    again.verified.spoil("""update lockstep.reject r set "offset" = (
        select min(d._offset) from public.drill d where d._stream = r.stream_id)""")

    rejects = next(c for c in again.checks() if c.name == REJECTS_AGAIN)
    assert not rejects.ok
    assert "it is a reject now, and was none" in rejects.detail
    assert "it is a reject, and is none now" in rejects.detail


def test_batches_that_other_code_made_are_not_made_and_the_replay_is_named(again, produce):
    again.here.drain()
    made_by = again.here.folder.content_hash()
    again.rewritten("# two\n")
    again.verified.spoil("update public.drill set n = -1 where id = 'r7'")

    checks = again.checks()
    not_compared = [c for c in checks if "not compared" in c.detail]
    assert [(c.is_made, c.detail) for c in not_compared] == 2 * [
        (False, f"not compared: 1 batches that another definition made, batch 1 by {made_by[:16]}")
    ]
    assert again.runner.ran == []
    assert more_to_compare("drill", checks) == "lockstep replay drill --batch 1"

    produce(again.here.drill.topic, [("k", '{"id": "r150", "n": 150}')], partition=0)
    again.here.drain()

    line = again.last_line()
    assert "contents compared with Kafka for 1 of 149 rows, the rest with the ledger" in line or "WRONG" in line
    (contents,) = [c for c in again.checks() if c.name == ROWS_MATCH_TRANSFORM]
    assert (contents.ok, contents.share.compared, contents.share.of) == (True, 1, 149)
    assert contents.left_out.startswith(f"1 batches that another definition made, batch 1 by {made_by[:16]}")


@pytest.mark.long
def test_a_transform_that_makes_other_rows_each_time_is_not_made_and_not_wrong(again):
    numbers = itertools.count()
    again.here.code = lambda value: value | {"n": next(numbers)}
    again.here.drain()

    assert again.wrong() == {}
    (contents,) = [c for c in again.checks() if c.name == ROWS_MATCH_TRANSFORM]
    assert not contents.is_made
    assert "two runs of its transform make different rows" in contents.left_out
    assert "its record says" in contents.left_out
    assert more_to_compare("drill", again.checks()) == "lockstep check drill"


def test_what_differs_where_a_transform_takes_values_from_outside_is_not_made(again):
    again.here.drain()
    again.runner.outside = ("spark_partition_id",)
    assert again.last_line() == WHOLE

    again.verified.spoil("update public.drill set n = -1 where id = 'r7'")

    (contents,) = [c for c in again.checks() if c.name == ROWS_MATCH_TRANSFORM]
    assert (contents.ok, contents.share.is_whole) == (True, False)
    assert "its transform takes spark_partition_id from outside its records; " in contents.left_out


def test_a_batch_that_todays_code_refuses_is_not_made_and_its_preview_is_named(again):
    again.here.drain()

    def refuses(_value: dict) -> None:
        raise ValueError("every record")

    again.here.code = refuses

    checks = again.checks()
    assert [c for c in checks if not c.ok] == []
    contents = next(c for c in checks if c.left_out and c.target)
    assert not contents.is_made
    assert "batch 1: today's code refuses it: " in contents.left_out
    assert more_to_compare("drill", checks) == "lockstep replay drill --batch 1 --preview"


def test_batches_of_which_kafka_has_lost_records_are_counted_as_not_compared(again, produce):
    again.here.drain()
    produce(again.here.drill.topic, [("k", '{"id": "r150", "n": 150}')], partition=0)
    again.here.drain()
    delete_records(again.here.drill.kafka, again.here.drill.topic, 1, partition=0)

    line = again.last_line()

    assert "contents compared with Kafka for 1 of 149 rows, the rest with the ledger" in line


def test_nothing_is_compared_where_nothing_runs_the_transform(again):
    again.here.drain()
    again.runner = None

    checks = again.checks()

    assert [c.left_out for c in checks if c.left_out and c.target] == ["transform.py makes the rows"]
    assert more_to_compare("drill", checks) == "lockstep verify drill --deep"
    assert again.last_line() == (
        "drill: every check that was made holds. "
        f"public.drill: coordinates compared with Kafka, contents compared with the ledger. {BY_DIGESTS}"
    )


@pytest.mark.long
def test_keys_of_a_transform_are_compared_with_the_rows_that_it_makes_again(again, produce):
    again.verified.into(KEYED, "id text, n int", "id", format_='Json("id string, n int", key="id")')
    again.here.drain()
    records = [("a", '{"id": "a", "n": 1}'), ("b", '{"id": "b", "n": 1}'), ("a", None), ("b", '{"id": "b", "n": 2}')]
    produce(again.here.drill.topic, records, partition=0)
    again.here.drain()
    assert (again.wrong(), again.last_line()) == ({}, WHOLE)

    again.verified.spoil("update public.drill set n = -1 where id = 'b'")
    assert "n is -1, its record says 4 (batch 2 was made by" in again.wrong()[ROWS_MATCH_NEWEST]
    again.verified.spoil("delete from public.drill where id = 'b'")
    assert "and its row is missing" in again.wrong()[KEYS_HAVE_NEWEST]


@pytest.mark.long
def test_totals_of_a_transform_are_compared_with_the_rows_that_it_makes_again(again):
    again.verified.into(ADDED, "id text, records int8, total numeric", "id")
    again.here.drain()
    assert (again.wrong(), again.last_line()) == ({}, WHOLE)

    again.verified.spoil(
        "update lockstep.contribution set totals = jsonb_set(totals, '{total}', '1000'::jsonb) where key = '[\"r7\"]'"
    )

    assert "total is 14, counted was 1000" in again.wrong()[TOTALS_MATCH_RECORDS]
