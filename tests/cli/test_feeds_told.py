"""Tests what commands tell of feeds: where they stand, what a batch did to each, and how many changes are kept."""

from __future__ import annotations

import json

import pytest

from lockstep.ledger.migrate import migrate_target
from lockstep.steps.upkeep.trim_feeds import trim_feeds
from support.oracles.exposed import values
from support.scenes.here import Here, into_feed, into_two

SETS = "select stream_id, seq, first_number, changes from lockstep.change_set order by seq"
AGED = """set session_replication_role = replica;
    update lockstep.change_set set at = at - interval '8 days' where seq <= {};
    reset session_replication_role"""
SENT_NOWHERE = dict.fromkeys(("topic", "confirmed", "behind", "behind_seconds", "relay"))


@pytest.fixture
def on_command_line(lockstep, drill, monkeypatch):
    """Returns `on_command_line(here)`, whose batches the command line does without Spark."""
    made = []

    def lead(here: Here) -> Here:
        made.append(here)
        lockstep.environ(LOCKSTEP_DSN=drill.dsn, LOCKSTEP_KAFKA=drill.kafka, LOCKSTEP_PIPELINES=str(drill.home))
        for door in ("planning", "replaying", "running"):
            monkeypatch.setattr(f"lockstep.cli.batches.{door}.engine_for", lambda *_: here.engine)
        return here

    yield lead
    for each in made:
        each.at.close()


@pytest.fixture
def fed(on_command_line, drill):
    """Leads the drill, with its 150 records of 150 ids, into a table with a feed."""
    return on_command_line(into_feed(drill))


def two_more_and_one_again(drill, produce):
    produce(drill.topic, [(f"k{i}", json.dumps({"id": f"r{i}", "n": 9})) for i in (149, 150, 151)])


def doubled(value):
    """Doubles `n`, and filters the records of one id."""
    return None if value["id"] == "r7" else value | {"n": value["n"] * 2}


def changes_by_partition(drill):
    return dict(
        drill.ask("select s.partition, c.changes from lockstep.change_set c join lockstep.stream s using (stream_id)")
    )


def test_a_run_says_how_many_changes_it_announced(lockstep, fed, produce):
    document = lockstep("run", "drill", "--json").document
    assert (document["batch"], document["rows_written"], document["changes"]) == (1, 150, {"public.newest": 150})
    assert lockstep("run", "drill", "--json").document["changes"] == {"public.newest": 0}
    two_more_and_one_again(fed.drill, produce)
    assert "  announced changes: 3 of public.newest\n" in lockstep("run", "drill").out
    assert "announced" not in lockstep("run", "drill").out


def test_a_run_until_idle_says_it_of_each_batch_and_of_all(lockstep, fed):
    fed.rewrite("records=200", "records=60")
    document = lockstep("run", "drill", "--until-idle", "--json").document
    told = [batch["changes"]["public.newest"] for batch in document["batches"]]
    assert told == [changes for *_, changes in fed.drill.ask(SETS)]
    assert len(told) == 3
    assert sum(told) == 150
    assert document["changes"] == {"public.newest": 150}
    assert lockstep("run", "drill", "--until-idle", "--json").document["changes"] == {"public.newest": 0}


def test_a_replay_says_its_net_effect(lockstep, fed):
    fed.run()
    (batch,) = lockstep("replay", "drill", "--batch", "1", "--reason", "r", "--json").document["batches"]
    assert (batch["rows_written"], batch["changes"]) == (150, {"public.newest": 0})
    assert (
        "  announced changes: 0 of public.newest\n" in lockstep("replay", "drill", "--batch", "1", "--reason", "r").out
    )


