"""Lists mutants of the single owner of a table, and of the order of a key's records and deletions."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

OWNERS = "tests/ledger/test_owners.py::"
MOVED = "tests/simulation/test_keys_that_moved.py::"
FORGOTTEN = "tests/simulation/test_forgotten_deletions.py::"
HOW_FAR = f"{FORGOTTEN}test_how_far_deletions_may_be_forgotten"
GIVEN = "tests/cli/test_hand_over.py::test_a_hand_over_that_makes_no_sense_is_refused_in_one_line"
NULLS = "tests/ledger/test_null_keys.py::"
TWO = "tests/ledger/test_by_batch_of_two.py::"
AGREE = f"{OWNERS}test_the_database_refuses_owners_that_do_not_agree"

MUTANTS = [
    one(
        "a plan does not ask for the owner",
        "two pipelines would append to one table",
        f"{OWNERS}test_one_who_plans_a_table_of_another_pipeline_is_answered_blocked",
        Edit(
            "steps/batch/plan.py", "if isinstance(decision, Start | Resume) else None", "if decision is None else None"
        ),
        long=True,
    ),
    one(
        "migrate does not ask for the owner",
        "a second pipeline would be set up on the table",
        f"{OWNERS}test_a_second_pipeline_on_an_appended_table_is_refused_at_migrate_and_at_plan",
        Edit("ledger/migrate.py", "        register(cur, pipeline)\n", ""),
        long=True,
    ),
    one(
        "the owner's index is dropped",
        "with the trigger off, two pipelines would own one table",
        f"{OWNERS}test_two_owners_are_refused_by_an_index_alone",
        Drop("drop index lockstep.one_owner"),
        long=True,
    ),
    one(
        "the owners' trigger is dropped",
        "one pipeline would share a table that the other does not",
        (f"{AGREE}[rows1-owned_once]", f"{AGREE}[rows2-owned_once]", f"{AGREE}[rows3-owned_once]"),
        Drop("drop trigger owned_once on lockstep.target_owner"),
        long=True,
    ),
    one(
        "a commit does not ask for the owner",
        "a batch that was planned before a hand-over would write the other pipeline's table",
        f"{OWNERS}test_a_commit_into_a_table_that_was_given_away_meanwhile_is_refused_by_the_database",
        Drop("drop trigger commit_by_owner on lockstep.commit"),
        long=True,
    ),
    one(
        "one definition's word is enough to share a table",
        "the other pipeline's author would not know of it",
        "tests/cli/test_hand_over.py::test_definitions_that_name_each_other_share_the_table",
        Edit(
            "core/health/ownership.py",
            "owner.pipeline in shared_with and pipeline in owner.shared_with",
            "owner.pipeline in shared_with",
        ),
        long=True,
    ),
    one(
        "of two writers of an older ledger the first to plan becomes the owner",
        "nobody would learn that its rows are doubled",
        f"{OWNERS}test_a_table_that_two_pipelines_have_written_is_told_and_neither_is_chosen",
        Edit("core/health/ownership.py", "if not owners else []", "if owners else []"),
        long=True,
    ),
    one(
        "a table is handed over while a batch would write it",
        "that batch would be refused at its commit, for ever",
        f"{OWNERS}test_a_table_is_not_handed_over_while_a_batch_would_write_it",
        Edit("steps/changes/hand_over.py", "        if unfinished:", "        if unfinished == [-1]:"),
        long=True,
    ),
    one(
        "a pipeline hands over what is not its own",
        "its owner would learn of it at the next commit",
        (f"{GIVEN}[a stranger]", f"{GIVEN}[the wrong way round]"),
        Edit("steps/changes/hand_over.py", "        _refuse_a_stranger(cur, its, giver, receiver, recorded)\n", ""),
        long=True,
    ),
    one(
        "a pipeline hands a table over to itself",
        "the decision would say that something changed",
        (f"{GIVEN}[itself]",),
        Edit("steps/changes/hand_over.py", "if giver == receiver.name:", 'if giver == "":'),
        long=True,
    ),
    one(
        "a new owner begins where its definition says",
        "a renamed pipeline would read every record again",
        f"{OWNERS}test_the_new_owner_goes_on_where_the_old_one_stopped_and_no_record_comes_twice",
        Edit(
            "steps/changes/hand_over.py",
            "own, given = _where_it_ended(cur, giver, receiver, is_former=bool(recorded) and is_new)",
            "own, given = (), {}",
        ),
        long=True,
    ),
    one(
        "a fill of a new owner begins at the log's start",
        "records that the old owner has read would stand twice in the table",
        f"{OWNERS}test_a_fill_of_the_new_owner_reads_nothing_that_the_old_one_has_read",
        Edit("ledger/migrations/0081_read_by_another.sql", "::bigint = i.start_offset", "::bigint < 0"),
        long=True,
    ),
    one(
        "a former owner goes on where it stopped itself",
        "records that its successor has read would stand twice in the table",
        f"{OWNERS}test_a_table_that_is_handed_back_is_read_on_where_the_other_owner_stopped",
        Edit("steps/changes/hand_over.py", "if not given or (own and not is_former):", "if not given or own:"),
        long=True,
    ),
    one(
        "a former owner's row may be newer than a new owner's record",
        "offsets of two pipelines say nothing about each other",
        f"{OWNERS}test_the_records_of_a_new_owner_are_newer_than_the_rows_of_the_old_one",
        Edit("targets/upsert.sql", "case when s.pipeline = any(%(peers)s)\n", "case when true\n"),
        long=True,
    ),
    one(
        "keys of two pipelines are compared by offset",
        "offsets of two topics say nothing about each other",
        f"{OWNERS}test_two_pipelines_that_name_each_other_share_an_upserted_table",
        Edit(
            "targets/upsert.sql",
            '(s.pipeline <> %(pipeline)s or s.epoch = n."Epoch" or (',
            "(s.pipeline = %(pipeline)s or (",
        ),
        long=True,
    ),
    one(
        "a deletion in another partition is not looked for",
        "a key that is born again there would be dropped, or an older record would raise the dead",
        (
            f"{MOVED}test_a_key_that_was_deleted_and_is_born_in_another_partition_is_refused_by_name[per batch]",
            f"{MOVED}test_a_fill_of_another_partition_does_not_raise_the_dead_and_is_refused[per batch]",
        ),
        Edit(
            "targets/upsert.py",
            'was="was deleted in one partition and stands in another")',
            'was="moved") if newest < 0 else None',
        ),
        long=True,
    ),
    one(
        "a deletion is compared with records of any stream",
        "with order_by, a record of another partition would be dropped without a word",
        f"{MOVED}test_with_order_by_a_deletion_of_another_partition_has_no_value_and_loses_no_record",
        Edit(
            "targets/upsert.sql",
            'case when s.stream_id = n._stream then d."offset" > n._offset else s.epoch > n."Epoch"\n',
            'case when (s.epoch, d."offset") > (n."Epoch", n._offset) then true else false\n',
        ),
        long=True,
    ),
    one(
        "a key column may be null",
        "how many records without a key remain would hang on batches",
        f"{NULLS}test_a_key_column_that_may_be_null_is_refused_before_anything_is_read[unique]",
        Edit(
            "targets/table/fit.py",
            "row.name in target.key and not row.not_null",
            "row.name in target.key and row.not_null is None",
        ),
        long=True,
    ),
    one(
        "a null in a key is not looked for",
        "the database would refuse the batch, and name no offset",
        f"{NULLS}test_a_null_in_a_key_is_refused_by_its_offset_and_no_row_is_written",
        Edit(
            "targets/upsert.py", '    run("without_key")\n    _refuse_no_key(cur, target)\n', '    run("without_key")\n'
        ),
        long=True,
    ),
    one(
        "a staging table is compared with the rows of all targets",
        "rows of losing tries would be attached to a target of several",
        (f"{TWO}test_of_two_targets_only_the_winners_rows_become_partitions[one]",),
        Edit(
            "ledger/migrations/0066_executors.sql",
            "to_regclass(p.target) end = attach_staged.target",
            "to_regclass(p.target) end is null",
        ),
        long=True,
    ),
    one(
        "a deletion is forgotten although an older epoch can be read",
        "a replay of the older epoch would raise the dead",
        f"{FORGOTTEN}test_a_deletion_of_a_newer_epoch_is_remembered_as_long_as_an_older_epoch_can_be_read",
        Edit("core/planning/deletions.py", "_log_start(older, view) < older.position", "_log_start(older, view) < 0"),
        long=True,
    ),
    one(
        "a log that is not the pipeline's says what is forgotten",
        "its offsets mean nothing here",
        (f"{HOW_FAR}[---another log than the pipeline's says nothing]",),
        Edit(
            "core/planning/deletions.py",
            "    if any(not s.retired and not _is_of(s, view) for s in every):",
            "    if not every:",
        ),
        long=True,
    ),
    one(
        "a partition that does not answer holds nothing",
        "an older record in it would raise the dead",
        (f"{HOW_FAR}[---a partition that does not answer may still hold a record]",),
        Edit(
            "core/planning/deletions.py",
            "bounds.log_start if bounds else 0",
            "bounds.log_start if bounds else NEWEST_OFFSET",
        ),
        long=True,
    ),
    one(
        "deletions are forgotten without the pipeline's lock",
        "a plan under way may claim an older record",
        f"{FORGOTTEN}test_a_pipeline_that_is_planned_meanwhile_is_left_for_the_next_time",
        Edit(
            "steps/upkeep/forget_deletions.py",
            "            lock_pipeline(cur, row.pipeline, even_forgotten=True)\n",
            "",
        ),
        long=True,
    ),
    one(
        "deletions are forgotten above log start",
        "a replay would raise the dead",
        f"{FORGOTTEN}test_a_replay_cannot_raise_the_dead_before_and_the_deletion_is_gone_after",
        Edit(
            "core/planning/deletions.py",
            "return bounds.log_start if bounds else 0",
            "return bounds.stable_end if bounds else 0",
        ),
        long=True,
    ),
    one(
        "the claims of batches under way are not asked, before the database does",
        "upkeep would stop at the first such deletion",
        f"{FORGOTTEN}test_a_deletion_is_remembered_while_a_batch_under_way_holds_an_older_record",
        Edit(
            "ledger/admin/upkeep.sql",
            "        where s.pipeline = %(pipeline)s and s.topic = %(topic)s and (s.epoch",
            "        where false and (s.epoch",
        ),
        Drop("drop trigger dead_stay_dead on lockstep.tombstone"),
        long=True,
    ),
    one(
        "dead_stay_dead dropped",
        "with the look for claims off, a replay under way would raise the dead",
        f"{FORGOTTEN}test_the_database_alone_keeps_a_deletion_that_a_batch_under_way_needs",
        Drop("drop trigger dead_stay_dead on lockstep.tombstone"),
        long=True,
    ),
    one(
        "a share of a table is handed over to a stranger",
        "the others who share it never named it; with owned_once off, which hides it",
        f"{OWNERS}test_a_share_of_a_table_is_handed_over_to_nobody_but_those_who_share_it",
        Edit("steps/changes/hand_over.py", "            if shared:\n", "            if shared == [None]:\n"),
        Drop("drop trigger owned_once on lockstep.target_owner"),
        long=True,
    ),
    one(
        "a hand-over takes the lock of one pipeline alone",
        "a plan of the other one may be under way",
        (f"{OWNERS}test_a_table_is_not_handed_over_while_a_plan_of_either_pipeline_is_under_way[drill]",),
        Edit("steps/changes/hand_over.py", "        lock_pipeline(cur, second)\n", ""),
        long=True,
    ),
    one(
        "a hand-over leaves a row with the giver alone",
        "the receiver's history would not say where its table came from",
        f"{OWNERS}test_the_new_owner_goes_on_where_the_old_one_stopped_and_no_record_comes_twice",
        Edit("steps/changes/hand_over.py", "for name in (giver, receiver.name):", "for name in (giver,):"),
        long=True,
    ),
    one(
        "a hand-over leaves a row with the receiver alone",
        "the giver's history would not say where its table went",
        f"{OWNERS}test_the_new_owner_goes_on_where_the_old_one_stopped_and_no_record_comes_twice",
        Edit("steps/changes/hand_over.py", "for name in (giver, receiver.name):", "for name in (receiver.name,):"),
        long=True,
    ),
]
