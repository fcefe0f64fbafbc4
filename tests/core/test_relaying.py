"""Tests where a relay goes on, cell by cell: by the cursor in Kafka, and by what the ledger knows (E17)."""

from __future__ import annotations

import pytest

from lockstep.core.changes.restored import relay_need
from lockstep.core.feed.relaying import Relayed, RelayLook, SinkLog
from lockstep.core.planning.decisions import Blocked

LOG = SinkLog("cluster", "sink", "id", 3)


def relayed(confirmed: int, intent: int | None = None, began_at: int = 0, log: SinkLog | None = LOG) -> Relayed:
    return Relayed("orders", "public.orders", "sink", "lockstep.0", log, confirmed, intent, 0, 100, began_at)


# known: confirmed, intent, where it began; the cursor; the newest number in the topic; where it goes on, or why not
CELLS = [
    ("the first time", (0, None), None, None, 0),
    ("the first time behind trimmed changes", (7, None, 7), None, None, 7),
    ("a restart behind what the topic has, before its cursor", (7, None, 7), None, 4, 7),
    ("never used, by a ledger of before the first transaction", (0, None), None, 2, "the topic ends with number 2"),
    (
        "a restart below what the topic has, and its cursor expired",
        (7, None, 7),
        None,
        9,
        "the topic ends with number 9",
    ),
    ("nothing in doubt", (5, None), 5, "unasked", 5),
    ("the doubtful transaction was aborted", (5, 9), 5, "unasked", 5),
    ("its commit was never acknowledged", (5, 9), 9, "unasked", 9),
    ("a commit between both", (5, 9), 7, "unasked", "Kafka was given the changes below number 7"),
    ("an older ledger", (5, None), 6, "unasked", "Kafka was given the changes below number 6"),
    ("Kafka lost what it acknowledged", (5, 9), 4, "unasked", "Kafka has a cursor at number 4"),
    ("expired, the topic ends at what is confirmed", (5, None), None, 4, 5),
    ("expired, the topic ends at what was intended", (5, 9), None, 8, 9),
    ("expired, the topic ends elsewhere", (5, 9), None, 6, "the topic ends with number 6"),
    ("expired, the topic is empty", (5, None), None, None, "the topic has no change"),
    ("the first transaction was aborted", (0, 9), None, None, 0),
    ("the first transaction was committed, and its cursor expired", (0, 9), None, 8, 9),
    ("the first transaction after a restart was aborted", (7, 9, 7), None, None, 7),
]


@pytest.mark.parametrize(("known", "cursor", "newest", "goes_on"), [c[1:] for c in CELLS], ids=[c[0] for c in CELLS])
def test_e17_each_cell_says_where_a_relay_goes_on_or_why_a_person_must_decide(known, cursor, newest, goes_on):
    def in_the_topic() -> int | None:
        assert newest != "unasked", "the topic is read only where the cursor is gone"
        return newest

    found = relayed(*known).goes_on(cursor, in_the_topic)

    if isinstance(goes_on, int):
        assert found == goes_on
        return
    assert isinstance(found, Blocked)
    assert goes_on in found.reason
    assert found.next_command == "lockstep relay orders --target public.orders --restart-at NUMBER --reason WHY"


# known; the newest number in the topic; the erased changes; where it goes on, or None for a person
ERASED = [
    ("behind what is confirmed", (5, None), 2, {3, 4}, 5),
    ("one of them is not erased", (5, None), 2, {4}, None),
    ("none is erased", (5, None), 2, set(), None),
    ("behind what was intended", (5, 9), 6, {7, 8}, 9),
    ("up to what is confirmed, and not to what was intended", (5, 9), 3, {4}, 5),
    ("all that the topic has had", (3, None), None, {0, 1, 2}, 3),
    ("all since a restart, behind what the topic had before", (9, None, 7), 4, {7, 8}, 9),
    ("some since a restart", (9, None, 7), 4, {8}, None),
    ("a topic that is ahead of the ledger", (5, None), 9, {3, 4, 5}, None),
]


@pytest.mark.parametrize(("known", "newest", "erased", "goes_on"), [c[1:] for c in ERASED], ids=[c[0] for c in ERASED])
def test_e17_changes_that_were_erased_unsent_are_not_missed_at_the_end_of_the_topic(known, newest, erased, goes_on):
    found = relayed(*known).goes_on(None, lambda: newest, lambda begin: {each for each in erased if each >= begin})
    assert isinstance(found, Blocked) if goes_on is None else found == goes_on


SINKS = [
    ("the same", LOG, None),
    ("another cluster", SinkLog("other", "sink", "id", 3), "is on the cluster other, and cluster was written"),
    ("made anew", SinkLog("cluster", "sink", "new", 3), "was deleted and made anew"),
    ("grown", SinkLog("cluster", "sink", "id", 4), "has 4 partitions, and had 3"),
]


@pytest.mark.parametrize(("log", "why"), [s[1:] for s in SINKS], ids=[s[0] for s in SINKS])
def test_e17_only_the_log_that_was_written_is_gone_on_with(log, why):
    found = relayed(5).other_sink(log, "sink")
    assert (found is None) == (why is None)
    assert why is None or why in found.reason


def test_e17_another_topic_is_refused_also_before_the_first_relay():
    assert relayed(0, log=None).other_sink(LOG, "sink") is None
    assert (
        "the definition names the topic new, and sink was written" in relayed(0, log=None).other_sink(LOG, "new").reason
    )


STOP = Blocked(
    "public.orders: it stopped", "lockstep relay orders --target public.orders --restart-at NUMBER --reason WHY"
)
LOOKS = [
    ("unknown", RelayLook(unknown="away", topic="t"), "what the topic of public.orders has is not known (away)"),
    ("goes on", RelayLook(5, topic="t"), "t has no change of public.orders that the ledger does not know"),
    ("ahead", RelayLook(12, STOP, topic="t", is_ahead=True), "--target public.orders --restart-at 7 --reason WHY, and"),
    ("ahead within the feed", RelayLook(6, STOP, topic="t", is_ahead=True), "--restart-at 6 --reason WHY, and"),
    (
        "made anew",
        RelayLook(12, STOP, topic="t"),
        "it stopped: lockstep relay orders --target public.orders --restart-at NUMBER",
    ),
    ("nothing in the topic", RelayLook(None, STOP, topic="t"), "it stopped: lockstep relay orders"),
]


@pytest.mark.parametrize(("look", "words"), [each[1:] for each in LOOKS], ids=[each[0] for each in LOOKS])
def test_restored_leads_a_relay_on_by_what_its_topic_has(look, words):
    need = relay_need("orders", "public.orders", look, 7)
    assert words in need
    assert "lockstep relay orders" in need
