"""Lists mutants of the guards of a pipeline that begins where another reader stands."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

PURE = "tests/core/test_adoption.py::"
LEDGER = "tests/ledger/test_adopted.py::"
CLI = "tests/cli/test_adopt.py::"
BROKEN = f"{PURE}test_a_broken_or_another_offsets_file_is_refused"
TWO_TOPICS = (
    '[v1\\n{}\\n{"clicks": {"0": 5}, "orders.v1": {"0": 5}}-it reads clicks too, and orders reads orders.v1 alone]'
)
TOLD = f"{LEDGER}test_the_database_refuses_a_decision_that_does_not_say_all"
BEGINS = f"{LEDGER}test_the_database_begins_where_the_decision_says_and_nowhere_else"

MUTANTS = [
    one(
        "adopt_is_told dropped",
        "a decision would not say whose offsets they were, and where each partition began",
        tuple(f"{TOLD}[{each}]" for each in ("nothing", "digest", "no object", "no kind", "nowhere", "no topic")),
        Drop("alter table lockstep.decision drop constraint adopt_is_told"),
        long=True,
    ),
    one(
        "adopted_first dropped",
        "a pipeline that has read records would be said to begin",
        f"{LEDGER}test_the_database_begins_no_pipeline_twice",
        Drop("drop trigger adopted_first on lockstep.decision"),
        long=True,
    ),
    one(
        "adopted_as_decided dropped",
        "the streams would begin elsewhere than the decision says",
        tuple(f"{BEGINS}[{each}]" for each in ("none", "elsewhere", "one more")),
        Drop("drop trigger adopted_as_decided on lockstep.decision"),
        long=True,
    ),
    one(
        "a loss needs nobody who accepts it",
        "records that nobody has read would be passed over without a word",
        f"{PURE}test_deleted_offsets_are_lost_and_must_be_accepted_by_their_partition",
        Edit("core/changes/adoption.py", "in lost.items() if at not in accepted)", "in lost.items() if at is None)"),
        long=True,
    ),
    one(
        "offsets past the log's end are taken",
        "records would be left out until the log is as long as another one was",
        f"{PURE}test_offsets_outside_of_the_log_are_refused",
        Edit(
            "core/changes/adoption.py",
            "if offset > bounds_at[at].stable_end:",
            "if offset > bounds_at[at].stable_end + 1:",
        ),
        long=True,
    ),
    one(
        "a partition without an offset begins nowhere",
        "its records would be read from where growth begins, or never",
        f"{PURE}test_given_offsets_are_for_partitions_that_the_reader_has_none_in",
        Edit("core/changes/adoption.py", "if at not in stands}", "if at is None}"),
        long=True,
    ),
    one(
        "the digest is of offsets alone",
        "offsets of a topic that was made anew would begin as they were shown for the old one",
        f"{PURE}test_the_digest_is_of_where_it_begins_and_of_what_is_lost_not_of_the_logs_end",
        Edit("core/changes/adoption.py", "each.topic, each.topic_id] for each", "each.topic] for each"),
        long=True,
    ),
    one(
        "the digest does not hold what is lost",
        "a loss would be accepted that nobody was shown",
        f"{PURE}test_the_digest_is_of_where_it_begins_and_of_what_is_lost_not_of_the_logs_end",
        Edit("core/changes/adoption.py", "partition, each.stands, each.first]", "partition, each.stands]"),
        long=True,
    ),
    one(
        "a planned batch counts for nothing",
        "its rows would be there twice if the query's sink has them",
        f"{PURE}test_a_batch_that_is_planned_and_not_committed_is_refused_by_its_offsets",
        Edit("core/changes/readers.py", "offsets[-1] if offsets[-1] > commits[-1] else None", "None"),
        long=True,
    ),
    one(
        "batches of a checkpoint are ordered as texts",
        "the ninth batch would be the last one, and all behind it read again",
        f"{PURE}test_a_tenth_batch_is_behind_a_ninth",
        Edit(
            "core/changes/readers.py",
            "sorted(int(name) for name in names if _ENTRY.match(name))",
            "sorted((int(name) for name in names if _ENTRY.match(name)), key=str)",
        ),
        long=True,
    ),
    one(
        "a query of two topics is taken for one",
        "the other topic would have no reader any more",
        (f"{BROKEN}{TWO_TOPICS}",),
        Edit("core/changes/readers.py", "    if others:", "    if len(others) > 1:"),
        long=True,
    ),
    one(
        "a reader is looked at once",
        "what it reads meanwhile would be there twice",
        f"{LEDGER}test_a_reader_that_moves_between_two_looks_is_refused_by_partition",
        Edit("steps/changes/adopt.py", "now = source.look(partitions)", "now = before"),
        long=True,
    ),
    one(
        "an adoption takes any digest",
        "the pipeline would begin where nobody was shown",
        f"{LEDGER}test_a_digest_of_other_offsets_begins_nothing",
        Edit("steps/changes/adopt.py", "    if shown.digest != digest:", "    if not digest:"),
        long=True,
    ),
    one(
        "a loss of an adoption is not covered",
        "a plan would wait for a decision that was made",
        f"{LEDGER}test_deleted_offsets_are_covered_as_lost_with_a_decision_of_their_own",
        Edit("steps/changes/adopt.py", "for lost in shown.lost:", "for lost in shown.lost[:0]:"),
        long=True,
    ),
    one(
        "a group with live members is taken over",
        "two readers would go on from one offset",
        f"{CLI}test_what_a_group_has_read_and_what_is_read_behind_it_is_each_record_once",
        Edit("adapters/kafka/group.py", "if known[group] != RESTING:", "if known[group] == RESTING.upper():"),
        long=True,
    ),
]
