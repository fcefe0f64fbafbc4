"""Lists mutants of a history: its versions would end at other moments, twice, or never."""

from __future__ import annotations

from mutants.mutant import Edit, one

SCENES = "tests/simulation/test_versions.py::"
KAFKA = "tests/kafka/test_versions.py::"
STEPS_BACK = f"{SCENES}test_a_later_record_ends_all_that_stand_at_its_moment_also_where_time_steps_back"
REPLAYED = f"{KAFKA}test_versions_are_proved_and_traced_and_a_replay_takes_some_out_and_brings_them_back"
MOVED = f"{SCENES}test_a_key_in_two_partitions_of_the_log_is_refused_and_named"
MISFIT = f"{SCENES}test_a_table_that_cannot_hold_versions_is_refused_before_anything_is_read"
GUARDS = f"{SCENES}test_the_database_alone_refuses_a_second_current_version_and_an_end_before_the_beginning"

MUTANTS = [
    one(
        "a version that is valid for no time is taken for the last one",
        "the one that stands would stay current beside the new one",
        STEPS_BACK,
        Edit(
            "targets/history.sql",
            "and (b.valid_until is null or b.valid_until > b.valid_from) order by b.valid_from desc limit 1",
            "order by b.valid_from desc limit 1",
        ),
        long=True,
    ),
    one(
        "an end before the beginning",
        "as of a moment, two versions of a key would be found",
        STEPS_BACK,
        Edit("targets/history.sql", 'then greatest(valid_from, "Next") end', 'then "Next" end'),
        long=True,
    ),
    one(
        "the moment orders versions without order_by",
        "a producer's clock that steps back would make an older record current",
        STEPS_BACK,
        Edit(
            "targets/history.py",
            '"order": sql.SQL("valid_from desc," if target.order_by else ""),',
            '"order": sql.SQL("valid_from desc,"),',
        ),
        long=True,
    ),
    one(
        "a deletion is valid until the next record",
        "a key that is gone would be found",
        STEPS_BACK,
        Edit("targets/history.sql", "case when _deleted then valid_from when", "case when"),
        long=True,
    ),
    one(
        "versions of one moment are not ordered by their offsets",
        "which of them counts would be chance",
        f"{SCENES}test_of_one_rank_the_later_record_is_the_version_and_what_changes_nothing_is_one_too",
        Edit(
            "targets/history.sql", '"Epoch" desc, _offset desc, _stream desc,', '"Epoch" desc, _offset, _stream desc,'
        ),
        long=True,
    ),
    one(
        "a replay leaves the ends of the versions beside it",
        "a version that nothing follows any more would be over",
        REPLAYED,
        Edit("targets/history.py", "    if withdrawn:\n", "    if not withdrawn:\n"),
        long=True,
    ),
    one(
        "a key in two partitions is let through",
        "which record comes first would be chance",
        f"{MOVED}[True] {MOVED}[False]",
        Edit("targets/history.sql", "min(_stream) <> max(_stream) and bool_or", "count(*) < 0 and bool_or"),
        long=True,
    ),
    one(
        "a table may have two current versions of a key",
        "wrong code would not be stopped by the database",
        f"{MISFIT}[no-index]",
        Edit(
            "targets/table/versions.py",
            "if lacks_current_index(cur, target):",
            "if not lacks_current_index(cur, target):",
        ),
        long=True,
    ),
    one(
        "a deletion may be valid for a time",
        "a key that is gone would be found, and the database would not mind",
        f"{GUARDS}[deletion-with-time]",
        Edit(
            "ledger/admin/version_indexes.sql",
            " and (not _deleted or valid_until = valid_from and valid_until is not null))",
            ")",
        ),
        long=True,
    ),
    one(
        "verify does not look at the ends of versions",
        "an end that was changed by hand would stay unnoticed",
        f"{KAFKA}test_wrong_ends_moments_and_deletions_are_named",
        Edit(
            "targets/proof/by_ledger.py",
            "        case History():\n",
            "        case None:\n",
        ),
        long=True,
    ),
    one(
        "the digest takes a deletion for a row of nulls",
        "verify would name every batch with a deletion",
        REPLAYED,
        Edit("ledger/proof/verify_contents.py", "marks_deletions=isinstance(target, History)", "marks_deletions=False"),
        long=True,
    ),
]
