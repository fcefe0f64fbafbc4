"""Mutants of what keeps the end of a pipeline, its other name and its copy: history stays, and the original too."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

LEDGER = "tests/ledger/test_forgotten.py::"
CLI = "tests/cli/test_forget.py::"
BEGINS = f"{LEDGER}test_the_database_lets_nothing_begin_for_a_forgotten_pipeline"
UNDER_WAY = f"{LEDGER}test_the_database_forgets_no_pipeline_that_has_something_under_way"
OTHER_NAME = "tests/ledger/test_renamed.py::"
RENAME = "tests/cli/test_rename.py::"
IN_STORE = "tests/stores/test_renamed.py::test_a_renamed_pipeline_goes_on_in_its_store"
CLOSED = f"{OTHER_NAME}test_closed_rows_change_with_a_name_in_nothing_else"
RENAMED = "ledger/migrations/0035_renamed_pipelines.sql"
RECORDS = "ledger/migrations/0090_requests_are_links.sql"  # the newest committed_record
SAME = "\n            and to_jsonb(old) - 'pipeline' = to_jsonb(new) - 'pipeline'"
TAKEN = "\n        return new;\n    end if;\n"
FORGOTTEN = "ledger/migrations/0032_forgotten_pipelines.sql"
COPY = "tests/core/test_clone.py::"
CLONE = "tests/cli/test_clone.py::"
UNCOPIED = f"{CLONE}test_what_cannot_be_copied_is_refused_and_nothing_is_written"
REACH = f"{COPY}test_ddl_that_would_reach_the_original_is_named"
GONE = f"{COPY}test_offsets_that_a_copy_cannot_read_are_told_by_partition"

MUTANTS = [
    *(
        one(
            f"forgotten_rests on {table} is dropped",
            f"a {what} would begin under the name of a pipeline that has ended",
            (f"{BEGINS}[{what}]",),
            Drop(f"drop trigger forgotten_rests on lockstep.{table}"),
            long=True,
        )
        for table, what in (
            ("batch", "batch"),
            ("request", "request"),
            ("stream", "stream"),
            ("target_owner", "owner"),
        )
    ),
    one(
        "forgotten_is_decided is dropped",
        "a pipeline would end without a word of who ended it",
        f"{LEDGER}test_the_database_wants_the_newest_decision_for_each_end_and_each_return",
        Drop("drop trigger forgotten_is_decided on lockstep.pipeline"),
        long=True,
    ),
    one(
        "the database does not look for what is under way",
        "a batch would commit for a pipeline that has ended",
        (f"{UNDER_WAY}[a batch]", f"{UNDER_WAY}[a request]", f"{UNDER_WAY}[an owner]"),
        Edit(FORGOTTEN, "    if kept is not null then", "    if kept is null and false then"),
        long=True,
    ),
    one(
        "a batch that begins does not hold its pipeline's row",
        "the pipeline would end between the look and the COMMIT",
        f"{LEDGER}test_a_batch_that_is_being_planned_is_waited_for",
        Edit(FORGOTTEN, "order by p.name for share", "order by p.name"),
        long=True,
    ),
    one(
        "forget_is_told is dropped",
        "erasures would not follow the rows to the table's next owner",
        (f"{LEDGER}test_the_database_refuses_a_forgetting_that_does_not_tell_its_tables[no tables]",),
        Drop("alter table lockstep.decision drop constraint forget_is_told"),
        long=True,
    ),
    one(
        "erasures do not follow a table that was given free",
        "an erasure would leave a person's rows in the table of its next owner",
        f"{LEDGER}test_erasures_follow_the_rows_to_the_tables_next_owner",
        Edit(RENAMED, "        where d.kind = 'forget' and d.pipeline", "        where d.kind = 'no' and d.pipeline"),
        long=True,
    ),
    one(
        "who has written a table keeps it although it has ended",
        "a table of an old ledger would never be free",
        f"{LEDGER}test_a_table_written_before_owners_were_recorded_is_free_too",
        Edit(FORGOTTEN, "p.name = d.pipeline and p.forgotten_by is not null", "p.name = d.pipeline and false"),
        long=True,
    ),
    one(
        "a pipeline is forgotten while a batch is under way",
        "the command would end with an error of the database, not with the next command",
        f"{CLI}test_forget_is_refused_while_a_batch_is_under_way_and_nothing_is_half_done",
        Edit("steps/changes/forget.py", "        if unfinished:", "        if unfinished == [-1]:"),
        long=True,
    ),
    one(
        "a forgotten pipeline is decided about",
        "a run would say that there is nothing to do, for ever",
        f"{CLI}test_a_run_of_a_forgotten_pipeline_names_who_ended_it_and_the_way_back",
        Edit("ledger/batch/plan.py", "    if not even_forgotten:", "    if pipeline is None:"),
        long=True,
    ),
    one(
        "a forgetting is left unsealed",
        "no later run links it: it could be changed unseen",
        f"{LEDGER}test_a_forgotten_pipeline_keeps_its_history_and_its_rows_and_gives_its_table_free",
        Edit("steps/changes/forget.py", "    seal_all(conn, pipeline)  # no later run of it does\n", ""),
        long=True,
    ),
    one(
        "status lists what was forgotten",
        "a list would grow with every pipeline that ever was",
        f"{CLI}test_status_leaves_forgotten_pipelines_out_and_tells_all_with_all",
        Edit("cli/looks/status.py", "if everything or not recorded.get(each)]", "if each]"),
        long=True,
    ),
    one(
        "the page lists what was forgotten",
        "a list would grow with every pipeline that ever was",
        "tests/web/test_pages.py::test_a_forgotten_pipeline_is_not_among_all_pipelines",
        Edit("web/pages/pipelines_page.py", "if not row.forgotten]", "]"),
        long=True,
    ),
    one(
        "rows of a new owner are held against a forgotten pipeline",
        "its verify would be wrong for ever, although nothing is wrong",
        f"{CLI}test_rows_of_a_table_that_has_a_new_owner_are_not_held_against_a_forgotten_pipeline",
        Edit("steps/proof/verify_owners.py", "is None:\n        return []", "is not True:\n        return []"),
        long=True,
    ),
    one(
        "former_name_rests is dropped",
        "a plan that waited for the rename would begin the log anew under the old name",
        (
            f"{OTHER_NAME}test_the_database_gives_a_former_name_to_no_other_pipeline",
            f"{OTHER_NAME}test_the_database_lets_no_pipeline_be_born_under_the_old_name_behind_a_rename",
        ),
        Drop("drop trigger former_name_rests on lockstep.pipeline"),
        long=True,
    ),
    one(
        "the database renames whatever is under way",
        "an attempt under the old name would commit behind the rename",
        f"{OTHER_NAME}test_the_database_renames_no_pipeline_with_a_batch_under_way_or_a_shared_table",
        Edit(RENAMED, "    if kept is not null then", "    if kept is null and false then"),
        long=True,
    ),
    one(
        "links of commits take the new name",
        "the chain would not fit its records any more",
        f"{OTHER_NAME}test_old_links_keep_the_old_name_and_the_rename_is_a_link",
        Edit(RECORDS, "n.pipeline = b.pipeline and n.last_batch >= b.batch_id", "n.pipeline = b.pipeline and false"),
        long=True,
    ),
    one(
        "links of decisions take the new name",
        "the chain would not fit its records any more",
        f"{OTHER_NAME}test_old_links_keep_the_old_name_and_the_rename_is_a_link",
        Edit(RENAMED, "n.pipeline = d.pipeline and n.decision_id > d.decision_id", "n.pipeline = d.pipeline and false"),
        long=True,
    ),
    one(
        "hand-overs are looked for by the names that they were told with",
        "erasures of the table's owner would not reach rows of a pipeline that was renamed",
        f"{OTHER_NAME}test_closed_streams_requests_and_hand_overs_come_along",
        Edit("ledger/changes/owners.sql", "lockstep.name_now(detail ->> 'from', decision_id) =", "detail ->> 'from' ="),
        long=True,
    ),
    *(
        one(
            f"a closed row of {table} changes with its name",
            "history would not stay as it is",
            (f"{CLOSED}[{table}]",),
            Edit(file, f"{SAME} then{behind}", f" then{behind}"),
            long=True,
        )
        for table, file, behind in (
            ("batch", RENAMED, f"{TAKEN}    if old.state"),
            ("stream", "ledger/migrations/0057_moved_topics.sql", f"{TAKEN}    if (old.epoch"),
        )
    ),
    one(
        "a closed row of request changes with its name",
        "history would not stay as it is",
        (f"{CLOSED}[request]",),
        Edit(
            RENAMED,
            "            or to_jsonb(old) - 'pipeline' <> to_jsonb(new) - 'pipeline') then",
            "            ) then",
        ),
        long=True,
    ),
    one(
        "a pipeline is renamed while a batch is under way",
        "the command would end with an error of the database, not with the next command",
        f"{RENAME}test_rename_is_refused_while_a_batch_is_under_way",
        Edit("steps/changes/rename.py", "    if unfinished:", "    if unfinished == [-1]:"),
        long=True,
    ),
    one(
        "a store keeps the former name of a pipeline's streams",
        "each delivery under the new name would be taken for another ledger's",
        (f"{IN_STORE}[appended]", f"{IN_STORE}[keyed]"),
        Edit("targets/stores/arrival.py", "list(delivery.former)", "[]"),
        long=True,
    ),
    one(
        "a rename takes another definition along",
        "one history would have two targets",
        f"{RENAME}test_a_definition_that_is_more_than_renamed_is_refused",
        Edit("steps/changes/rename.py", "    if changed:", "    if changed is False:"),
        long=True,
    ),
    one(
        "a certificate of old links is taken for another pipeline's",
        "a rename would end what an auditor can prove",
        f"{RENAME}test_certificates_from_before_and_after_are_proved_under_the_new_name",
        Edit(
            "core/proof/certificate.py",
            '{document["pipeline"], *document.get("former_names", ())}',
            '{document["pipeline"]}',
        ),
        long=True,
    ),
    one(
        "a copy's migrate may change a table that its DDL names without its schema",
        "the original would get the columns of the copy",
        (f"{REACH}[a table]",),
        Edit(
            "core/changes/clone.py",
            "        if re.search(rf'{_PLACE}\"?{bare}",
            '        if bare == "" and re.search(rf\'{_PLACE}"?{bare}',
        ),
        long=True,
    ),
    one(
        "a copy's migrate may replace a view",
        "readers would be led to a copy that has just begun",
        (f"{REACH}[a view]",),
        Edit(
            "core/changes/clone.py",
            "    other = re.search(_OTHERS, ddl, re.IGNORECASE)",
            "    other: re.Match[str] | None = None",
        ),
        long=True,
    ),
    one(
        "indexes of a copy keep their names",
        "`if not exists` would leave them out, and its table would have none",
        (f"{COPY}test_the_ddl_of_a_copy_names_its_own_table_and_indexes[an index of its name]",),
        Edit("core/changes/clone.py", "    for pattern in _INDEXES:", "    for pattern in _INDEXES[1:]:"),
        long=True,
    ),
    one(
        "a definition that computes its table is copied",
        "the copy would write the original's table, or none",
        (f"{UNCOPIED}[computed]",),
        Edit("cli/pipelines/cloning.py", "    if found != copy:", "    if found is None:"),
        long=True,
    ),
    one(
        "a copy of a shared table is made",
        "it would miss the rows of those who share it",
        (f"{UNCOPIED}[shared]",),
        Edit("cli/pipelines/cloning.py", "        if shares(target):", "        if shares(target) is None:"),
        long=True,
    ),
    one(
        "a copy begins at the log's end of today",
        "it would miss what the original has read since it began",
        f"{CLONE}test_a_copy_of_what_began_at_the_end_begins_at_log_start",
        Edit("core/changes/clone.py", "EARLIEST if pipeline.start == LATEST else pipeline.start", "pipeline.start"),
        long=True,
    ),
    one(
        "offsets of an older log are not told",
        "a copy would be taken for whole that lacks the records before a retire",
        (f"{GONE}[a truncation]",),
        Edit("core/changes/clone.py", "min([stream.position, *later])", "min([stream.position, *later[:0]])"),
        long=True,
    ),
    one(
        "a name of the ledger is given to a copy",
        "its first batch would go on at the positions of another pipeline",
        f"{CLONE}test_a_name_that_the_ledger_knows_is_refused",
        Edit("cli/pipelines/cloning.py", "    if of_ledger(copy.name):", "    if of_ledger(copy.name) is False:"),
        long=True,
    ),
]
