"""Mutants of what keeps a pipeline from taking back what it sent, and a topic from differing from its feed."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, one

SENDS_SQL = "ledger/migrations/0042_sends.sql"
TRIMS_SQL = "ledger/migrations/0094_trimmed_without_rejects.sql"
REFUSES = "tests/feed/test_constraints_of_sends.py::test_a_constraint_of_a_send_refuses_by_itself"
SENDS = "tests/feed/test_sends.py::"
TOPICS = "tests/feed/test_verify_topics.py::"
AVRO = "tests/feed/test_avro_values.py::"

MUTANTS: list[Mutant] = [
    one(
        "trimmed_stays dropped",
        "a replay would send again what is trimmed",
        (f"{REFUSES}[trimmed_stays-0]", f"{REFUSES}[trimmed_stays-1]"),
        Drop("drop trigger trimmed_stays on lockstep.trimmed"),
        long=True,
    ),
    one(
        "the database lets a replay take back what was sent",
        "a reader would have rows that nothing stands for",
        tuple(f"{REFUSES}[sent_stays-{n}]" for n in range(5)),
        Edit(
            SENDS_SQL,
            "if taken_back.changed + taken_back.gone + taken_back.again > 0 or of_feed.sends and new.kind <> 'batch' then",
            "if false then",
        ),
        long=True,
    ),
    one(
        "a person's change is sent",
        "a record would be sent that no record made",
        (f"{REFUSES}[sent_stays-4]",),
        Edit(SENDS_SQL, " or of_feed.sends and new.kind <> 'batch' then", " then"),
        long=True,
    ),
    one(
        "a feed may stop to send",
        "a replay would change what was sent",
        (f"{REFUSES}[feed_by_one-0]",),
        Edit(SENDS_SQL, "new.began_empty, new.sends) is distinct", "new.began_empty, old.sends) is distinct"),
        long=True,
    ),
    one(
        "anybody takes rows away that were sent",
        "verify would miss rows, and a replay would send them again",
        (f"{REFUSES}[only_by_commit-0]",),
        Edit(
            SENDS_SQL,
            "where t.target = tg_argv[0] and t.xmin = pg_current_xact_id()::xid) then",
            "where true) or true then",
        ),
        long=True,
    ),
    one(
        "a trimmed record is sent again",
        "a reader would see it twice",
        (f"{SENDS}test_e20_rows_are_trimmed_with_their_changes_once_they_are_sent_and_never_sent_again",),
        Edit(SENDS_SQL, "x.offsets @> new._offset)", "false)"),
        long=True,
    ),
    one(
        "upkeep keeps the rows of what it trims",
        "the table would grow for ever",
        (f"{SENDS}test_e20_rows_are_trimmed_with_their_changes_once_they_are_sent_and_never_sent_again",),
        Edit(TRIMS_SQL, "    if of_feed.sends then\n        execute", "    if false then\n        execute"),
        long=True,
    ),
    one(
        "a replay's counts are not told",
        "a person would not know what a replay would take back",
        (
            f"{SENDS}test_e20_a_replay_that_would_change_or_unsay_what_was_sent_is_refused_with_counts[changes]",
            f"{SENDS}test_e20_a_replay_that_would_change_or_unsay_what_was_sent_is_refused_with_counts[unsays]",
        ),
        Edit("steps/feed/announce_changes.py", "        require_unsaid_nothing(cur, pipeline)\n", ""),
        long=True,
    ),
    one(
        "a send's key is its place in the log",
        "a key's records would be in any partition",
        (f"{SENDS}test_e20_each_row_is_sent_once_under_its_key_with_the_record_that_made_it",),
        Edit("steps/feed/relay.py", "topic.shape, message_key(held.target))", "topic.shape, row_key(held.target))"),
        Edit(
            "steps/feed/relay.py",
            "from lockstep.core.pipeline.targets import message_key",
            "from lockstep.core.pipeline.targets import row_key",
        ),
        long=True,
    ),
    one(
        "verify passes over a stranger's record",
        "a reader would take it for a change",
        (f"{TOPICS}test_deep_names_a_record_that_a_stranger_produced[json]",),
        Edit(
            "steps/proof/verify_topic.py",
            '            self.wrong.add(f"{where}: no relay has sent this record")\n',
            "",
        ),
        long=True,
    ),
    one(
        "verify does not compare values",
        "a changed image would be found by nobody",
        (f"{TOPICS}test_deep_names_a_change_whose_image_was_changed_or_dropped[json]",),
        Edit("steps/proof/verify_topic.py", "elif there != its and not", "elif False and not"),
        long=True,
    ),
    one(
        "verify takes any cursor",
        "a ledger of an older state would pass",
        (f"{TOPICS}test_a_cursor_behind_or_past_what_the_ledger_knows_is_told[json]",),
        Edit("steps/proof/verify_topic.py", "if at > now.next_number:", "if False:"),
        long=True,
    ),
    one(
        "decimals lose a digit in Avro",
        "an amount would be another one",
        (f"{AVRO}test_e19_avro_values_are_exact_and_times_are_in_utc",),
        Edit("formats/avro/encoding.py", "int(10 ** (scale + exponent))", "int(10 ** (scale + exponent)) // 10 * 10"),
        long=True,
    ),
]
