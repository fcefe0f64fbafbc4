"""Lists mutants of the guards by which the database decides what a run's login may do."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

DEFINERS = "tests/ledger/test_definers.py::"
BORROWS = "ledger/migrations/0082_nobody_borrows_triggers.sql"

MEMBERS = "tests/ledger/test_guards_by_membership.py::"
BY_MEMBERS = "ledger/migrations/0086_guards_by_membership.sql"
MEMORY = "tests/ledger/test_memory_stays.py::"
TAKEN = f"{MEMORY}test_a_memory_stays_without_the_attempt_that_reads_its_offsets_again"
REMEMBERS = "ledger/migrations/0084_memory_stays.sql"
FOLDERS = "tests/lake/test_own_folders.py::"
BEGINS = "ledger/migrations/0093_feed_timelines.sql"
REFUSED_TIMELINE = "        raise exception 'timeline_by_decision"
TRIMS = "ledger/migrations/0094_trimmed_without_rejects.sql"
SENT = "tests/feed/test_constraints_of_sends.py::"
TIMELINES = "tests/feed/test_feed_timelines.py::"
OWNED = "tests/ledger/test_opening.py::test_who_may_open_an_attempt"
ERASED_UNSENT = (
    "tests/core/test_relaying.py::test_e17_changes_that_were_erased_unsent_are_not_missed_at_the_end_of_the_topic"
)
GIVEN_UP = "tests/ledger/test_given_up.py::"
STREAMS = "tests/ledger/test_streams_by_decision.py::"
NOT_SAID = f"{STREAMS}test_no_stream_begins_where_no_decision_of_its_transaction_says"
DECIDED = "ledger/migrations/0091_streams_by_decision.sql"
DEADLINES = "tests/formats/test_deadline.py::test_"
BUSY = "tests/spark/test_busy_readers.py::test_a_record_that_keeps_its_reader_busy_is_a_reject_and_the_others_are_rows"
GIVES = "ledger/migrations/0083_given_up_by_decision.sql"

JUDGED = "tests/ledger/test_judge_session.py::test_"
JUDGES = "ledger/migrations/0096_rows_for_a_judge.sql"

MUTANTS = [
    one(
        "an attempt that has its verdict is shown to the judge",
        "rows behind a view could be read after their commit, by whoever may stage",
        f"{JUDGED}an_attempt_without_a_judgement_to_come_is_shown_to_nobody",
        Edit(JUDGES, " and b.state = 'planned' and a.state = 'staged')", ")"),
        long=True,
    ),
    one(
        "the judge is shown rows of tasks that do not count",
        "a row that a lost task left behind could refuse a batch that has no such record",
        f"{JUDGED}a_row_of_a_task_that_is_not_of_the_batch_is_not_judged",
        Edit(JUDGES, " and t._task in (\n", " and t._task not in (\n"),
        long=True,
    ),
    one(
        "the judge is shown rows of every batch",
        "a suite would look at the whole table, and read what others have committed",
        f"{JUDGED}the_judge_reads_no_row_of_another_batch[behind a view]",
        Edit(JUDGES, "where r.batch_id = %s and t._batch = %s', columns", "where %s = %s', columns"),
        long=True,
    ),
    one(
        "hidden rows are shown without their view",
        "what a stager calls hidden would be read with the owner's rights",
        f"{JUDGED}hidden_rows_whose_view_is_gone_are_shown_to_nobody",
        Edit(
            JUDGES,
            "if lockstep.rows_behind(to_regclass(left(rows_table, -5))) is distinct from to_regclass(rows_table) then",
            "if false then",
        ),
        long=True,
    ),
    one(
        "everybody may execute the ledger's functions",
        "a trigger of the owner's would work on rows that anybody makes up",
        (
            f"{DEFINERS}test_everybody_may_execute_no_function_of_the_ledger",
            f"{DEFINERS}test_a_role_may_call_the_functions_of_the_written_list_with_the_owners_rights_and_no_others[lockstep_executor]",
        ),
        Drop("grant execute on all functions in schema lockstep to public"),
    ),
    one(
        "a new function is everybody's",
        "the next migration would forget to revoke it",
        f"{DEFINERS}test_a_function_that_the_owner_makes_is_not_everybodys",
        Edit(
            BORROWS, "alter default privileges for role lockstep_owner", "alter default privileges in schema lockstep"
        ),
        long=True,
    ),
    one(
        "a trigger of the owner's takes any table",
        "one grant would be enough to end the chain",
        (
            f"{DEFINERS}test_each_trigger_with_the_owners_rights_asks_first_whose_table_it_is",
            f"{DEFINERS}test_a_trigger_of_the_owners_refuses_a_table_that_is_not_the_ledgers[the chain's queue]",
            f"{DEFINERS}test_a_trigger_of_the_owners_refuses_a_table_that_is_not_the_ledgers[a lock]",
        ),
        Edit(BORROWS, "        execute replace(pg_get_functiondef(each.oid), each.prosrc, changed);\n", ""),
        long=True,
    ),
    one(
        "given_up_by_decision dropped",
        "two statements would lose an offset for good, and nobody would be told",
        (
            f"{GIVEN_UP}test_a_position_does_not_pass_offsets_that_nobody_decided_to_give_up[lockstep_planner-loss]",
            f"{GIVEN_UP}test_a_position_does_not_pass_offsets_that_nobody_decided_to_give_up[lockstep_committer-skipped]",
            f"{GIVEN_UP}test_what_a_batch_has_read_is_not_called_skipped",
        ),
        Drop("drop trigger given_up_by_decision on lockstep.coverage"),
    ),
    one(
        "lifted_is_noted takes rows of its own transaction",
        "offsets that were skipped for a moment would stay skipped without a decision",
        f"{GIVEN_UP}test_a_row_that_was_there_for_a_moment_gives_nothing_up",
        Edit(GIVES, " and not lockstep.is_of_this_transaction(c.xmin);", ";"),
        long=True,
    ),
    one(
        "an earlier decision gives offsets up",
        "a decision that did nothing would wait for its offsets",
        f"{GIVEN_UP}test_an_earlier_decision_gives_nothing_up",
        Edit(GIVES, " and lockstep.is_of_this_transaction(d.xmin)", ""),
        long=True,
    ),
    one(
        "a decision of a savepoint does not count",
        "a client that works with savepoints could not skip",
        (
            f"{GIVEN_UP}test_offsets_are_given_up_by_a_decision_of_the_same_transaction[loss]",
            f"{GIVEN_UP}test_offsets_are_given_up_by_a_decision_of_the_same_transaction[skipped]",
        ),
        Edit(GIVES, "return pg_xact_status((ours + later)::text::xid8) = 'in progress';", "return false;"),
        long=True,
    ),
    one(
        "given_up_is_told dropped",
        "a decision would not say which offsets it gives up",
        f"{GIVEN_UP}test_a_decision_names_its_offsets[skip]",
        Drop("alter table lockstep.decision drop constraint given_up_is_told"),
        long=True,
    ),
    one(
        "verify does not ask who gave offsets up",
        "a loss by the ledger's owner would look like one that was decided",
        f"{GIVEN_UP}test_verify_counts_what_is_given_up_and_names_what_nobody_decided",
        Edit("ledger/proof/given_up.sql", "not coalesce(d.offsets, '{}') @> c.offsets", "false"),
        long=True,
    ),
    one(
        "verify --deep does not look for lost offsets in the log",
        "records that can still be read would count as lost",
        "tests/cli/test_verify.py::test_a_loss_that_the_log_still_holds_is_named",
        Edit("steps/proof/verify.py", "lost_check(cur, view, streams), begin_check", "begin_check"),
        long=True,
    ),
    one(
        "own_folder dropped from lake_prefix",
        "one row of a stager's would lead whoever deletes files to any folder",
        (
            f"{FOLDERS}test_the_database_refuses_a_folder_that_is_not_the_attempts_own[another folder]",
            f"{FOLDERS}test_the_database_refuses_a_folder_that_is_not_the_attempts_own[another attempt's]",
        ),
        Drop("drop trigger own_folder on lockstep.lake_prefix"),
        long=True,
    ),
    one(
        "reap deletes where the ledger says",
        "a row from before the guard would delete the files of any folder",
        (f"{FOLDERS}test_without_the_databases_guard_reap_deletes_nothing_there[another folder]",),
        Edit(
            "steps/lake/sweep.py",
            "return not row.folder or row.location == prefix_of(row.folder, row.batch_id, row.token)",
            "return True",
        ),
        Edit("adapters/iceberg/folder.py", "    require_below(address, folder)\n    if (path", "    if (path"),
        Edit("adapters/iceberg/folder.py", "if not real.is_relative_to(top) or real == top:", "if not real:"),
        long=True,
    ),
    one(
        "a link leads out of the table",
        "files of another folder would be deleted through it",
        f"{FOLDERS}test_a_folder_that_a_link_leads_out_of_the_table_is_left_alone",
        Edit("adapters/iceberg/folder.py", "if not real.is_relative_to(top) or real == top:", "if not real:"),
        long=True,
    ),
    one(
        "gone_by_decision: a file goes without a decision",
        "a committer could have any file of a table deleted",
        f"{FOLDERS}test_a_file_outside_of_the_table_is_not_named_as_gone",
        Drop("drop trigger own_folder on lockstep.lake_gone"),
        long=True,
    ),
    one(
        "archived_below_its_place dropped",
        "a path of the archive would lead out of it",
        f"{FOLDERS}test_the_database_refuses_a_path_that_leaves_the_archive[/srv/a.parquet]",
        Drop("alter table lockstep.archived drop constraint archived_below_its_place"),
        long=True,
    ),
    one(
        "an archive removes what its paths lead to",
        "a file of somebody else's would be removed",
        f"{FOLDERS}test_an_archives_path_that_leaves_its_place_is_neither_read_nor_removed[../victim/kept.txt]",
        Edit(
            "adapters/archive/store.py",
            'if not is_below(f"/archive/{path}", "/archive") or not place.parent.resolve().is_relative_to(folder.resolve()):',
            "if not place:",
        ),
        long=True,
    ),
    one(
        "memory_stays dropped from tombstone",
        "the next replay would bring a deleted row back",
        (
            f"{TAKEN}[a deletion-lockstep_committer]",
            f"{TAKEN}[a deletion's key-lockstep_partition]",
            f"{MEMORY}test_a_planner_forgets_no_deletion_that_upkeep_has_not_passed",
        ),
        Drop("drop trigger memory_stays on lockstep.tombstone"),
    ),
    one(
        "memory_stays dropped from reject",
        "records that nobody could decode would be gone without a word",
        (f"{TAKEN}[a reject-lockstep_committer]",),
        Drop("drop trigger memory_stays on lockstep.reject"),
        long=True,
    ),
    one(
        "memory_stays asks for no open attempt",
        "a plan alone would be enough to forget",
        f"{MEMORY}test_a_replay_under_way_takes_what_its_segment_left_and_reads_it_again",
        Edit(REMEMBERS, "and b.state = 'planned' and a.closed_at is null)", "and b.state = 'planned')"),
        Edit(
            REMEMBERS,
            "        join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token\n        where k",
            "        where k",
        ),
        long=True,
    ),
    one(
        "begins_by_decision dropped",
        "two statements would lose the offsets between two streams of a log, or read them twice",
        (
            f"{NOT_SAID}[after the position]",
            f"{NOT_SAID}[before the position]",
            f"{NOT_SAID}[late in a partition that is new, in the first epoch]",
        ),
        Drop("drop trigger begins_by_decision on lockstep.stream"),
    ),
    one(
        "a stream begins by a decision of an earlier transaction",
        "a decision that was carried out once would open a stream for good",
        f"{NOT_SAID}[after the position]",
        Edit(
            DECIDED,
            "lockstep.names_start(d.kind, d.detail, d.decision_id, a) and lockstep.is_of_this_transaction(d.xmin))",
            "lockstep.names_start(d.kind, d.detail, d.decision_id, a))",
        ),
        long=True,
    ),
    one(
        "a decision that closes other streams opens one",
        "a decision about one topic would open the streams of another",
        f"{NOT_SAID}[before the position]",
        Edit(
            DECIDED,
            "                    and detail -> 'retired' @> jsonb_build_array(jsonb_build_object('stream_id', o.stream_id)))",
            ")",
        ),
        long=True,
    ),
    one(
        "ends_by_decision dropped",
        "a planner could close a stream, and forget the deletions of its log",
        (
            f"{STREAMS}test_no_stream_ends_without_a_decision_that_names_it",
            f"{STREAMS}test_a_deletion_goes_with_the_log_that_is_read_no_more",
            f"{STREAMS}test_growth_goes_on_where_each_log_ended_and_new_partitions_begin_at_0",
        ),
        Drop("drop trigger ends_by_decision on lockstep.stream"),
        long=True,
    ),
    one(
        "growth closes a stream whose log does not go on",
        "one word would close a stream for good",
        f"{STREAMS}test_growth_goes_on_where_each_log_ended_and_new_partitions_begin_at_0",
        Edit(
            DECIDED, "case d.kind when 'grow' then lockstep.goes_on(its) else", "case d.kind when 'grow' then true else"
        ),
        long=True,
    ),
    one(
        "upkept_stays dropped",
        "what upkeep has let go of could be archived as if it were whole",
        f"{STREAMS}test_what_upkeep_has_passed_stays_passed",
        Drop("drop trigger upkept_stays on lockstep.stream"),
        long=True,
    ),
    one(
        "read_again dropped",
        "a replay that gives up would forget a deletion",
        (
            f"{STREAMS}test_what_a_replay_takes_out_goes_with_its_commit_alone[tombstone]",
            f"{STREAMS}test_what_a_replay_takes_out_goes_with_its_commit_alone[reject]",
        ),
        Drop("drop trigger read_again on lockstep.tombstone; drop trigger read_again on lockstep.reject"),
        long=True,
    ),
    one(
        "growth lets deletions go",
        "an older record of the log would bring a deleted row back",
        f"{STREAMS}test_a_deletion_stays_while_the_log_goes_on_after_growth",
        Edit(
            "ledger/migrations/0092_memory_of_the_log_stays.sql",
            "(s.retired_at is not null and o.stream_id is null",
            "(s.retired_at is not null",
        ),
        long=True,
    ),
    one(
        "verify does not ask who opened streams",
        "a log that the ledger's owner began elsewhere would look like any other",
        (
            f"{STREAMS}test_verify_names_what_begins_without_the_guards[after the position]",
            f"{STREAMS}test_verify_names_what_begins_without_the_guards[in a new partition]",
        ),
        Edit("ledger/proof/memory.py", "[*found, streams_check(cur, pipeline)]", "found"),
        Edit("ledger/proof/streams.sql", "then i.epoch > i.first_epoch and i.start_offset > 0\n", "then false\n"),
        Edit("ledger/proof/streams.sql", "else i.start_offset > 0 or i.is_same_log end\n", "else false end\n"),
        long=True,
    ),
    one(
        "verify --deep does not ask where a log begins",
        "records below the first stream of a partition would be read by nobody",
        (
            f"{STREAMS}test_verify_deep_names_records_that_a_log_holds_below_its_first_stream",
            f"{STREAMS}test_verify_deep_names_upkeep_that_has_passed_what_the_log_holds",
        ),
        Edit("steps/proof/verify_given_up.py", "    for row in begun:\n", "    for row in begun[:0]:\n"),
        long=True,
    ),
    one(
        "owner_stays dropped",
        "a second pipeline could take the table over",
        f"{MEMORY}test_an_owner_goes_with_a_decision_of_the_same_transaction_that_names_its_table",
        Drop("drop trigger owner_stays on lockstep.target_owner"),
        long=True,
    ),
    one(
        "paused_by_decision dropped",
        "a pipeline would stand, and nobody could say who stopped it",
        f"{MEMORY}test_a_pipeline_is_paused_by_a_decision_of_the_same_transaction",
        Drop("drop trigger paused_by_decision on lockstep.pipeline"),
        long=True,
    ),
    one(
        "verify does not miss owners",
        "a table without an owner would look like an old one",
        f"{MEMORY}test_verify_misses_what_somebody_took_without_the_guards",
        Edit(
            "ledger/proof/memory.sql",
            "where w.pipeline = %(pipeline)s\n",
            "where w.pipeline = %(pipeline)s and false\n",
        ),
        long=True,
    ),
    one(
        "a sequence is passed over to its end",
        "no pipeline of the ledger could start again",
        (
            f"{MEMORY}test_no_sequence_is_exhausted_by_one_call[tokens]",
            f"{MEMORY}test_no_sequence_is_exhausted_by_one_call[streams]",
        ),
        Edit(BEGINS, "if each.seen > each.at + each.reach or each.seen > each.half then", "if each.seen is null then"),
        long=True,
    ),
    one(
        "offsets_with_pointer goes by the role that is set",
        "a run's login would move a table of the lake without its offsets",
        (
            f"{MEMBERS}test_a_runs_login_moves_no_pointer_without_offsets_whatever_role_it_has_set[set role none]",
            f"{MEMBERS}test_a_runs_login_moves_no_pointer_without_offsets_whatever_role_it_has_set[select 1]",
        ),
        Edit(
            BY_MEMBERS,
            "pg_has_role(session_user, 'lockstep_committer', 'MEMBER')\n"
            "        and not pg_has_role(session_user, 'lockstep_owner', 'MEMBER')",
            "false",
        ),
        long=True,
    ),
    one(
        "own_range on claim goes by the role that is set",
        "a task would free the claims of others",
        (f"{MEMBERS}test_a_tasks_login_changes_no_range_of_others_whatever_role_it_has_set[claims-select 1]",),
        Drop(
            "drop trigger own_range on lockstep.claim; create trigger own_range before delete on lockstep.claim"
            " for each row when (current_user = 'lockstep_partition'::name) execute function lockstep.guard_task()"
        ),
        long=True,
    ),
    one(
        "verify does not ask if the chain goes on",
        "what is not linked could be rewritten without breaking a digest",
        (
            "tests/ledger/test_chain.py::test_records_that_wait_while_batches_commit_are_wrong",
            "tests/ledger/test_chain.py::test_what_no_seal_can_link_is_wrong_and_named[a decision that is not there]",
        ),
        Edit("ledger/proof/chain.py", "    wrong.join(stuck(cur, pipeline))\n", ""),
        long=True,
    ),
    one(
        "timeline_by_decision dropped",
        "readers of a feed would begin anew, or not, without a restore",
        f"{TIMELINES}test_no_timeline_begins_without_the_decision_of_its_transaction",
        Drop("drop trigger timeline_by_decision on lockstep.feed"),
    ),
    one(
        "an earlier restore begins a timeline",
        "readers would be refused whenever somebody likes",
        f"{TIMELINES}test_no_timeline_begins_without_the_decision_of_its_transaction",
        Edit(
            BEGINS,
            f"d.kind = 'restored' and lockstep.is_of_this_transaction(d.xmin)) then\n{REFUSED_TIMELINE}",
            f"d.kind = 'restored') then\n{REFUSED_TIMELINE}",
        ),
        long=True,
    ),
    one(
        "timeline_once dropped",
        "the timeline of one feed would pass for another's",
        f"{TIMELINES}test_two_feeds_have_no_timeline_in_common",
        Drop("alter table lockstep.feed drop constraint timeline_once"),
        long=True,
    ),
    one(
        "a restore draws no timeline",
        "a reader past the restored state would miss changes for good",
        (
            f"{TIMELINES}test_a_reader_of_a_lost_timeline_is_refused_though_the_numbers_have_passed_its_own",
            f"{TIMELINES}test_every_feed_begins_a_timeline_whichever_pipeline_is_named",
        ),
        Edit(
            BEGINS,
            "        update lockstep.feed set timeline = gen_random_uuid() where target = each.target;\n",
            "        null;\n",
        ),
        long=True,
    ),
    one(
        "the reader's function compares no timeline",
        "numbers that were given again would be taken for those that were read",
        (
            f"{TIMELINES}test_a_reader_of_a_lost_timeline_is_refused_though_the_numbers_have_passed_its_own",
            f"{TIMELINES}test_a_timeline_that_no_ledger_has_drawn_is_refused_too",
        ),
        Edit("ledger/feed/make.sql", "if $3 is distinct from (", "if false and $3 is distinct from ("),
        long=True,
    ),
    one(
        "`changes` compares no timeline",
        "a reader by the command would miss changes for good",
        f"{TIMELINES}test_the_command_refuses_a_lost_timeline_with_the_snapshot_to_begin_with",
        Edit("ledger/feed/reading.py", "if timeline not in {None, feed.timeline}:", 'if timeline == "":'),
        long=True,
    ),
    one(
        "rejects are trimmed with the rows beside them",
        "a reject that passes later would be refused as sent again",
        f"{SENT}test_a_reject_is_not_trimmed_with_the_rows_beside_it",
        Edit(
            "ledger/migrations/0094_trimmed_without_rejects.sql",
            "w.offsets - coalesce(u.offsets, ''{}'') as exact",
            "w.offsets as exact",
        ),
        long=True,
    ),
    one(
        "a replay leaves out rows where rejects may be trimmed",
        "a reject that passes would be gone, and its row never sent",
        f"{SENT}test_a_replay_that_may_leave_out_a_reject_is_refused_as_before[rejects may be trimmed]",
        Edit(TRIMS, "          and not exists (select from new where is_trimmed and with_rejects)", ""),
        long=True,
    ),
    one(
        "a replay of trimmed rows alone is nothing",
        "a person would take it that what was sent is right",
        f"{SENT}test_a_replay_that_may_leave_out_a_reject_is_refused_as_before[nothing is new]",
        Edit(TRIMS, "          and exists (select from new where not is_trimmed)\n", ""),
        long=True,
    ),
    one(
        "trimmed offsets have any number of ranges",
        "each trim would write millions of ranges again",
        f"{SENT}test_a_reject_is_trimmed_where_a_stream_has_too_many_ranges",
        Edit(TRIMS, "case when m.many then s.whole", "case when m.many then s.exact"),
        long=True,
    ),
    one(
        "a relay takes changes that are not erased for erased ones",
        "changes that Kafka has lost would never be sent",
        (f"{ERASED_UNSENT}[one of them is not erased]",),
        Edit("core/feed/relaying.py", "all(each in unsent for each in", "any(each in unsent for each in"),
        long=True,
    ),
    one(
        "`restored` passes over lake tables",
        "a table that nothing can touch would be found by the next run",
        "tests/lake/test_restored.py::test_a_table_of_a_backup_that_is_older_than_upkeep_is_named_with_the_way_out",
        Edit("steps/changes/restored.py", "return [*found, *lake_needs(conn, pipeline)]", "return found"),
        long=True,
    ),
    one(
        "`restored` passes over relays",
        "a relay would stop, and nobody would know at which number it goes on",
        "tests/cli/test_restored_beside.py::test_the_relay_and_the_readers_of_a_feed_are_led_on",
        Edit("steps/changes/restored.py", "found = relay_needs(conn, broker, pipeline)", "found: list[str] = []"),
        long=True,
    ),
    one(
        "two Airflows have the tries of one task",
        "each would take the other for an older or a later try of its own",
        (f"{OWNED}[the lease of another Airflow's later try is over]",),
        Edit(
            "steps/attempt/opening.py",
            "(newest.owner, newest.dag_id, newest.dag_run_id) != ours",
            "(newest.dag_id, newest.dag_run_id) != ours[1:]",
        ),
        long=True,
    ),
    one(
        "work without progress ends no process",
        "one record would keep its batch until the run is ended",
        (f"{DEADLINES}work_that_makes_no_progress_ends_its_process_and_says_where[Python]",),
        Edit("deadline.py", "signal.setitimer(signal.ITIMER_REAL, self.seconds + SECONDS_BETWEEN)", "pass"),
        long=True,
    ),
    one(
        "a wait counts as work without progress",
        "a slow Kafka or Postgres would be taken for a record that keeps its reader busy",
        (
            f"{DEADLINES}progress_and_waiting_end_no_process[time after a piece]",
            f"{DEADLINES}progress_and_waiting_end_no_process[a function between two calls]",
        ),
        Edit("deadline.py", "    signal.setitimer(signal.ITIMER_REAL, 0)\n", "    return\n"),
    ),
    one(
        "the process of small batches waits for its decoder for ever",
        "a record that Arrow never finishes would keep the run, and its lease",
        f"{DEADLINES}a_piece_that_takes_too_long_in_this_process_is_left_to_spark",
        Edit("engine/patience.py", "if not wait([made], seconds).done:", "if wait([made], seconds).done is None:"),
        long=True,
    ),
    one(
        "each trial has the whole deadline",
        "the search for one record would take hours",
        "tests/core/test_isolation.py::test_only_the_proof_on_one_record_has_the_whole_deadline",
        Edit("core/isolation.py", "else max(1, seconds // 10)", "else seconds"),
        long=True,
    ),
    one(
        "a transform's functions have no deadline",
        "a transform that never ends would keep its batch",
        (f"{BUSY}[a transform of batches]",),
        Edit("engine/transforms.py", "func if seconds is None else watched(func, seconds)", "func"),
        long=True,
    ),
]