def test_each_table_with_a_feed_is_told_by_itself(lockstep, drill, on_command_line):
    here = on_command_line(into_two(drill))
    here.rewrite("import Append,", "import Append, Feed,")
    here.rewrite('Append("public.drill")', 'Append("public.drill", feed=Feed())')
    migrate_target(here.at.conn, here.folder)
    assert lockstep("run", "drill", "--json").document["changes"] == {"public.drill": 150}
    here.rewrite('key=("id",)', 'key=("id",), feed=Feed()')
    migrate_target(here.at.conn, here.folder)
    here.code = doubled
    said = lockstep("replay", "drill", "--batch", "1", "--reason", "r")
    assert "  announced changes: 149 of public.drill, 149 of public.newest\n" in said.out
    document = lockstep("batch", "2", "--json").document
    assert [(s["target"], s["seq"], s["inserted"], s["updated"], s["deleted"]) for s in document["change_sets"]] == [
        ("public.drill", 2, 0, 148, 1),
        ("public.newest", 1, 0, 148, 1),
    ]


@pytest.mark.usefixtures("here")
def test_without_a_feed_a_run_says_nothing_and_asks_for_nothing(lockstep, admin):
    admin("revoke select on lockstep.change_set, lockstep.feed from lockstep_reader")
    assert "changes" not in lockstep("run", "drill", "--json").document
    admin("grant select on lockstep.change_set, lockstep.feed to lockstep_reader")
    assert lockstep("batch", "1", "--json").document["change_sets"] == []
    assert "change" not in lockstep("batch", "1").out
    assert lockstep("status", "drill", "--json").document["feeds"] == []
    assert "feed" not in lockstep("status", "drill").out


def test_a_batch_says_what_it_did_to_each_row(lockstep, fed, produce):
    fed.run()
    two_more_and_one_again(fed.drill, produce)
    fed.run()
    fed.code = doubled
    fed.replay("0:0")
    whole = {"target": "public.newest", "topic": None, "partition": None, "from_offset": None, "until_offset": None}
    assert lockstep("batch", "1", "--json").document["change_sets"] == [
        whole | {"seq": 1, "first_number": 0, "changes": 150, "inserted": 150, "updated": 0, "deleted": 0}
    ]
    assert lockstep("batch", "2", "--json").document["change_sets"] == [
        whole | {"seq": 2, "first_number": 150, "changes": 3, "inserted": 2, "updated": 1, "deleted": 0}
    ]
    said = lockstep("batch", "2").out
    assert "  change set 2 of public.newest: 2 inserted, 1 updated, 0 deleted\n" in said
    (last,) = lockstep("batch", "3", "--json").document["change_sets"]
    ((told,),) = fed.drill.ask("select changes from lockstep.change_set where seq = 3")
    gone = fed.drill.ask(
        "select partition from lockstep.stream s where not exists (select from public.newest where id = 'r7')"
    )
    assert last["changes"] == told == last["updated"] + last["deleted"] > 0
    assert (last["inserted"], last["deleted"]) == (0, 1 if gone else 0)


def test_a_batch_that_is_not_committed_has_no_set_and_one_without_rows_has_an_empty_one(lockstep, fed):
    assert lockstep("plan", "drill").code == 0
    assert lockstep("batch", "1", "--json").document["change_sets"] == []
    fed.code = lambda _: None
    assert lockstep("run", "drill", "--json").document["changes"] == {"public.newest": 0}
    (told,) = lockstep("batch", "1", "--json").document["change_sets"]
    assert (told["seq"], told["changes"], told["inserted"], told["updated"], told["deleted"]) == (1, 0, 0, 0, 0)


