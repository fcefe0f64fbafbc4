"""Lists mutants of the guards that keep an altered table, its batches and its record right."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

LEDGER = "tests/ledger/test_evolution.py::"
CLI = "tests/cli/test_evolve.py::"
SAFE = f"{CLI}test_a_type_is_widened_only_where_every_value_stays_as_it_is"
LARGE = "tests/ledger/test_found_by_record.py::test_no_look_for_the_rows_of_a_record_reads_a_large_table_through"

MUTANTS = [
    one(
        "a table is not looked at again under its lock",
        "a change that another session made meanwhile would be taken for what was shown",
        f"{LEDGER}test_a_table_that_changes_while_the_change_waits_refuses_the_digest",
        Edit(
            "steps/changes/evolve.py",
            "now = evolution.find_differences(cur, pipeline, columns).only(only)",
            "now = shown",
        ),
        long=True,
    ),
    one(
        "a change does not wait for a commit under way",
        "a commit would look at the table before the change, and attach its rows after it",
        f"{LEDGER}test_a_change_waits_for_a_commit_under_way",
        Edit(
            "steps/changes/evolve.py",
            "        decisions.lock_batches(cur, owners.unfinished_of_pipeline(cur, name))\n",
            "",
        ),
        long=True,
    ),
    one(
        "any digest is taken",
        "what runs would not be what was shown",
        f"{CLI}test_a_table_that_changed_since_refuses_the_digest "
        f"{CLI}test_a_definition_that_changed_since_refuses_the_digest",
        Edit("steps/changes/evolve.py", "    if proposal.digest != digest:", "    if not digest:"),
        long=True,
    ),
    one(
        "the table of another pipeline is altered",
        "its owner would learn of it at the next batch",
        f"{CLI}test_another_pipelines_table_is_not_altered",
        Edit("steps/changes/evolve.py", "        if conflict:", "        if conflict is False:"),
        long=True,
    ),
    one(
        "an author's code runs by a change",
        "it would run in the session of the login that migrates",
        f"{CLI}test_code_of_an_author_does_not_run_by_a_change",
        Edit("targets/table/evolution.py", "            if code:", "            if code is False:"),
        long=True,
    ),
    one(
        "a key is widened",
        "deletions that the ledger remembers would name other keys",
        (f"{CLI}test_what_is_not_safe_is_explained_with_its_recipe_and_never_run[a key of another type]",),
        Edit("targets/table/evolution.py", "if is_key or row.is_collated or wanted", "if row.is_collated or wanted"),
        long=True,
    ),
    one(
        "a collation is lost by a change",
        "rows would be compared and ordered otherwise than before",
        (f'{SAFE}[varchar(5) collate "C" for string]',),
        Edit("targets/table/evolution.py", "if is_key or row.is_collated or wanted", "if is_key or wanted"),
        long=True,
    ),
    one(
        "digits before the point are not counted",
        "a wider scale would leave no room for numbers that are there",
        (f"{SAFE}[numeric(5,2) for decimal(6,4)]",),
        Edit(
            "core/changes/evolution.py",
            "max(_before_point(ours), _before_point(theirs)) + scale",
            "max(int(ours[1]), int(theirs[1]))",
        ),
        long=True,
    ),
    one(
        "a text without a greatest length has another digest",
        "contents of old batches would not be provable any more",
        f"{LEDGER}test_contents_of_a_text_that_became_longer_are_still_proven",
        Edit("ledger/staging/digests.py", "    if is_longer_text(one, other):", '    if one == "":'),
        long=True,
    ),
    one(
        "alter_is_told dropped",
        "a decision would not say what was run",
        f"{LEDGER}test_the_database_refuses_an_alteration_that_does_not_tell_what_was_run",
        Drop("alter table lockstep.decision drop constraint alter_is_told"),
        long=True,
    ),
    one(
        "a new keyed table gets no index of its records",
        "lineage and a replay would read all of it",
        (f"{LARGE}[upsert]", f"{LARGE}[accumulate]"),
        Edit(
            "ledger/admin/author.py",
            "            index_new_tables(cur, [t.table for t",
            "            print([t.table for t",
        ),
        long=True,
    ),
    one(
        "a replay does not prefer an index",
        "it would read all of a large table under the target's lock",
        (f"{LARGE}[upsert]", f"{LARGE}[accumulate]"),
        Edit("targets/rows.py", "set local enable_seqscan = off", "set local enable_seqscan = on"),
        long=True,
    ),
    one(
        "a replay of a table by batch does not name its batches",
        "it would look into every partition",
        "tests/ledger/test_found_by_record.py::test_a_replay_of_a_table_by_batch_touches_its_batches_partitions_alone",
        Edit("targets/append.py", "    if is_by_batch(cur, target.table):", "    if not target.table:"),
        long=True,
    ),
]
