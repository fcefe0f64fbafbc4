"""Mutants of what keeps a relay from losing, doubling and disordering changes."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, one

TRIMS_SQL = "ledger/migrations/0094_trimmed_without_rejects.sql"  # the newest trim_feed
REFUSES = "tests/feed/test_constraints_of_relays.py::test_a_constraint_of_a_relay_refuses_by_itself"
STOPS = "tests/feed/test_relay_stops.py::"
SENDS = "tests/feed/test_relay.py::"
KILLED = "tests/feed/test_relay_crashes.py::test_a_relay_killed_at_each_point_is_continued_by_the_next_one"
WAKES = "tests/feed/test_relay_crashes.py::test_e16_a_relay_that_wakes_up_behind_another_sends_nothing_more"
STEP, CORE, SINK = "steps/feed/relay.py", "core/feed/relaying.py", "adapters/kafka/sink.py"
TURN, PORTIONS = "steps/feed/relay_turn.py", "core/feed/portions.py"
LEFT = "tests/feed/test_erased_images.py::test_the_last_change_that_is_left_of_a_set_is_told_as_the_last"


def dropped(name: str, why: str, *cases: int, kind: str = "constraint", table: str = "relay") -> Mutant:
    """Returns a mutant that drops a constraint or a trigger of the relay's table."""
    gone = (
        f"drop trigger {name} on lockstep.{table}"
        if kind == "trigger"
        else f"alter table lockstep.relay drop {kind} {name}"
    )
    red = tuple(f"{REFUSES}[{name}-{case}]" for case in cases or (0,))
    return one(f"{name} dropped", why, red, Drop(gone), long=True)


