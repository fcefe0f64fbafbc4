"""Tests the page of a feed: its figures, its picture, its sets page by page, their rows, and its relay."""

from __future__ import annotations

import json
import re
from contextlib import closing
from itertools import pairwise

import psycopg2
import pytest
from confluent_kafka.admin import AdminClient

from lockstep.adapters.processes import this_owner
from lockstep.ledger.migrate import migrate_target
from lockstep.steps.feed.relay import relay
from lockstep.steps.upkeep.trim_feeds import trim_feeds
from lockstep.web.pages import feed_page
from lockstep.web.pictures.feed_bars import BARS_HEIGHT, LEAST_BAR, set_bars
from support.scenes.erasing import KEY, erase_key, feed
from support.scenes.here import into_feed
from support.servers.scheduled import wait_for
from support.servers.servers import make_topic
from web.answers import rows, said

DASH = "\N{EN DASH}"
AGED = "update lockstep.change_set set at = at - interval '8 days'"
BAR = re.compile(
    r'<rect class="(\w+)" x="([\d.]+)" width="[\d.]+" y="([\d.]+)" height="([\d.]+)"><title>set ([\d,]+), '
)
CHANGE = "select lockstep.manual_change('public.newest', %s)"


@pytest.fixture
def here(drill):
    """Yields the drill, whose table has a feed."""
    made = into_feed(drill)
    yield made
    made.at.close()


