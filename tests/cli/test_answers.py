"""Tests the answers of the commands, as JSON with its fixed fields and as lines that fit a terminal."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lockstep.adapters.postgres import connect, transaction
from lockstep.ledger.migrate import known_migrations
from support.fakes.ledger_rows import LedgerRows, SayingBroker, view
from support.scenes.command_line import at_a_terminal, without_styles

RANGE = {"topic", "partition", "from_offset", "until_offset", "delivered", "written", "rejected", "filtered", "attempt"}


@pytest.fixture
def ledger(database):
    conn = connect(database)
    yield LedgerRows(conn)
    conn.close()


@pytest.fixture
def broker(monkeypatch):
    """Lets every command meet a broker with these answers."""

    def saying(*views: Any):
        monkeypatch.setattr("lockstep.adapters.kafka.broker.Broker", lambda *_: SayingBroker(*views))

    saying(view((0, 100)))
    return saying


@pytest.fixture
def orders(lockstep, ledger, database, broker):
    """Makes a pipeline with a committed batch [0, 10), an unfinished one [10, 20), and its target.

    The committed batch holds a reject.
    """
    assert broker
    lockstep.define()
    lockstep.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA="nobody:9092")
    assert lockstep("migrate", "orders").code == 0
    stream = ledger.stream(0)
    batch = ledger.planned({stream: (0, 10)}, key="run-1")
    token = ledger.opened(batch, "scheduled__2026-05-01T12:00:00+00:00")
    ledger.committed(batch, token, rejected=1)
    with transaction(ledger.conn, "lockstep_committer") as cur:
        cur.execute("insert into public.orders values ('o1', 7, %s, 4, 0, %s)", (stream, batch))
        cur.execute(
            """insert into lockstep.reject (stream_id, "offset", batch_id, value, reason) values (%s, 5, %s, %s, 'no JSON')""",
            (stream, batch, b"\xff{"),
        )
    unfinished = ledger.planned({stream: (10, 20)})
    return {"stream": stream, "batch": batch, "token": token, "unfinished": unfinished}


def test_status_has_its_fixed_fields(lockstep, orders):
    document = lockstep("status", "orders", "--json").document
    assert set(document) == {
        "pipeline",
        "health",
        "conditions",
        "paused",
        "dag_paused",
        "forgotten",
        "promoted",
        "asks_kafka",
        "unfinished",
        "under_way",
        "interrupted",
        "complete_through",
        "feeds",
        "lag_records",
        "oldest_waiting_seconds",
        "behind_after_seconds",
        "requests",
        "streams",
        "warnings",
    }
    assert document["unfinished"] == [orders["unfinished"]]
    (stream,) = document["streams"]
    assert set(stream) == {
        "topic",
        "partition",
        "position",
        "log_start",
        "stable_end",
        "lag_records",
        "lag_seconds",
        "oldest_waiting_seconds",
        "headroom_records",
        "headroom_seconds",
        "holes",
        "skipped",
    }
    assert (stream["position"], stream["lag_records"], stream["holes"]) == (10, 90, 0)
    (row,) = [
        line.split() for line in lockstep("status", "orders").out.splitlines() if line.startswith("  orders.v1-0")
    ]
    assert re.fullmatch(r"90 \d+ (s|min|h|d) 0", " ".join(row[4:])), "lag, how far behind in words, holes"


def test_status_of_all_pipelines_tells_one_mistake_without_hiding_the_others(lockstep, orders):
    assert orders
    lockstep.define("broken", init="x = 1")
    said = lockstep("status", "--json")
    broken, fine = said.document["pipelines"]
    assert (said.code, broken["pipeline"], fine["pipeline"]) == (0, "broken", "orders")
    assert "exactly one Pipeline" in broken["error"]
    assert (broken["health"], fine["health"]) == ("unknown", "well")
    assert "orders.v1-0" in lockstep("status").out


def test_batches_have_their_fixed_fields_and_times_in_utc(lockstep, orders):
    committed, planned = lockstep("batches", "orders", "--json").document["batches"]
    fields = {"batch", "lane", "state", "keys", "planned_at", "committed_at", "attempts", "dag_run_ids"}
    assert fields | {"rows_written", "rows_rejected", "ranges"} <= set(committed)
    assert set(committed["ranges"][0]) == RANGE
    assert (committed["batch"], committed["planned_at"]) == (orders["batch"], "2026-05-01T12:00:00Z")
    assert (committed["attempts"], committed["rows_written"], committed["rows_rejected"]) == (1, 9, 1)
    assert (planned["committed_at"], planned["dag_run_ids"], planned["ranges"][0]["delivered"]) == (None, [], None)


def test_one_batch_is_told_whole(lockstep, orders):
    document = lockstep("batch", str(orders["batch"]), "--json").document
    (attempt,) = document["attempts"]
    assert (document["guarantee"], document["delivered_at"]) == (None, None), "its definition says nothing of one"
    assert attempt["dag_run_id"] == "scheduled__2026-05-01T12:00:00+00:00"
    assert set(document["ranges"][0]) == RANGE
    assert document["seconds"] == {"stage": 2.0, "validate": 1.0, "commit": 0.5, "total": 5.0}


def test_lineage_has_its_fixed_fields_and_gives_a_rejects_bytes(lockstep, orders):
    found = lockstep("lineage", "orders", "--partition", "0", "--offset", "4", "--json").document
    fields = {"topic", "partition", "offset", "batch", "attempt", "dag_id", "dag_run_id", "rows"}
    assert fields <= set(found)
    assert (found["attempt"], found["rows"][0]["id"]) == (orders["token"], "o1")
    refused = lockstep("lineage", "orders", "--partition", "0", "--offset", "5", "--json").document
    assert (refused["rows"], refused["reject"]["reason"], refused["reject"]["value"]) == ([], "no JSON", "\\xff7b")


@pytest.mark.parametrize("offset", ["12", "999"])
def test_lineage_of_an_offset_that_nothing_covers_is_an_answer_with_code_0(lockstep, orders, offset):
    assert orders["batch"]
    said = lockstep("lineage", "orders", "--partition", "0", "--offset", offset, "--json")
    assert (said.code, said.err) == (0, "")
    assert (said.document["coverage"], said.document["batch"], said.document["rows"]) == ("uncovered", None, [])
    assert "orders.v1-0 offset" in lockstep("lineage", "orders", "--partition", "0", "--offset", offset).out
    assert "uncovered" in lockstep("lineage", "orders", "--partition", "0", "--offset", offset).out


def test_blame_leads_from_a_key_to_its_offset(lockstep, orders):
    document = lockstep("blame", "orders", "--key", "o1", "--json").document
    assert (document["row"]["n"], document["partition"], document["offset"]) == (7, 0, 4)
    assert (document["batch"], document["contributions"]) == (orders["batch"], [])


def test_holes_are_listed_with_their_kind(lockstep, orders, broker):
    assert lockstep("holes", "orders", "--json").document == {"pipeline": "orders", "holes": []}
    lockstep("abandon", str(orders["unfinished"]), "--reason", "cut")
    broker(view((30, 100)))
    loss = ("accept-loss", "orders", "--partition", "0", "--from", "10", "--until", "30", "--reason", "retention")
    assert lockstep(*loss, "--json").document["position"] == 30
    (hole,) = lockstep("holes", "orders", "--json").document["holes"]
    why = hole.pop("why")
    assert hole == {"topic": "orders.v1", "partition": 0, "from_offset": 10, "until_offset": 30, "kind": "loss"}
    assert why.endswith(": retention")
    assert lockstep("status", "orders", "--json").document["streams"][0]["holes"] == 0


def test_hours_have_their_fixed_fields_and_status_says_through_when_it_is_complete(lockstep, orders, ledger, broker):
    assert lockstep("hours", "orders", "--json").document["hours"] == []
    with transaction(ledger.conn, "lockstep_planner") as cur:
        known = (orders["stream"], '{"batches": [1], "losses": []}')
        cur.execute("insert into lockstep.complete_hour values ('orders', '2026-05-01 12:00+00', %s)", known[1:])
        cur.execute("insert into lockstep.hour_offsets values ('orders', '2026-05-01 12:00+00', %s, 0, 10)", known[:1])

    broker(view((0, 100), topic_id="another"))

    document = lockstep("hours", "orders", "--last", "1", "--json").document

    assert set(document) == {"pipeline", "complete_through", "told_from", "earlier", "hours", "waits_for"}
    assert (document["told_from"], document["earlier"]) == ("2026-05-01T11:00:00Z", [])
    (hour,) = document["hours"]
    assert set(hour) == {"from", "until", "batches", "losses", "offsets", "revision", "changed"}
    assert (hour["revision"], hour["changed"]) == (0, False)
    assert (hour["from"], hour["until"]) == ("2026-05-01T11:00:00Z", "2026-05-01T12:00:00Z")
    waits = document["waits_for"]
    assert (waits["until"], waits["next"]) == ("2026-05-01T13:00:00Z", "lockstep plan orders")
    assert set(hour["offsets"][0]) == {"topic", "partition", "stream_id", "from_offset", "until_offset"}
    assert lockstep("status", "orders", "--json").document["complete_through"] == hour["until"]
    assert "complete through 2026-05-01T12:00:00Z" in lockstep("status", "orders").out
    said = lockstep("hours", "orders").out
    assert "Next: lockstep plan orders" in said
    assert "Hours are told from 2026-05-01T11:00:00Z on.\nOlder ones: lockstep hours orders --since TIME\n" in said
    assert "--since 'soon' is no time" in lockstep("hours", "orders", "--since", "soon").err


def test_an_hour_that_changed_since_it_was_told_has_its_revision_and_is_told_again(lockstep, orders, ledger, broker):
    with transaction(ledger.conn, "lockstep_owner") as cur:
        known = (orders["stream"], orders["batch"])
        cur.execute("insert into lockstep.complete_hour values ('orders', '2026-05-01 12:00+00', '{}')")
        cur.execute("update lockstep.complete_hour set proof = %s", ('{"batches": [1], "losses": []}',))
        cur.execute("insert into lockstep.hour_offsets values ('orders', '2026-05-01 12:00+00', %s, 0, 10)", known[:1])
        cur.execute("insert into lockstep.hour_told values ('orders', '2026-05-01 12:00+00', 'run 1', now(), 1)")
        cur.execute("insert into lockstep.hour_changed values ('orders', '2026-05-01 12:00+00', 1, %s)", known[1:])
        cur.execute("insert into lockstep.hour_told values ('orders', '2026-05-01 12:00+00', 'run 2', now(), 2)")
    broker(view((0, 100), topic_id="another"))
    told_twice = lockstep("hours", "orders")
    with transaction(ledger.conn, "lockstep_owner") as cur:
        cur.execute("insert into lockstep.hour_changed values ('orders', '2026-05-01 12:00+00', 2, %s)", known[1:])

    (hour,) = lockstep("hours", "orders", "--json").document["hours"]

    assert (hour["revision"], hour["changed"]) == (2, True)
    heading, line, *_ = told_twice.out.splitlines()
    assert (heading.split()[-1], line.split()[-1]) == ("revision", "2")
    again = "2026-05-01T12:00:00Z has changed since it was told: the next run of its DAG tells it again"
    assert again not in told_twice.out
    assert again in lockstep("hours", "orders").out


def test_decisions_say_what_they_changed_and_nothing_to_do_is_no_failure(lockstep, orders):
    paused = [lockstep("pause", "orders", "--reason", "release", "--json") for _ in range(2)]
    assert [(said.code, said.document["changed"]) for said in paused] == [(0, True), (0, False)]
    assert lockstep("status", "orders", "--json").document["paused"] is True
    assert lockstep("unpause", "orders", "--json").document == {"pipeline": "orders", "paused": False, "changed": True}
    abandoned = [lockstep("abandon", str(orders["unfinished"]), "--reason", "cut", "--json") for _ in range(2)]
    assert [(said.code, said.document["changed"]) for said in abandoned] == [(0, True), (0, False)]
    assert lockstep("status", "orders", "--json").document["unfinished"] == []


def test_a_recreated_topic_is_retired_and_begun_anew(lockstep, orders, broker):
    assert lockstep("retire", "orders", "--reason", "why not").code == 1
    broker(view((2, 50), topic_id="another"))
    document = lockstep("retire", "orders", "--reason", "recreated", "--json").document
    assert document["opened"] == [{"topic": "orders.v1", "partition": 0, "start_offset": 2}]
    assert document["abandoned"] == [orders["unfinished"]]
    assert document["retired"][0]["why"] == "topic id topic-1 became another"


def test_who_decides_is_the_login_at_its_host(lockstep, orders, ledger, monkeypatch):
    monkeypatch.setenv("LOGNAME", "ada")
    lockstep("abandon", str(orders["unfinished"]), "--reason", "cut")
    ((who, why),) = ledger.ask("select who, why from lockstep.decision")
    assert who.startswith("ada@")
    assert why == "cut"


def test_migrating_twice_applies_nothing_the_second_time(lockstep, empty_database):
    lockstep.environ(LOCKSTEP_DSN=empty_database)
    first, second = (lockstep("migrate", "--json").document["applied"] for _ in range(2))
    assert [step["version"] for step in first] == [migration.version for migration in known_migrations()]
    assert second == []


def test_reap_says_what_it_dropped(lockstep, orders, ledger):
    token = ledger.opened(orders["unfinished"], staging=True)
    ledger.opened(orders["unfinished"])
    dropped = [f"attempt_{orders['unfinished']}_{token}"]
    assert lockstep("reap", "--json").document == {
        "dropped": dropped,
        "held": [],
        "emptied": [],
        "emptied_held": [],
        "merged": 0,
        "forgotten_deletions": 0,
        "emptied_rejects": 0,
        "trimmed_changes": 0,
        "merged_partitions": [],
        "folded_contributions": 0,
        "swept_lake_files": 0,
        "not_merged": [],
    }


COMMANDS = [
    ("status",),
    ("status", "orders"),
    ("batches", "orders"),
    ("batch", "1"),
    ("holes", "orders"),
    ("hours", "orders"),
    ("lineage", "orders", "--partition", "0", "--offset", "4"),
    ("lineage", "orders", "--partition", "0", "--offset", "5"),
    ("lineage", "orders", "--partition", "0", "--offset", "6"),
    ("blame", "orders", "--key", "o1"),
    ("reap",),
    ("migrate",),
    ("migrate", "orders"),
    ("pause", "orders"),
    ("abandon", "2", "--reason", "r"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_lines_for_people_fit_a_terminal_of_eighty_columns_and_keep_standard_error_quiet(lockstep, orders, command):
    assert (orders["batch"], orders["unfinished"]) == (1, 2)
    at_a_terminal(lockstep.monkeypatch, columns=80)
    said = lockstep(*command)
    assert (said.code, said.err) == (0, "")
    assert said.out
    assert max(len(line) for line in without_styles(said.out).splitlines()) <= 80
