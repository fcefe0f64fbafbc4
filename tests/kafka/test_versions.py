"""Tests a history over Kafka, from records and deletions to versions, and what proves, previews, traces and erases them."""

from __future__ import annotations

import json
import shutil

import pytest

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import READER, transaction
from lockstep.core.errors import Refusal
from lockstep.core.planning.decisions import Caller
from lockstep.ledger.views.tracing import outcome_of_record, record_of_row
from lockstep.steps.batch.run import run
from lockstep.steps.changes.hand_over import hand_over
from lockstep.steps.proof import verify_append as append
from lockstep.steps.proof.verify import verify
from lockstep.targets.proof import versioned
from support.fakes.plain_engine import PlainEngine
from support.scenes.erasing import erase_key
from support.scenes.here import ME
from support.scenes.odd_logs import grow

COLUMNS = "id text not null, n int, valid_from timestamptz not null, valid_until timestamptz, _deleted boolean not null"
VERSIONS = """select id, n, _deleted, case when _deleted then valid_until = valid_from
        else valid_until is not distinct from lead(valid_from) over (partition by id order by _offset) end
    from public.drill where id in ('a', 'b', 'c') order by id, _offset"""
CURRENT = "select id, n from public.drill where valid_until is null and id in ('a', 'b', 'c') order by id"


@pytest.fixture
def versions(verified, produce):
    """Returns the drill as a history. `put((id, n), ...)` commits more records of one partition."""
    topic = verified.here.drill.topic
    verified.into(
        'History("public.drill", key=("id",))',
        COLUMNS,
        "_stream, _offset, _ordinal",
        format_='Json("id string, n int", key="id")',
    )

    def put(*values: tuple[str, int | None]) -> None:
        records = [(key, None if n is None else json.dumps({"id": key, "n": n})) for key, n in values]
        produce(topic, records, partition=0)
        verified.here.drain()

    verified.put = put
    verified.put()
    verified.end = verified.here.drill.ask("select position from lockstep.stream where partition = 0")[0][0]
    put(("a", 1), ("b", 1), ("a", 2))
    put(("a", 3), ("b", None))
    return verified


def test_versions_are_proved_and_traced_and_a_replay_takes_some_out_and_brings_them_back(versions):
    here, first = versions.here, versions.end
    whole = [("a", 1, False, True), ("a", 2, False, True), ("a", 3, False, True), ("b", 1, False, True)]
    whole.append(("b", None, True, True))
    ask = here.drill.ask

    assert (ask(VERSIONS), ask(CURRENT), versions.wrong()) == (whole, [("a", 3)], {})
    assert versions.proved() == ("log", "log")
    with transaction(here.at.conn, READER) as cur:
        a, b = (record_of_row(cur, here.folder.pipeline, [key]) for key in ("a", "b"))
        deletion = outcome_of_record(cur, here.folder.pipeline, 0, first + 4)
    assert (a["row"]["n"], a["offset"], a["deleted"]) == (3, first + 3, False)
    assert (b["deleted"], deletion["rows"]) == (True, [b["row"]])

    def without_2(value):
        return None if value["n"] == 2 else value

    here.code = without_2
    shown, _ = here.preview("replay", f"0:{first}", f"0:{first + 3}")
    assert {str(kind): n for kind, n in shown.counts.items() if n} == {"changed": 1, "removed": 1, "unchanged": 3}
    assert ask(VERSIONS) == whole
    assert here.replay(f"0:{first}", f"0:{first + 3}")[0].went_on
    assert ask(VERSIONS) == [each for each in whole if each[:2] != ("a", 2)]

    here.code = lambda value: None if value["n"] == 3 else value
    assert here.replay(f"0:{first + 3}", f"0:{first + 5}")[0].went_on
    assert ask(CURRENT) == [("a", 1)]  # the last that is left is current again

    here.code = lambda value: value
    assert here.replay(f"0:{first}", f"0:{first + 5}")[0].went_on
    assert (ask(VERSIONS), versions.wrong()) == (whole, {})


def test_wrong_ends_moments_and_deletions_are_named(versions):
    first = versions.end
    versions.spoil("update public.drill set valid_until = valid_until + interval '1 second' where id = 'a' and n = 1")
    assert versions.wrong(deep=False).keys() == {versioned.VERSIONS_FOLLOW}
    assert f'key ["a"]: the version of offset {first} is valid' in versions.wrong(deep=False)[versioned.VERSIONS_FOLLOW]

    versions.spoil("update public.drill set valid_until = valid_until - interval '1 second' where id = 'a' and n = 1")
    versions.spoil("update public.drill set valid_from = valid_from - interval '1 second' where id = 'a' and n = 1")
    assert versions.wrong().keys() == {append.ROWS_MATCH_RECORDS}
    assert f"offset {first}: valid from" in versions.wrong()[append.ROWS_MATCH_RECORDS]

    versions.spoil("update public.drill set valid_from = valid_from + interval '1 second' where id = 'a' and n = 1")
    versions.spoil("update public.drill set _deleted = false, valid_until = null where id = 'b' and n is null")
    wrong = versions.wrong()
    assert wrong.keys() == {append.ROWS_MATCH_RECORDS, "contents are those that were committed"}
    assert "it is of a deletion, and its record is none" in wrong[append.ROWS_MATCH_RECORDS]


def test_a_key_is_erased_with_all_its_versions_and_deletions_and_by_nothing_else(versions):
    versions.put(("c", 1), ("c", None))
    with pytest.raises(Refusal, match=r"holds the versions of \(id\)"):
        erase_key(versions.here, "3", "n")

    erase_key(versions.here, "c")
    erase_key(versions.here, "b")

    assert versions.here.drill.ask(CURRENT) == [("a", 3)]
    assert {row[0] for row in versions.here.drill.ask(VERSIONS)} == {"a"}
    assert versions.wrong() == {}
    assert versions.here.replay(f"0:{versions.end}", f"0:{versions.end + 3}")[0].went_on
    assert {row[0] for row in versions.here.drill.ask(VERSIONS)} == {"a"}


@pytest.mark.long
def test_versions_of_a_former_owner_are_older_whatever_their_epoch(versions, produce):
    here, topic = versions.here, versions.here.drill.topic
    grow(here.drill.kafka, topic, 4)
    versions.put(("a", 4))  # in an epoch that is higher than any of the next owner
    shutil.copytree(here.drill.home / "drill", here.drill.home / "shop")
    definition = here.drill.home / "shop" / "__init__.py"
    definition.write_text(definition.read_text().replace('name="drill"', 'name="shop"'))

    for number, (giver, receiver) in enumerate((("drill", "shop"), ("shop", "drill"), ("drill", "shop")), 5):
        hand_over(here.at.conn, "public.drill", giver, load(receiver).pipeline, ME)
        produce(topic, [("a", json.dumps({"id": "a", "n": number}))], partition=0)
        engine = PlainEngine(load(receiver), here.drill.kafka, here.drill.dsn)
        while run(here.at, engine, load(receiver), Caller("me")).went_on:
            pass

        assert here.drill.ask(CURRENT) == [("a", number)]
        for name in ("drill", "shop"):
            checks = verify(here.at.conn, here.at.broker, load(name), deep=True)
            assert [f"{check.name}: {check.detail}" for check in checks if not check.ok] == []