MUTANTS = [
    dropped("known_whole", "a topic would be known without its cluster"),
    dropped("one_writer", "two feeds would fence one another"),
    dropped("one_feed_a_topic", "two feeds would be mixed up in one topic"),
    dropped("intent_ahead", "a transaction would be told of that sends nothing", 0, 1, 2),
    dropped("confirmed_rises", "changes would be sent again, or never", *range(13), kind="trigger"),
    dropped("told_before_trimmed", "changes would be gone before they are sent", kind="trigger", table="feed"),
    Mutant(
        "upkeep trims what is not sent",
        "the relay would find a hole",
        (
            Edit(TRIMS_SQL, "and c.first_number + c.changes <= coalesce(sent, of_feed.next_number))", ")"),
            Drop("drop trigger told_before_trimmed on lockstep.feed"),
        ),
        (f"{STOPS}test_e15_what_is_not_sent_is_not_trimmed",),
        long=True,
    ),
    one(
        "a relay does not fence",
        "a relay that wakes up would send behind its successor",
        (f"{WAKES}[flushed]", f"{WAKES}[offsets]"),
        Edit(TURN, "    writer.fence()\n", ""),
        long=True,
    ),
    one(
        "the cursor is not in the transaction",
        "a relay would have to search the topic, and would be lost where retention was there",
        (f"{SENDS}test_every_change_is_sent_once_in_its_order_and_the_topic_folds_to_the_table",),
        Edit(STEP, "        writer.move_cursor(portion.until)\n        reach", "        reach"),
        long=True,
    ),
    one(
        "a relay goes on at what is confirmed",
        "a transaction whose end was not told would be sent twice",
        (KILLED,),
        Edit(
            CORE,
            "        if cursor in {self.confirmed, self.intent}:\n            return cursor",
            "        if cursor:\n            return self.confirmed",
        ),
        long=True,
    ),
    one(
        "a relay takes any cursor",
        "changes would be left out behind a restored ledger",
        (f"{STOPS}test_e17_a_ledger_of_an_older_state_sends_nothing_until_a_person_says_where",),
        Edit(CORE, "if cursor in {self.confirmed, self.intent}:", "if True:"),
        long=True,
    ),
    one(
        "a relay takes any topic",
        "changes of a key would go on in another partition, or in a topic that has none of them",
        (
            f"{STOPS}test_e17_a_topic_that_was_made_anew_is_not_the_one_that_was_written",
            f"{STOPS}test_e17_a_topic_that_grew_would_turn_the_order_of_keys_round",
        ),
        Edit(TURN, "    if other is not None:\n        return other\n", ""),
        long=True,
    ),
    one(
        "an old token is taken",
        "a relay that wakes up would write over its successor's intent",
        (f"{STOPS}test_e16_a_relay_whose_token_is_old_writes_nothing_more",),
        Edit(
            "ledger/feed/relays.sql",
            "set intent = %(until)s, held_until = clock_timestamp() + %(seconds)s * interval '1 second'\n"
            "where target = %(target)s and token = %(token)s",
            "set intent = %(until)s, held_until = clock_timestamp() + %(seconds)s * interval '1 second'\n"
            "where target = %(target)s",
        ),
        long=True,
    ),
    one(
        "a transaction ends within a set",
        "a reader would see half of a commit",
        (f"{SENDS}test_e18_a_transaction_takes_whole_sets_and_a_larger_set_in_parts",),
        Edit(
            "ledger/feed/outgoing.sql",
            "coalesce(max(c.ends) filter (where c.ends <= %(begin)s + %(most)s), %(begin)s + %(most)s)",
            "least(max(c.ends), %(begin)s + %(most)s)",
        ),
        long=True,
    ),
    one(
        "a transaction has no bound in bytes",
        "large rows would never pass in the time that Kafka gives a transaction",
        (f"{SENDS}test_e18_a_transaction_is_bounded_by_its_bytes_too",),
        Edit(PORTIONS, "if size > self.most_bytes and", "if size < 0 and"),
        long=True,
    ),
    one(
        "a transaction that is cut by its bytes is not intended anew",
        "a relay that dies behind it would find a cursor that nobody meant, and stop",
        (f"{SENDS}test_e18_a_relay_that_dies_behind_a_transaction_cut_by_its_bytes_goes_on_behind_it",),
        Edit(STEP, "        if portion.until != until:\n            _intend(held, portion.until)\n", ""),
        long=True,
    ),
    one(
        "a set is cut although it fits the next transaction",
        "a reader would see half of a commit",
        (f"{SENDS}test_e18_a_transaction_is_bounded_by_its_bytes_too",),
        Edit(PORTIONS, "if record.seq == first_seq:", "if record.seq:"),
        long=True,
    ),
    one(
        "a relay passes over a hole",
        "changes that are gone would be missing from the topic without a word",
        (f"{STOPS}test_e18_a_relay_that_finds_fewer_changes_than_numbers_sends_none_of_them",),
        Edit(STEP, "        if missing:\n", "        if missing < 0:\n"),
        long=True,
    ),
    one(
        "changes are sent in the order that they are read",
        "a reader would keep an older row of a key",
        (f"{STOPS}test_a_relay_sends_no_change_behind_a_later_one",),
        Edit("ledger/feed/outgoing.py", "if row.number <= last:", "if row.number < 0:"),
        long=True,
    ),
    one(
        "a restart does not wait for a trim",
        "changes that a person asked for again would be trimmed under the relay",
        (f"{STOPS}test_e21_a_restart_waits_for_a_trim_and_is_refused_below_what_it_leaves",),
        Edit(STEP, "            hold_trimming(cur, target.table)\n", ""),
        long=True,
    ),
    one(
        "a relay is made beside a trim",
        "it would begin at changes that are gone",
        (f"{STOPS}test_e15_a_relay_that_is_made_beside_a_trim_begins_at_what_is_kept",),
        Edit("ledger/feed/make.py", "            hold_trimming(cur, target.table)", "            pass"),
        long=True,
    ),
    one(
        "the last change is the last number",
        "a reader of whole commits would hold back a set whose last change was erased",
        (f"{LEFT}[row]",),
        Edit(
            "ledger/feed/outgoing.sql",
            "i._ordinal_in_set = s.last as is_last,\n"
            "    (extract(epoch from s.at) * 1000)::bigint as at_ms, {key} as key,\n    case",
            "i._ordinal_in_set = s.changes - 1 as is_last,\n"
            "    (extract(epoch from s.at) * 1000)::bigint as at_ms, {key} as key,\n    case",
        ),
        long=True,
    ),
    one(
        "times are the session's",
        "a reader would take one time for another",
        (f"{SENDS}test_e19_values_are_exact_and_times_are_in_utc",),
        Edit("ledger/feed/outgoing.py", "to_char({0} at time zone 'UTC',", "to_char({0} at time zone 'Asia/Tokyo',"),
        long=True,
    ),
    one(
        "the order of partitions is librdkafka's",
        "a key's changes would not be where a Java producer puts them",
        (f"{SENDS}test_e19_a_key_stands_where_every_other_producer_puts_it",),
        Edit(SINK, '                "partitioner": "murmur2_random",\n', ""),
        long=True,
    ),
    one(
        "a relay that was never used does not look at the topic",
        "a ledger of before its first transaction would send everything again",
        f"{STOPS}test_e17_a_ledger_of_before_the_first_relay_sends_nothing_again_where_the_cursor_has_expired",
        Edit("core/feed/relaying.py", "self.is_untouched and last < self.began_at", "self.is_untouched"),
        long=True,
    ),
]
