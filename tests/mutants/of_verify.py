"""Lists mutants of verify: what it compares, what it counts, and what it reports as compared."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

APPEND = "tests/kafka/test_verify.py::"
KEYED = "tests/kafka/test_verify_keyed.py::"
WINDOWS = "tests/windows/test_verify_deep.py::"
EXTENT = "tests/core/test_verification.py::"
WRONG = "tests/kafka/test_wrong_rows.py::"
AGAIN = "tests/kafka/test_run_again.py::"

MUTANTS = [
    one(
        "plain verify does not say that values of keys were not compared",
        "a value that was changed by hand would pass, and nothing would name the look that finds it",
        f"{KEYED}test_plain_verify_says_that_values_were_not_compared_and_names_the_command_that_compares_them",
        Edit("steps/proof/verify.py", "checks if results else checks + values_left_out(pipeline)", "checks"),
        long=True,
    ),
    one(
        "the last line does not say what digests do not prove",
        "a reader would take a sum of hashes for a proof against forgers",
        "tests/core/test_verification.py::test_where_digests_alone_speak_for_contents_the_last_line_says_what_they_do_not_prove"
        "[checks0-True]",
        Edit("core/proof/extent.py", 'return self.contents == "ledger" or (', "return ("),
        long=True,
    ),
    one(
        "verify takes any definition",
        "promises would be proved over another, empty table",
        (f"{APPEND}test_a_definition_that_is_not_the_ledgers_is_refused[plain-another table]",),
        Edit("steps/proof/verify.py", "    if changed:\n", "    if changed and not pipeline.name:\n"),
        long=True,
    ),
    one(
        "verify compares no values of appended rows",
        "a row that was changed in the target would pass",
        (f"{APPEND}test_deep_names_a_row_that_was_changed[a plain table]",),
        Edit("targets/proof/decoded.sql", "or {is_different} or", "or"),
        long=True,
    ),
    one(
        "verify takes the second row of a record",
        "a doubled row would pass where no index keeps rows apart",
        (f"{APPEND}test_deep_names_a_row_that_is_doubled_where_no_index_keeps_rows_apart",),
        Edit("steps/proof/verify_append.py", "elif len(ordinals) > 1 and", "elif len(ordinals) > 2 and"),
        long=True,
    ),
    one(
        "verify compares no values of upserted rows",
        "a row that was changed in the target would pass",
        (f"{KEYED}test_deep_names_a_row_that_was_changed",),
        Edit("targets/proof/newest.sql", 'not e."Erased" and {is_different}', "{is_different} and false"),
        long=True,
    ),
    one(
        "verify counts no keys",
        "a deleted row of an upserted table would pass",
        (f"{KEYED}test_plain_verify_counts_keys_by_the_effects_of_commits",),
        Edit(
            "ledger/proof/verify.py",
            "return PromiseCheck(name, row.expected == row.found, detail",
            "return PromiseCheck(name, True, detail",
        ),
        long=True,
    ),
    one(
        "verify says contents where none were compared",
        "the last line would say more than was looked at",
        "tests/core/test_verification.py::test_a_check_that_says_nothing_of_what_it_proves_proves_nothing "
        "tests/core/test_verification.py::test_the_conclusion_names_every_target",
        Edit("core/proof/extent.py", '("ledger" if proved_by_ledger else "no"), None', '"ledger", None'),
    ),
    one(
        "a part of the rows counts for all of them",
        "a forged row would be said to be compared with Kafka",
        f"{EXTENT}test_what_was_compared_in_part_is_said_in_numbers",
        Edit("core/proof/extent.py", "if share is None:", "if share is None or share.compared:"),
        long=True,
    ),
    one(
        "rows of which none was compared are said to be compared",
        "a look at a log that was made anew would prove everything",
        (f"{EXTENT}test_a_check_that_compared_none_of_the_rows_is_not_made_and_the_next_command_is_named",),
        Edit("core/proof/extent.py", "if share is None:", "if share is None or not share.compared:"),
        long=True,
    ),
    one(
        "rows without a record in the log count as compared",
        "every row below the log's start could be forged",
        (f"{KEYED}test_rows_whose_records_retention_has_taken_are_not_said_to_be_compared",),
        Edit("steps/proof/verify_upsert.py", "Share(compared, rows, batch", "Share(rows, rows, batch"),
        long=True,
    ),
    one(
        "verify looks past rows of no stream",
        "a row that was put in by hand would pass",
        (f"{APPEND}test_what_was_spoiled_is_found[a row is of no stream]",),
        Edit(
            "ledger/proof/verify.sql", "(s.pipeline = %(pipeline)s or s.stream_id is null)", "s.pipeline = %(pipeline)s"
        ),
        long=True,
    ),
    one(
        "verify judges windows by today's watermark",
        "whatever was in time would be called a lost late row",
        (f"{WINDOWS}test_windows_that_are_whole_are_compared_with_kafka",),
        Edit(
            "targets/proof/recount.sql",
            "then b.watermark end as watermark",
            "then (select e.watermark from lockstep.event_time e limit 1) end as watermark",
        ),
        Edit("targets/proof/recount.sql", "b.lane = 'live' and b.watermark > '-infinity' and not", "not"),
        long=True,
    ),
    one(
        "verify takes every admission for replayed",
        "late rows that wait for their replay would be called put in",
        (f"{WINDOWS}test_what_is_admitted_is_late_until_its_replay_and_then_counts",),
        Edit("targets/proof/recount.sql", "and o.token > (", "and 0 < ("),
        long=True,
    ),
    one(
        "verify compares no totals of windows",
        "a total that was changed in the row and in the ledger alike would pass",
        (f"{WINDOWS}test_what_is_forged_is_named[totals that are changed everywhere]",),
        Edit(
            "targets/proof/recount.sql",
            "l._key is not null and k._key is not null and ({names_of_left}) is distinct from ({names_of_kept})",
            "({names_of_left}, false) is distinct from ({names_of_left}, false)",
        ),
        long=True,
    ),
    one(
        "verify looks at windows of which it read a part",
        "what retention took would be called changed",
        (f"{WINDOWS}test_what_the_log_no_longer_holds_is_said_and_the_rest_is_compared",),
        Edit(
            "targets/proof/recount.sql",
            "where not exists (select from others o where o.key = coalesce(k._key, jsonb_build_array({target_keys}))) and case",
            "where case",
        ),
        long=True,
    ),
    one(
        "verify takes no lateness but today's",
        "a lateness that was changed since would make a ledger wrong that is whole",
        (f"{WINDOWS}test_a_segment_is_judged_by_the_lateness_of_its_own_definition",),
        Edit(
            "steps/proof/verify_windows.py",
            'parse_duration(its, "target.lateness")',
            'parse_duration(target.lateness, "lateness")',
        ),
        long=True,
    ),
    one(
        "verify since a batch compares no contents",
        "a row of it that was changed would pass",
        ("tests/cli/test_verify.py::test_since_a_batch_each_forged_row_of_it_is_found",),
        Edit("steps/proof/verify.py", "        checks += contents_checks(cur, pipeline, since)\n", ""),
        long=True,
    ),
    one(
        "verify since a batch counts no rows",
        "a row of it that is gone would pass",
        ("tests/cli/test_verify.py::test_since_a_batch_each_forged_row_of_it_is_found",),
        Edit(
            "steps/proof/verify.py",
            "            checks += ledger.checks_since(cur, pipeline, since)\n",
            "            pass\n",
        ),
        long=True,
    ),
    one(
        "verify names no batch of a wrong row",
        "an operator would not know what to replay",
        (f"{WRONG}test_verify_leads_to_the_command_that_puts_wrong_rows_right[append-changed]",),
        Edit("ledger/proof/verify_contents.py", '{target.table}"), batch=row.batch_id)', '{target.table}"))'),
        Edit("targets/proof/decoded.py", "[segment.batch_id for _ in found]", "[]"),
        long=True,
    ),
    one(
        "a count goes on while rows are wrong",
        "a missing row would be accepted without a word",
        (f"{WRONG}test_a_row_that_a_later_record_has_brought_back_is_counted_on_by_decision",),
        Edit("steps/proof/recount.py", "    if wrong:", "    if wrong and not keyed:"),
        long=True,
    ),
    one(
        "a recount is not counted",
        "verify would say NO for ever",
        (f"{WRONG}test_a_row_that_a_later_record_has_brought_back_is_counted_on_by_decision",),
        Edit("ledger/proof/verify.sql", "where d.kind = 'recount' and", "where d.kind = 'skip' and"),
        long=True,
    ),
    one(
        "recount_is_told dropped",
        "a decision would not say which count is off, and by how much",
        "tests/ledger/test_constraints_of_counts.py::"
        "test_the_database_refuses_a_recount_that_does_not_say_of_which_table_and_by_how_much",
        Drop("alter table lockstep.decision drop constraint recount_is_told"),
        long=True,
    ),
    one(
        "verify compares no values where a transform makes the rows",
        "a row that was changed in the target would pass as soon as there is a transform.py",
        (f"{AGAIN}test_rows_that_a_transform_made_are_compared_with_what_it_makes_again",),
        Edit("targets/proof/remade.sql", "or {is_different} or {is_other_kind}", "or {is_other_kind}"),
        long=True,
    ),
    one(
        "verify misses no row that the transform makes",
        "a deleted row of nulls would pass where the transform filters other records",
        (f"{AGAIN}test_a_row_of_nulls_that_is_gone_is_named",),
        Edit("targets/proof/remade.sql", "where t._offset is null or e._offset is null", "where e._offset is null"),
        long=True,
    ),
    one(
        "verify compares no rejects where a transform makes the rows",
        "a record could be taken out of the table and put among the rejects",
        (f"{AGAIN}test_a_record_that_the_transform_rejects_is_compared_as_a_reject",),
        Edit("steps/rerun/rejects.py", "sorted(now ^ then)", "sorted(now & then - now)"),
        long=True,
    ),
    one(
        "a batch of other code is run again by today's",
        "rows that another transform made would be called wrong",
        (f"{AGAIN}test_batches_that_other_code_made_are_not_made_and_the_replay_is_named",),
        Edit("steps/rerun/remade.py", "if alike.issuperset(made_by)]", "]"),
        long=True,
    ),
    one(
        "rows that no run makes the same are called wrong",
        "a transform that takes the time or chance would never hold",
        (
            f"{AGAIN}test_a_transform_that_makes_other_rows_each_time_is_not_made_and_not_wrong",
            f"{AGAIN}test_what_differs_where_a_transform_takes_values_from_outside_is_not_made",
        ),
        Edit("steps/rerun/again.py", "if why := self._remade.why_unrepeatable(batch):", 'if why := "":'),
        long=True,
    ),
]
