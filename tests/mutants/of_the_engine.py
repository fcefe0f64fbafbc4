"""Lists mutants of the engine's own parts: JSON read field by field, rows of a range, counts and Spark Connect."""

from __future__ import annotations

from mutants.mutant import Edit, one

BY_COLUMNS = "tests/formats/test_json_columns.py::test_"
OFFSETS = "tests/ledger/test_offsets_by_engine.py::test_"
FIGURES = "tests/spark/test_spark_figures.py::test_spark_counts_"
ALIKE, COLUMNS = "formats/json/alike.py", "formats/json/columns.py"
RANGE_ROWS, RANGE_WRITER = "engine/sinks/range_rows.py", "engine/sinks/range_writer.py"
COUNTS = "ledger/views/engine_offsets.py"
STRAIGHT = tuple(
    f"tests/core/test_range_rows.py::test_good_rows_go_straight_and_rejects_alone_are_copied_before[{keeps}]"
    for keeps in (False, True)
)
ENDS = "tests/core/test_range_writer.py::test_"

MUTANTS = [
    one(
        "a null that is read by itself is a text",
        "a row without its key would be written, with `null` for the key",
        f"{BY_COLUMNS}a_key_that_is_read_by_itself_is_needed_all_the_same",
        Edit("formats/json/apart.py", "CONSTANTS[text] if text in CONSTANTS else Literal(text)", "Literal(text)"),
        long=True,
    ),
    one(
        "records are joined in the order in which they were found",
        "a row would stand at another record's offset",
        f"{BY_COLUMNS}records_with_a_field_that_arrow_leaves_come_at_their_own_places_among_the_others",
        Edit(COLUMNS, "return whole[order], columns.take(pa.array(order))", "return whole, columns"),
    ),
    one(
        "two objects of one value are two records",
        "every later row would be that of the record before it",
        f'{BY_COLUMNS}a_bad_record_costs_no_more_than_a_few_neighbours_the_columns[{{"n":1}}{{"n":2}}]',
        Edit(COLUMNS, "if table.num_rows == len(some) else None", "if len(some) else None"),
        long=True,
    ),
    one(
        "a value that is not a number is a number of Arrow's",
        "what is not JSON would be a row by columns, and a reject to the judge",
        f'{BY_COLUMNS}a_record_that_is_seen_to_be_odd_costs_nobody_else_anything[{{"z":NaN}}]',
        Edit(ALIKE, "good[place] = good[place] and is_json(values[place].as_py())", "good[place] = good[place]"),
        long=True,
    ),
    one(
        "good rows that come with a reject are copied twice",
        "they would be counted as staged and go straight as well, and each such range would be refused",
        STRAIGHT,
        Edit(RANGE_ROWS, "            rows = rows.filter(pc.is_valid(reasons))\n", ""),
    ),
    one(
        "a reject goes straight into the target",
        "a record that could not be decoded would be a row of nulls",
        STRAIGHT,
        Edit(RANGE_ROWS, "self._keep(self._spool, rows.filter(pc.is_null(reasons)))", "self._keep(self._spool, rows)"),
        long=True,
    ),
    one(
        "bytes of rows that go straight are not kept",
        "a record that an expectation puts aside would have lost its bytes",
        STRAIGHT[1],
        Edit(RANGE_ROWS, "        if self._bytes is not None:\n", "        if False:\n"),
        long=True,
    ),
    one(
        "a read counts whose tasks did not all come to their end",
        "ranges of a task that was killed would be missing without a word",
        tuple(
            f"{ENDS}a_task_that_did_not_come_to_its_end_fails_the_read[{ended}]" for ended in ("()", "(0,)", "(1, 1)")
        ),
        Edit(RANGE_WRITER, "if len(ended) != tasks:", "if False:"),
        long=True,
    ),
    one(
        "the last range of an input is committed without its end",
        "records that a killed task had not read would be passed over for good",
        f"{ENDS}the_range_that_is_under_way_is_not_committed_when_the_input_ends_without_its_end",
        Edit(
            RANGE_WRITER,
            "under_way.take(part)\n\n    def intake",
            "under_way.take(part)\n            if under_way:\n                yield said(under_way.commit())\n\n    def intake",
        ),
        long=True,
    ),
    one(
        "a transform's ranges are committed without the end of their input",
        "rows that a killed task had not made would be missing for good",
        f"{ENDS}a_transforms_ranges_are_committed_at_the_end_of_the_input_alone[without it]",
        Edit(RANGE_WRITER, "            if not ended:\n                return\n", ""),
        long=True,
    ),
    one(
        "records of a range come in two stretches",
        "the second commit of the range would be found done, and its records would be lost",
        f"{ENDS}records_of_a_range_that_was_left_are_refused",
        Edit(RANGE_WRITER, "if stream_id in seen:", "if False:"),
        long=True,
    ),
    one(
        "a piece of a range that delivers nothing is not committed",
        "the pieces would never make up the whole range",
        f"{ENDS}a_range_is_committed_where_the_next_one_begins_and_a_quiet_one_at_the_end",
        Edit(
            RANGE_WRITER, "for item in self.pieces if item.stream_id not in seen]", "for item in self.pieces if False]"
        ),
        long=True,
    ),
    one(
        "an open batch is counted for good",
        "each look at the metrics would count its offsets once more",
        f"{OFFSETS}a_range_that_an_open_batch_has_committed_is_counted_once_too",
        Edit(COUNTS, "counted = opened if row.open_batch else self._closed", "counted = self._closed"),
        long=True,
    ),
    one(
        "a batch that was open is not looked at again",
        "the offsets of its commit would never be counted",
        f"{OFFSETS}a_closed_batch_is_counted_once_and_an_open_one_anew",
        Edit(COUNTS, "self._open = {row.open_batch for row in rows if row.open_batch}", "self._open = set()"),
        long=True,
    ),
    one(
        "a history that is counted in part has a figure",
        "the counter would jump, and a rate would show a load that was never there",
        f"{OFFSETS}a_history_that_is_counted_in_part_has_no_figure_yet",
        Edit(COUNTS, "if self._through.get(name, 0) == behind[name]]", "]"),
        long=True,
    ),
    one(
        "reports of tasks count as records",
        "Spark's count would be higher than what was delivered",
        tuple(
            f"{FIGURES}each_record_that_tasks_write_themselves_also_rejects[{per}]"
            for per in ("per batch", "per partition")
        ),
        Edit("engine/spark/figures.py", "yield -count if name == FILTER_NODE else count", "yield abs(count)"),
        long=True,
    ),
    one(
        "jobs that were given up count, too",
        "a batch with a record that ends its reader would seem to have far more records than were delivered",
        "tests/spark/test_isolated.py::"
        "test_a_record_that_ends_its_readers_process_is_a_reject_and_the_others_are_rows[transform]",
        Edit(
            "engine/spark/figures.py",
            "jobs = tracker.getJobIdsForGroup(self.groups[-1])",
            "jobs = [job for group in self.groups for job in tracker.getJobIdsForGroup(group)]",
        ),
        long=True,
    ),
    one(
        "a transform is given the ranges that are left",
        "a resumed batch would give other rows than its first attempt",
        "tests/spark/test_transforms.py::test_a_resume_per_partition_is_given_the_ranges_that_are_committed_too",
        Edit(
            "core/staging.py",
            "self.planned_at, self.planned)",
            "self.planned_at, tuple(i.offsets for i in self.ranges))",
        ),
        long=True,
    ),
    one(
        "a client of Spark Connect is left open at the end of its process",
        "PySpark 4.2 closes it too late, and the process would never end",
        "tests/spark/test_spark_connect.py::"
        "test_a_process_that_ends_has_closed_its_client_before_the_interpreter_ends_its_threads",
        Edit("engine/spark/connect.py", "    atexit.register(session.client.close)\n", ""),
        long=True,
    ),
    one(
        "runs share a session of Spark Connect for ever",
        "a server closes an idle session for good, and each later run would fail",
        tuple(
            f"tests/spark/test_spark_connect.py::test_runs_of_one_code_share_a_session_for_an_hour[sc://host:1{rest}]"
            for rest in ("", "/", "/;use_ssl=true;token=x")
        ),
        Edit("engine/spark/connect.py", " {now // ONE_HOUR:.0f}", ""),
        long=True,
    ),
    one(
        "a batch with a record that keeps this process busy is its own again",
        "each later batch would wait for the same deadline before Spark reads it",
        "tests/spark/test_chosen_engine.py::"
        "test_a_record_that_keeps_this_process_busy_hands_the_whole_batch_over_and_those_after_it",
        Edit("engine/chosen.py", "self._left = True", "self._left = False"),
        long=True,
    ),
    one(
        "a read that fails leaves its consumer open",
        "the consumer would be closed when the interpreter ends, and wait for a thread that cannot begin any more",
        "tests/spark/test_chosen_engine.py::test_a_read_that_fails_has_left_the_log_while_its_error_is_still_held",
        Edit("engine/chosen.py", "import closing, contextmanager", "import contextmanager, nullcontext as closing"),
        long=True,
    ),
]