def test_per_partition_each_range_is_a_set(lockstep, drill, on_command_line):
    here = on_command_line(into_feed(drill, ", guarantee=PerPartition()"))
    document = lockstep("run", "drill", "--json").document
    assert document["changes"] == {"public.newest": 150}
    sets = lockstep("batch", "1", "--json").document["change_sets"]
    by_partition = changes_by_partition(here.drill)
    assert sorted(s["seq"] for s in sets) == [1, 2, 3]
    assert {s["partition"]: s["inserted"] for s in sets} == by_partition
    assert sum(by_partition.values()) == 150
    ranges = {r["partition"]: (r["topic"], r["from_offset"], r["until_offset"]) for r in document["ranges"]}
    assert {s["partition"]: (s["topic"], s["from_offset"], s["until_offset"]) for s in sets} == ranges
    said = lockstep("batch", "1").out
    for s in sets:
        where = f"{s['topic']}-{s['partition']} [{s['from_offset']}, {s['until_offset']})"
        assert (
            f"  change set {s['seq']} of public.newest, {where}: {s['inserted']} inserted, 0 updated, 0 deleted\n"
            in said
        )


def test_of_a_trimmed_set_the_counts_are_not_known_any_more(lockstep, fed, admin, produce):
    fed.run()
    two_more_and_one_again(fed.drill, produce)
    fed.run()
    admin(AGED.format(1))
    assert trim_feeds(fed.at.conn) == (150, [])
    (told,) = lockstep("batch", "1", "--json").document["change_sets"]
    assert (told["changes"], told["inserted"], told["updated"], told["deleted"]) == (150, None, None, None)
    assert "  change set 1 of public.newest: 150 in all, and their rows are trimmed\n" in lockstep("batch", "1").out
    (told,) = lockstep("batch", "2", "--json").document["change_sets"]
    assert (told["inserted"], told["updated"]) == (2, 1)


def test_the_status_says_where_each_feed_stands(lockstep, fed, admin, produce):
    stands = {"target": "public.newest", "last_seq": 0, "next_number": 0, "kept_from": 0} | SENT_NOWHERE
    assert lockstep("status", "drill", "--json").document["feeds"] == [stands]
    assert "  feed of public.newest: no change set yet\n" in lockstep("status", "drill").out
    fed.run()
    two_more_and_one_again(fed.drill, produce)
    fed.run()
    admin(AGED.format(1))
    trim_feeds(fed.at.conn)
    stands |= {"last_seq": 2, "next_number": 153, "kept_from": 150}
    assert lockstep("status", "drill", "--json").document["feeds"] == [stands]
    assert lockstep("watch", "drill", "--json").document["feeds"] == [stands]
    assert lockstep("status", "--json").document["pipelines"][0]["feeds"] == [stands]
    assert (
        "  feed of public.newest: set 2 is the newest, changes [150, 153) are kept\n" in lockstep("status", "drill").out
    )
    (fed.drill.home / "drill" / "__init__.py").unlink()
    (fed.drill.home / "drill").rename(fed.drill.home.parent / "away")
    assert lockstep("status", "drill", "--json").document["feeds"] == [stands]


def test_the_metrics_count_the_changes_that_a_feed_keeps(lockstep, fed, admin, produce):
    fed.run()
    two_more_and_one_again(fed.drill, produce)
    fed.run()
    assert values(lockstep("metrics").out)["lockstep_feed_kept", "drill", "public.newest"] == 153
    admin(AGED.format(1))
    trim_feeds(fed.at.conn)
    assert values(lockstep("metrics").out)["lockstep_feed_kept", "drill", "public.newest"] == 3
    (told,) = lockstep("metrics", "--json").document["pipelines"]
    assert told["feeds"] == [
        {"target": "public.newest", "last_seq": 2, "next_number": 153, "kept_from": 150} | SENT_NOWHERE
    ]
    lockstep.environ(LOCKSTEP_KAFKA="127.0.0.1:1")
    assert values(lockstep("metrics").out)["lockstep_feed_kept", "drill", "public.newest"] == 3


def test_without_a_feed_there_is_no_such_metric(lockstep, here):
    here.run()
    assert not [name for name, *_ in values(lockstep("metrics").out) if name == "lockstep_feed_kept"]
    (told,) = lockstep("metrics", "--json").document["pipelines"]
    assert told["feeds"] == []
