"""Lists mutants of constraints that stand alone, of decisions, of keys, and of plans."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

STEPS = "tests/simulation/test_step_by_step.py::"
KEYS = "tests/simulation/test_newest_of_a_key.py::"
PLANNING = "tests/core/test_planning.py::"
HISTORY = "tests/kafka/test_history.py::"
BY_BATCH = "tests/ledger/test_by_batch.py::"
ATTACHING = "ledger/migrations/0066_executors.sql"
CONSTRAINT = "tests/ledger/test_constraints.py::test_a_constraint_refuses_by_itself"

REFUSED = "tests/simulation/test_refused_later.py::test_"
MUTANTS = [
    one(
        "preview_commits_nothing dropped",
        "whoever commits a preview's batch is refused",
        "tests/ledger/test_constraints.py::test_a_preview_has_no_commit",
        Edit(
            "ledger/migrations/0054_archived.sql",
            "new.batch_id and r.preview)",
            "new.batch_id and not b.batch_id = b.batch_id)",
        ),
        long=True,
    ),
    one(
        "quarantined_are_rejected dropped",
        "what was quarantined is counted among the rejects",
        f"{CONSTRAINT}[quarantined_are_rejected-0]",
        Drop("alter table lockstep.result drop constraint quarantined_are_rejected"),
        long=True,
    ),
    one(
        "a record that breaks an expectation is published all the same",
        "a verdict that passes would say nothing of its rows",
        ("tests/kafka/test_quarantine.py::test_records_that_break_it_are_put_aside_and_the_others_go_on[by default]",),
        Edit("steps/batch/validate.py", "if suite.violators and not refusals:", "if suite.violators and refusals:"),
        long=True,
    ),
    one(
        "a record is put aside without its other rows",
        "what was turned away would be there in part",
        "tests/spark/test_quarantine.py::test_a_record_of_several_rows_in_several_tasks_is_put_aside_whole",
        Edit(
            "ledger/staging/quarantine.sql", "and t._task = w.task and", "and t._task = w.task and t._ordinal = 0 and"
        ),
        long=True,
    ),
    one(
        "loss_stays dropped",
        "an accepted loss is no coverage that somebody may replace",
        f"{CONSTRAINT}[loss_stays-0] {CONSTRAINT}[loss_stays-1]",
        Drop("drop trigger loss_stays on lockstep.coverage"),
        long=True,
    ),
    one(
        "closed_once dropped from batches",
        "a batch is closed once, and its token goes forward",
        f"{CONSTRAINT}[closed_once-2] {CONSTRAINT}[closed_once-3]",
        Drop("drop trigger closed_once on lockstep.batch"),
        long=True,
    ),
    one(
        "closed_once dropped from attempts",
        "history is not told anew",
        f"{CONSTRAINT}[closed_once-4]",
        Drop("drop trigger closed_once on lockstep.attempt"),
        long=True,
    ),
    one(
        "closed_once dropped from streams",
        "a stream is one incarnation for good",
        f"{CONSTRAINT}[closed_once-1]",
        Drop("drop trigger closed_once on lockstep.stream"),
        long=True,
    ),
    one(
        "a skip goes past the stable end",
        "what is not there yet cannot be left out",
        f"{STEPS}test_a_skip_past_the_stable_end_is_refused",
        Edit("steps/changes/skip.py", "if goal > bounds.stable_end:", "if goal < 0:"),
        long=True,
    ),
    one(
        "an upsert does not look at the order",
        "a replay of old records overwrites newer ones",
        f"{KEYS}test_a_replay_of_older_records_leaves_the_newer_row",
        Edit(
            "targets/upsert.sql",
            "({target_order} s.epoch, t._offset, t._stream) > ",
            "({target_order} s.epoch, t._offset, t._stream) < ",
        ),
        long=True,
    ),
    one(
        "new keys are inserted as if nobody else wrote the table",
        "a row that a stranger writes meanwhile would refuse the batch, for ever where he writes on",
        (f"{KEYS}test_a_row_that_a_stranger_writes_while_new_keys_are_inserted_becomes_the_records[per batch]",),
        Edit("targets/upsert.py", "except errors.UniqueViolation:", "except errors.CheckViolation:"),
        long=True,
    ),
    one(
        "a key in two partitions of one batch is not looked for",
        "nothing says which of its records is newer",
        (f"{KEYS}test_a_key_in_two_partitions_is_refused_and_named[per batch-True]",),
        Edit("targets/upsert.py", "newest < count and not rows.of_one_stream", "newest < 0"),
        long=True,
    ),
    one(
        "of a key's staged records the oldest wins",
        "within a batch, too, the newest counts",
        f"{KEYS}test_in_one_batch_the_newest_record_of_a_key_wins",
        Edit("targets/upsert.sql", '"Epoch" desc, _offset desc', '"Epoch" desc, _offset asc'),
        long=True,
    ),
    one(
        "a deletion leaves nothing behind",
        "a replay raises the dead",
        f"{KEYS}test_a_replay_does_not_raise_the_dead",
        Edit(
            "targets/upsert.sql",
            "where n._deleted and not exists (\n    select from lockstep.tombstone",
            "where false and not exists (\n    select from lockstep.tombstone",
        ),
        long=True,
    ),
    one(
        "a deletion that loses against the row is forgotten",
        "an older version would return once the row's record is refused",
        (f"{REFUSED}a_deletion_that_is_replayed_under_a_newer_row_is_remembered[per batch]",),
        Edit("targets/upsert.py", "newest=deletions.now,", "newest=deletions.now and not there.newer,"),
        long=True,
    ),
    one(
        "a deletion before a newer record of its batch is forgotten",
        "an older version would return once the newer record is refused",
        (f"{REFUSED}a_deletion_with_a_newer_record_in_its_batch_is_remembered[per batch]",),
        Edit("targets/upsert.py", "within=newest < count)", "within=False)"),
        long=True,
    ),
    one(
        "an older deletion takes the place of a later one",
        "what lies between the two would return",
        (f"{REFUSED}an_older_deletion_that_is_replayed_takes_no_place_of_a_later_one[per batch]",),
        Edit(
            "targets/upsert.sql",
            "jsonb_build_array({newest_keys}) and {dead})",
            "jsonb_build_array({newest_keys}) and false)",
        ),
        long=True,
    ),
    one(
        "tombstones are not asked",
        "a replay raises the dead",
        f"{KEYS}test_a_replay_does_not_raise_the_dead",
        Edit(
            "targets/upsert.sql",
            'then d."offset" > n._offset else',
            'then d."offset" < n._offset else',
        ),
        long=True,
    ),
    one(
        "a range's end is in it",
        "half-open ranges tile, closed ones overlap",
        f"{PLANNING}test_a_batch_ends_where_the_log_does",
        Edit("core/planning/live.py", "s.position, s.position + share)", "s.position, s.position + share + 1)"),
        long=True,
    ),
    one(
        "the first partition takes all",
        "one busy partition must not starve the others",
        f"{PLANNING}test_shares_are_whole_and_nobody_could_have_more_without_another_having_less",
        Edit("core/planning/live.py", "-(-left // others)", "left"),
        long=True,
    ),
    one(
        "a truncated log is taken for an idle one",
        "what stands there later is not what was read",
        (f"{PLANNING}test_decisions[the log was truncated]",),
        Edit("core/planning/blocked.py", "bounds.stable_end < stream.position:", "bounds.stable_end < 0:"),
        long=True,
    ),
    one(
        "retention is passed over in silence",
        "a loss is a person's to accept",
        (f"{PLANNING}test_decisions[retention has passed the position]",),
        Edit("core/planning/blocked.py", "if gap and gap[0] == stream.position:", "if gap and bounds.log_start < 0:"),
        long=True,
    ),
    one(
        "an unfinished batch is resumed on any log",
        "its offsets mean nothing there",
        (f"{PLANNING}test_decisions[recreated under an unfinished batch]",),
        Edit(
            "core/planning/blocked.py",
            "if planned and planned != seen:",
            "if not batch.batch_id:",
        ),
        long=True,
    ),
    one(
        "rehearsed_is_preview dropped",
        "what is shown for approval must have changed nothing",
        f"{HISTORY}test_only_a_preview_is_rehearsed_whatever_the_code_says",
        Edit("ledger/migrations/0014_history.sql", "new.request_id and r.preview)", "new.request_id)"),
        long=True,
    ),
    one(
        "an approval is not held against what was shown",
        "something else would be done than what somebody has approved",
        f"{HISTORY}test_what_has_changed_since_it_was_shown_is_not_taken_for_approved",
        Edit(
            "steps/requests/history.py",
            "if since or shown.rehearsal.content_hash != folder.content_hash():",
            "if not shown.lane:",
        ),
        long=True,
    ),
    one(
        "a run's request is not known by its key",
        "a task that is tried again would ask once more",
        f"{HISTORY}test_a_run_that_is_tried_again_goes_on_with_its_request_and_a_cleared_one_asks_anew",
        Edit(
            "ledger/changes/history.sql",
            "where k.pipeline = %(pipeline)s and k.key = %(key)s",
            "where k.key = %(key)s || 'x'",
        ),
        long=True,
    ),
    # A table that is partitioned by batch.
    one(
        "losing tries' rows are attached",
        "a record would have a row of each try",
        f"{BY_BATCH}test_rejects_and_the_rows_of_losing_tries_are_no_part_of_it",
        Edit(ATTACHING, "is not null or not exists (", "is not null and not exists ("),
        long=True,
    ),
    one(
        "rejects are attached",
        "what was refused would be a row",
        f"{BY_BATCH}test_rejects_and_the_rows_of_losing_tries_are_no_part_of_it",
        Edit(ATTACHING, "t._reason is not null or", "t._reason <> t._reason or"),
        long=True,
    ),
    one(
        "what was attached is not the targets' owner's",
        "its indexes would be computed as the ledger's owner",
        f"{BY_BATCH}test_nobody_who_stages_may_write_what_was_attached",
        Edit(ATTACHING, "staged, (select relowner::regrole", "staged, (select 'lockstep_owner'::regrole"),
        long=True,
    ),
    one(
        "what was attached stays among the staging tables",
        "reap would take it for something left behind",
        f"{BY_BATCH}test_the_staged_rows_become_the_batchs_partition",
        Edit(ATTACHING, "execute format('alter table %s set schema", "perform format('alter table %s set schema"),
        Edit(ATTACHING, "staged, (select relowner::regrole", "staged, (select 'lockstep_owner'::regrole"),
        long=True,
    ),
    one(
        "any attempt attaches",
        "a zombie could bring its rows",
        f"{BY_BATCH}test_only_the_newest_attempt_attaches_and_only_what_it_has_staged",
        Edit("ledger/migrations/0016_by_batch.sql", "and b.token = of_token and", "and"),
        long=True,
    ),
    one(
        "any table is attached",
        "another attempt's rows, or another table's, would be the batch's",
        f"{BY_BATCH}test_only_the_newest_attempt_attaches_and_only_what_it_has_staged",
        Edit(ATTACHING, "if (select relnamespace <>", "if false and (select relnamespace <>"),
        long=True,
    ),
]