def by_hand(here, why: str, *statements: str) -> None:
    """Changes the table as a person does, with a reason, as the owner of targets."""
    with closing(psycopg2.connect(here.drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute("set local role lockstep_owner")
        cur.execute(CHANGE, (why,))
        for statement in statements:
            cur.execute(statement)


def test_the_page_says_where_the_feed_stands_and_what_each_set_did(pages, here, produce):
    here.run()
    where = (
        "select s.partition from public.newest t join lockstep.stream s on s.stream_id = t._stream where t.id = 'r1'"
    )
    ((partition,),) = here.drill.ask(where)
    produce(here.drill.topic, [("k", '{"id": "r1", "n": 900}'), ("k", '{"id": "new", "n": 901}')], partition=partition)
    here.run()
    by_hand(here, "a <b>wrong</b> one", "delete from public.newest where id = 'new'")

    answer = pages("/dags/drill/feed")

    words = said(answer)
    assert (
        "table public.newest last change set 3 next number 153 kept from number 0 changes kept 153 kept for 7 days"
        in words
    )
    assert "kept: 153 [0, 153)" in words
    assert "The feed is sent to no topic." in words
    found = [[*row[:3], *row[4:]] for row in rows(answer.text, "sets")]
    assert found == [
        ["3", "manual", "a &lt;b&gt;wrong&lt;/b&gt; one", "152", "1", "0", "0", "1"],
        ["2", "batch", "batch 2", "150", "2", "1", "1", "0"],
        ["1", "batch", "batch 1", "0", "150", "150", "0", "0"],
    ]
    assert 'href="/lockstep/dags/drill/batches/2"' in answer.text
    assert 'href="/lockstep/dags/drill/feed/3?target=public.newest"' in answer.text


def test_a_bar_is_as_high_as_its_set_has_changes_and_no_change_is_too_low_to_be_seen(pages, here, produce):
    here.run()
    produce(here.drill.topic, [("k", json.dumps({"id": f"x{n}", "n": n})) for n in range(75)], partition=0)
    here.run()
    by_hand(here, "one", "delete from public.newest where id = 'x1'")

    drawn = BAR.findall(pages("/dags/drill/feed").text)

    parts = [(number, kind, float(y), float(height)) for kind, _, y, height, number in drawn if float(y) < BARS_HEIGHT]
    assert parts == [
        ("1", "inserted", 0.0, BARS_HEIGHT),
        ("2", "inserted", BARS_HEIGHT / 2, BARS_HEIGHT / 2),
        ("3", "deleted", BARS_HEIGHT - LEAST_BAR, LEAST_BAR),
    ]
    assert [(number, kind) for kind, _, y, _, number in drawn if float(y) > BARS_HEIGHT] == [
        ("1", "live"),
        ("2", "live"),
        ("3", "manual"),
    ]
    places = [float(x) for _, x, y, _, _ in drawn if float(y) > BARS_HEIGHT]
    assert places == sorted(places), "the newest is at the right"


def test_times_below_the_bars_leave_each_other_their_room():
    made = {"changes": 1, "inserted": 1, "updated": 0, "deleted": 0, "kind": "batch", "lane": "live", "at": None}
    sets = [made | {"seq": seq, "first_number": seq} for seq in range(200)]
    for many in (1, 2, 5, 60, 200):
        places = [x for x, _ in set_bars(sets[:many], None, 200)["ticks"]]
        assert places[0] == 0
        assert all(later - earlier >= 420 for earlier, later in pairwise(places)), many
    assert len(places) == 3


def test_older_sets_are_pages_of_their_own_and_no_set_is_on_two(pages, here, monkeypatch):
    monkeypatch.setattr(feed_page, "SETS_PER_PAGE", 2)
    here.run()
    for number in range(4):
        by_hand(here, f"turn {number}", f"update public.newest set n = {1_000 + number} where id = 'r1'")
    seen, path = [], "/dags/drill/feed"
    while path:
        text = pages(path).text
        seen.append([int(row[0]) for row in rows(text, "sets")])
        older = re.search(r'<a href="(\?[^"]*before=\d+)">older</a>', text)
        path = f"/dags/drill/feed{older[1].replace('&amp;', '&')}" if older else ""
    assert seen == [[5, 4], [3, 2], [1]]
    assert "There is no older change set." in said(pages("/dags/drill/feed?before=1"))


def test_a_set_shows_the_row_before_and_after_and_its_values_cannot_speak(pages, here, produce):
    hostile = "<script>alert(1)</script>"
    produce(here.drill.topic, [("k", json.dumps({"id": hostile, "n": 5}))], partition=0)
    here.drain()
    by_hand(here, "a mend", f"update public.newest set n = 6 where id = '{hostile}'")

    answer = pages("/dags/drill/feed/2")

    assert hostile not in answer.text
    words = said(answer)
    assert "drill, change set 2" in words
    assert "kind manual why a mend" in words
    assert "numbers [151, 152) changes 1" in words
    shown = "&lt;script&gt;alert(1)&lt;/script&gt;"
    assert f"151 update {shown} column before after id {shown} {shown} n 5 6" in words
    assert re.search(r'<td class="mono gone">5</td><td class="mono new">6</td>', answer.text)
    assert "lockstep changes drill --target public.newest --from 151" in words


def test_a_large_set_is_shown_so_many_changes_at_a_time(pages, here):
    here.run()
    first = pages("/dags/drill/feed/1").text
    numbers = [int(each) for each in re.findall(r'id="n(\d+)"', first)]
    assert numbers == list(range(50))
    later = re.search(r'<a href="\?target=public.newest&amp;from=(\d+)">later changes', first)
    assert later[1] == "50"
    last = pages("/dags/drill/feed/1?from=100").text
    assert [int(each) for each in re.findall(r'id="n(\d+)"', last)] == list(range(100, 150))
    assert "later changes" not in last
    assert "has the changes [0, 150)" in said(pages("/dags/drill/feed/1?from=151"), 404)
    assert "has no change set 9: the last one is 1" in said(pages("/dags/drill/feed/9"), 404)


def test_a_trimmed_set_says_so(pages, here, spoil):
    here.run()
    spoil(AGED)
    by_hand(here, "one more", "update public.newest set n = 7 where id = 'r1'")
    assert trim_feeds(here.at.conn) == (150, [])
    answer = pages("/dags/drill/feed")
    assert "kept from number 150 changes kept 1" in said(answer)
    assert "trimmed: 150 [0, 150) kept: 1 [150, 151)" in said(answer)
    assert [[row[0], *row[5:]] for row in rows(answer.text, "sets")] == [
        ["2", "1", "0", "1", "0"],
        ["1", "150", "trimmed", "trimmed", "trimmed"],
    ]
    words = said(pages("/dags/drill/feed/1"))
    assert "The rows of this set are trimmed: the feed keeps changes for 7 days." in words
    assert "What is kept begins at number 150." in words


def test_an_erased_change_keeps_its_number_and_shows_nothing_of_its_row(pages, here, produce):
    for _ in range(2):
        feed(produce, here.drill.topic)
        here.drain()
    erase_key(here)
    for seq in (2, 3):
        answer = pages(f"/dags/drill/feed/{seq}")
        assert KEY not in answer.text
        assert "erased Its key was erased, and its row with it. The number stays." in said(answer)
    assert "other-0-1" in pages("/dags/drill/feed/2").text, "nobody else's values are gone"


@pytest.fixture
def sent(here, topic):
    """Returns the drill's feed with a topic to which its relay has sent 150 changes, and two more wait."""
    sink = f"{topic(partitions=1)}-sink"
    make_topic(here.drill.kafka, sink, 2)
    here.rewrite("feed=Feed()", f'feed=Feed(to=Topic("{sink}"))')
    here.rewrite("import Feed,", "import Feed, Topic,")
    migrate_target(here.at.conn, here.folder)
    here.run()
    pipeline = here.folder.pipeline
    assert relay(here.at, pipeline, pipeline.first, this_owner()).sent == 150
    by_hand(here, "two", "delete from public.newest where id in ('r1', 'r2')")
    return sink


def test_what_the_relay_has_sent_and_what_waits_is_said_and_drawn(pages, here, sent):
    answer = pages("/dags/drill/feed")
    words = said(answer)
    assert f"topic {sent} confirmed below number 150 cursor in Kafka 150 wait to be sent 2 changes" in words
    assert "works now nobody" in words
    assert "Nobody sends now. Next: lockstep relay drill --target public.newest" in words
    assert "sent, kept: 150 [0, 150) waits to be sent: 2 [150, 152)" in words
    assert re.search(r'<line class="confirmed" x1="18.0" x2="18.0"', answer.text), (
        "between the first bar and the second"
    )
    assert "Blocked" not in words
    token = here.drill.ask("select token from lockstep.relay")
    pipeline = here.folder.pipeline
    assert relay(here.at, pipeline, pipeline.first, this_owner()).sent == 2
    assert here.drill.ask("select token - 1 from lockstep.relay") == token, "the page has ended no relay"
    words = said(pages("/dags/drill/feed/2"))
    assert f"sent to {sent} yes" in words


def test_a_relay_that_is_blocked_says_why_and_what_to_do(pages, sent, spoil):
    spoil("update lockstep.relay set topic_id = 'another'")
    words = said(pages("/dags/drill/feed"))
    assert f"Blocked: public.newest: {sent} was deleted and made anew: its id is " in words
    assert "and was another Next: lockstep relay drill --target public.newest --restart-at NUMBER --reason WHY" in words


def test_a_cursor_that_the_ledger_does_not_know_blocks(pages, sent, spoil):
    spoil("update lockstep.relay set confirmed = 140")
    words = said(pages("/dags/drill/feed"))
    assert f"topic {sent} confirmed below number 140" in words
    assert "Kafka was given the changes below number 150, and the ledger knows of those below 140" in words


def test_a_topic_that_is_gone_blocks(pages, here, sent):
    admin = AdminClient({"bootstrap.servers": here.drill.kafka})
    admin.delete_topics([sent])[sent].result(20)
    wait_for(lambda: f"topic {sent} is not on the broker" in said(pages("/dags/drill/feed")), "it is seen", 30)


def test_a_broker_that_is_away_leaves_what_the_ledger_knows(pages, sent, monkeypatch):
    monkeypatch.setenv("LOCKSTEP_KAFKA", "127.0.0.1:1")
    monkeypatch.setattr("lockstep.adapters.kafka.client.ANSWER_SECONDS", 1.0)
    monkeypatch.setattr("lockstep.adapters.kafka.group.GROUP_SECONDS", 1.0)
    words = said(pages("/dags/drill/feed"))
    assert f"topic {sent} confirmed below number 150 wait to be sent 2 changes" in words
    assert "What Kafka has is not known now" in words


def test_without_a_feed_the_page_says_how_to_get_one(pages, drill, dags):
    dags(drill=False)
    assert "No target of drill has a feed" in said(pages("/dags/drill/feed"))
    assert "There is no pipeline nobody." in said(pages("/dags/nobody/feed"), 404)
    assert drill.ask("select count(*) from lockstep.feed") == [(0,)]


def test_another_table_is_refused_by_name(pages, here):
    here.run()
    assert "No target public.other of drill has a feed." in said(pages("/dags/drill/feed?target=public.other"), 404)


def test_the_other_pages_lead_to_the_feed(pages, here):
    here.run()
    assert 'href="/lockstep/dags/drill/feed/1?target=public.newest"' in pages("/dags/drill/batches/1").text
    assert 'href="/lockstep/dags/drill/feed"' in pages("/").text
