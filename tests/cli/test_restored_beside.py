"""Tests that `restored` leads on what is not rows of a table: relays, readers of a feed, and windows (R1)."""

from __future__ import annotations

import json
import shlex

import psycopg2
import pytest

from feed.sending import read_topic
from lockstep.adapters.processes import this_owner
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.feed.relay import relay
from support.scenes.command_line import assert_refused
from support.scenes.here import Here, into_feed
from support.scenes.windowed import into_windows
from support.servers.timelines import Timelines, copied


def relayed(here: Here):
    return relay(here.at, here.folder.pipeline, here.folder.pipeline.first, this_owner())


def numbers(drill, sink: str) -> list[int]:
    found = read_topic(drill.kafka, sink).values()
    return sorted(int(headers["lockstep.number"]) for part in found for _, _, headers in part)


def needs(lockstep, *more: str) -> list[str]:
    said = lockstep("restored", "drill", *more, "--json")
    assert said.code == 0, said.err
    return said.document["needs"]


def test_the_relay_and_the_readers_of_a_feed_are_led_on(lockstep, drill, topic, produce, postgres):
    sink = topic(partitions=2)
    here = into_feed(drill)
    here.rewrite("feed=Feed()", f'feed=Feed(to=Topic("{sink}"))')
    here.rewrite("import Feed,", "import Feed, Topic,")
    migrate_target(here.at.conn, here.folder)
    here.drain()
    assert relayed(here).sent == 150
    lockstep.environ(LOCKSTEP_DSN=drill.dsn, LOCKSTEP_KAFKA=drill.kafka, LOCKSTEP_PIPELINES=str(drill.home))
    assert f"{sink} has no change of public.newest that the ledger does not know" in " ".join(
        needs(lockstep, "--preview")
    )
    here.at.close()
    with copied(postgres, drill.dsn) as survivor:
        both = Timelines(drill, survivor)
        both.lost.code = lambda value: value
        produce(drill.topic, [(f"k{i}", json.dumps({"id": f"r{i}", "n": i})) for i in range(150, 180)])
        both.lost.drain()
        assert relayed(both.lost).sent == 30
        kept = lockstep("changes", "drill", "--json").document
        assert kept["next_number"] == 180
        lockstep.environ(LOCKSTEP_DSN=survivor)

        shown = needs(lockstep, "--preview")
        assert "numbers of the feed of public.newest are given again, in another timeline" in " ".join(shown)
        (led,) = [each for each in shown if each.startswith(sink)]
        assert led.startswith(
            f"{sink} has the changes of public.newest below number 180, and the ledger those below 150: "
        )
        assert needs(lockstep, "--reason", "the primary burnt")[1:] == shown[1:]

        both.survivor.drain()
        asked = ("changes", "drill", "--from", "180", "--timeline", kept["timeline"])
        assert_refused(lockstep(*asked), "the ledger was restored", "--snapshot")
        reads = f"select * from lockstep_feed.public_newest_from(180, 9, '{kept['timeline']}')"
        with pytest.raises(psycopg2.errors.InvalidParameterValue, match="feed_restored"):
            both.survivor.drill.ask(reads)
        now = lockstep("changes", "drill", "--from", "150", "--json").document
        assert (now["timeline"] != kept["timeline"], now["next_number"]) == (True, 180)

        assert "Kafka was given the changes below number 180" in relayed(both.survivor).stopped.reason
        command = shlex.split(led[led.index("lockstep relay") : led.index(", and numbers")].replace("WHY", "restored"))
        assert lockstep(*command[1:]).code == 0
        assert relayed(both.survivor).stopped is None
        assert numbers(drill, sink) == sorted([*range(180), *range(150, 180)])
        both.end()


def test_windows_beyond_the_watermark_are_named_with_the_run_that_shows_them(lockstep, drill):
    here = into_windows(drill)
    here.drain()
    lockstep.environ(LOCKSTEP_DSN=drill.dsn, LOCKSTEP_KAFKA=drill.kafka, LOCKSTEP_PIPELINES=str(drill.home))
    ((at,),) = drill.ask(
        "select to_char(watermark at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') from lockstep.event_time"
    )

    (said,) = [each for each in needs(lockstep, "--preview") if "_revision" in each]

    assert said.startswith(
        f"the watermark of public.by_minute is at {at} again, and each _revision beyond it is given again"
    )
    assert "lockstep run drill shows these windows" in said
    here.at.close()
