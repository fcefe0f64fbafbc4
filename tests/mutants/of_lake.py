"""Mutants of what keeps the lake's pointers and the offsets together."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, Mutant, one

CONSTRAINTS = "tests/ledger/test_constraints_of_lake.py::"
REFUSES = f"{CONSTRAINTS}test_a_constraint_of_the_lake_refuses_by_itself"
WITH_OFFSETS = f"{CONSTRAINTS}test_pointer_with_offsets_refuses_offsets_whose_pointers_have_not_moved"
IN_ANOTHER = f"{CONSTRAINTS}test_pointer_with_offsets_refuses_a_pointer_that_moved_in_another_transaction"
PREPARED = "tests/lake/test_iceberg.py::"
READ_BACK = "tests/lake/test_commit.py::test_a_file_that_the_store_does_not_give_back_as_it_was_written_is_refused"
VERIFIED = "tests/lake/test_verify.py::"
SETTLED = "tests/lake/test_places.py::"
OF_TASKS = "tests/lake/test_of_tasks.py::"
FAN_OUT = "tests/lake/test_fan_out.py::"
AGREE = f"{CONSTRAINTS}test_tables_agree_refuses_a_commit_whose_tables_have_not_the_same_records"
OTHERS = ("other-number", "other-staged", "other-lake", "fewer-in-file", "other-in-file")
ALONE = f"{CONSTRAINTS}test_offsets_with_pointer_refuses_what_the_committer_moves_alone"
BETWEEN = "tests/lake/test_columns_between.py::"
CHANGED = f"{BETWEEN}test_columns_that_change_between_read_and_commit_refuse_the_batch_by_name"
PLACES = "tests/lake/test_places.py::"

MUTANTS: list[Mutant] = [
    one(
        "columns of the lake are judged before the read alone",
        "a column that was dropped since would be left out of the rows without a word",
        (f"{CHANGED}[staged-drop]",),
        Edit("steps/lake/open_tables.py", "        if staged[place]:  # else", "        if False:  # else"),
        long=True,
    ),
    one(
        "files of the lake are taken for columns of their names",
        "a column that was dropped and made again would be empty in rows that have values",
        (f"{CHANGED}[tasks-make_anew]",),
        Edit(
            "steps/lake/commit_to_lake.py",
            "            require_own_columns(folder.pipeline, table, files[place])\n",
            "",
        ),
        long=True,
    ),
    one(
        "pointer_with_offsets dropped",
        "offsets would commit, and their rows would stay out of the lake",
        (*(f"{WITH_OFFSETS}[{case}]" for case in ("none", "one", "untold", "unmoved", "crossed")), IN_ANOTHER),
        Drop("drop trigger pointer_with_offsets on lockstep.commit"),
        long=True,
    ),
    one(
        "offsets_with_pointer dropped",
        "rows would show in the lake, and their offsets would be read again",
        tuple(f"{ALONE}[{case}]" for case in ("untold", "no-offsets")),
        Drop("drop trigger offsets_with_pointer on lockstep.lake_pointer"),
        long=True,
    ),
    one(
        "one_commit_moves_a_table_once dropped",
        "the second move of a transaction would hide the first",
        (f"{REFUSES}[one_commit_moves_a_table_once-0]",),
        Drop("alter table lockstep.lake_pointer drop constraint one_commit_moves_a_table_once"),
        long=True,
    ),
    one(
        "one_row_a_lake_file dropped",
        "one file would count for two attempts",
        (f"{REFUSES}[one_row_a_lake_file-1]",),
        Drop("alter table lockstep.lake_file drop constraint one_row_a_lake_file"),
        long=True,
    ),
    one(
        "tables_agree dropped",
        "a record could have a row in the lake, and none in the database",
        tuple(f"{AGREE}[{case}]" for case in (*OTHERS, "no-file", "strange-stream", "not-told")),
        Drop("drop trigger tables_agree on lockstep.commit"),
        long=True,
    ),
    one(
        "one_row_a_record dropped",
        "two rows of one record would pass for those of two",
        ("tests/ledger/test_constraints.py::test_a_constraint_refuses_by_itself[one_row_a_record-0]",),
        Drop("alter table lockstep.target_rows drop constraint one_row_a_record"),
        long=True,
    ),
    one(
        "tables of one read are not compared before the commit",
        "a row that one table has twice, and another record not at all, would be named by a constraint alone",
        (f"{FAN_OUT}test_a_row_that_one_table_has_instead_of_another_is_refused_and_named",),
        Edit("core/proof/accounting.py", "if set(counts) != {(records, counts[0][1])}:", "if False:"),
        long=True,
    ),
    one(
        "a reject goes into each staging table",
        "one reject would count for each table",
        ("tests/core/test_tally.py::test_each_staging_table_takes_all_rows_and_the_first_target_s_takes_rejects",),
        Edit("engine/sinks/writer.py", "yield from ((table, good) for", "yield from ((table, batch) for"),
        long=True,
    ),
    one(
        "each reader stages rows of lake tables, too",
        "each row would pass the database on its way into the lake, and count twice",
        (f"{FAN_OUT}test_each_table_takes_its_rows_from_one_read_and_staging_only_those_of_the_database",),
        Edit("engine/sinks/task_writer.py", "if place not in in_files)", "if place not in ())"),
        long=True,
    ),
    one(
        "a preparation deletes old metadata",
        "the pointer may never move, and readers lose files that it leads to",
        (f"{PREPARED}test_a_preparation_deletes_no_old_metadata",),
        Edit("adapters/iceberg/history.py", "    def _delete_old_metadata(", "    def _never_asked("),
        long=True,
    ),
    one(
        "a file of several streams is dropped whole",
        "a replay of one partition would lose rows of another",
        (f"{PREPARED}test_a_replay_drops_whole_files_by_bounds_and_rewrites_shared_ones",),
        Edit("core/lake/files.py", "    if stream[0] != stream[1]:\n        return False\n", ""),
        long=True,
    ),
    one(
        "a table may name code to run",
        "whoever may write its metadata would run Python here",
        tuple(
            f"{PREPARED}test_a_table_that_names_code_is_refused_before_it_runs[{key}]"
            for key in ("write.py-location-provider.impl", "py-io-impl")
        ),
        Edit("adapters/iceberg/table.py", "for key in RUNS_CODE if key in", "for key in () if key in"),
        long=True,
    ),
    one(
        "files are not compared with staging",
        "a store that loses rows would be believed",
        (f"{READ_BACK}[without-a-row]",),
        Edit("steps/lake/commit_to_lake.py", "if sums_of_files(found[place]) != spooled.expected:", "if False:"),
        long=True,
    ),
    one(
        "a table that was taken back is written",
        "rows of earlier batches would be missing, and nobody would hear of it",
        (f"{VERIFIED}test_a_table_that_was_taken_back_is_named_and_nothing_is_written_into_it",),
        Edit(
            "steps/lake/open_tables.py",
            "if last and was_taken_back(",
            "if last and not last and was_taken_back(",
        ),
        long=True,
    ),
    one(
        "files of tasks are not compared with what their tasks told",
        "a store that shows each machine something else would be believed",
        (f"{OF_TASKS}test_a_task_s_file_that_the_driver_sees_otherwise_is_refused[without-a-row]",),
        Edit(
            "adapters/iceberg/data_file.py",
            "if (opened.metadata.num_rows, size) == (file.rows, file.bytes):",
            "if opened:",
        ),
        long=True,
    ),
    one(
        "files of one stream are believed to share no row",
        "a row that two files of a table hold would be committed twice",
        (f"{OF_TASKS}test_a_row_that_a_task_writes_twice_is_refused[in-two]",),
        Edit(
            "steps/lake/stage_files.py",
            "for file in sharing_offsets(files)]",
            "for file in sharing_offsets(files[:1])]",
        ),
        long=True,
    ),
    one(
        "tasks do not look for a row that is twice in their files",
        "a row that a task has written twice would be committed twice",
        (f"{OF_TASKS}test_a_row_that_a_task_writes_twice_is_refused[in-one-file]",),
        Edit(
            "adapters/iceberg/data_file.py",
            "        require_each_once([address], batch_id, options)\n",
            "        pass\n",
        ),
        long=True,
    ),
    one(
        "tasks do not compare their files with what they wrote",
        "a store that gives back other values would be believed",
        (f"{OF_TASKS}test_a_task_s_file_that_the_store_gives_back_otherwise_is_refused[another-value]",),
        Edit("engine/sinks/lake_writer.py", "if (found.rows, found.digests) != (rows, self._put):", "if False:"),
        long=True,
    ),
    one(
        "digests of what tasks wrote are not compared",
        "a value that another writer changes would be found by nobody before verify --deep",
        (f"{OF_TASKS}test_a_value_that_a_stranger_changes_is_found_by_the_digest_of_what_the_task_wrote",),
        Edit("steps/lake/copy_tables.py", "if there.get((batch_id, stream_id)) != digest:", "if False:"),
        long=True,
    ),
    one(
        "the sweep behind a commit takes files that a replay has written anew",
        "rows beside those of a replay would be lost",
        (f"{OF_TASKS}test_rows_go_into_files_and_only_rejects_are_staged",),
        Edit("adapters/iceberg/folder.py", ' if not file.name.startswith("kept-")', ""),
        long=True,
    ),
    one(
        "a lost try's file stays beside those that count",
        "files that no table shows would fill the lake",
        (f"{OF_TASKS}test_a_file_that_a_lost_try_has_left_beside_those_that_count_is_swept",),
        Edit("steps/lake/sweep.py", "        gone += sweep_losers(row.location, row.paths, row.folder)\n", ""),
        long=True,
    ),
    one(
        "older snapshots are left out of what is prepared",
        "readers of them, and the proof of the last commit, would find nothing",
        (f"{PREPARED}test_a_preparation_makes_what_pyiceberg_makes_of_the_whole_history",),
        Edit("adapters/iceberg/history.py", "[*whole.snapshots, *added]", "changed.snapshots"),
        long=True,
    ),
    one(
        "a store that answers yes to anything is believed",
        "a pointer would lead to files that nobody has",
        (f"{SETTLED}test_a_file_that_the_store_does_not_show_is_refused_before_a_pointer_leads_to_it",),
        Edit("adapters/iceberg/folder.py", "if not place.size():", "if False:"),
        long=True,
    ),
    one(
        "keys of a store show in a foreign text",
        "a log would have them",
        (
            "tests/core/test_lake_options.py::test_options_that_travel_show_names_alone_and_hide_their_keys_in_a_foreign_text",
        ),
        Edit("core/lake/lake_options.py", 'text = text.replace(secret, "***")', "text = str(text)"),
        long=True,
    ),
    one(
        "an address may hold a login",
        "it would stand in the table's metadata, for each reader",
        (f"{SETTLED}test_an_address_with_a_login_is_refused_and_not_repeated",),
        Edit("adapters/iceberg/store.py", "and parts.netloc and bare:", "and parts.netloc:"),
        long=True,
    ),
    one(
        "an address of the lake may hold an escape",
        "the table's metadata would be in one folder, and its data in another",
        f"{PLACES}test_an_address_that_will_not_do_is_refused_before_a_table_is_made[an-escape]",
        Edit("core/lake/addresses.py", 'READ_DIFFERENTLY = "%?#"', 'READ_DIFFERENTLY = "?#"'),
        long=True,
    ),
    one(
        "an address of the lake may be of any length",
        "the catalog's column would refuse it, in the database's words",
        f"{PLACES}test_the_longest_address_leaves_room_for_the_names_of_metadata_files",
        Edit("core/lake/addresses.py", "CHARACTERS_OF_A_FILE = 100", "CHARACTERS_OF_A_FILE = 60"),
        long=True,
    ),
]
