"""Lists mutants of the guards against one record that harms others, and against blaming the wrong record."""

from __future__ import annotations

from mutants.mutant import Edit, one

ISOLATION = "tests/core/test_isolation.py::test_no_record_is_blamed_"
REJECT = "tests/spark/test_isolated.py::test_a_record_that_ends_its_readers_process_is_a_reject_and_the_others_are_rows"
ODD_WIRES = (
    "tests/formats/test_protobuf_decoder.py::test_odd_wires_are_rejects_wherever_the_parser_would_bend_or_skip_them"
)
OWN_DELETE = "tests/formats/test_own_decoder.py::test_"
NO_ROW = f"{OWN_DELETE}a_delete_whose_key_names_no_row_is_a_reject_with_the_reason"
CHANGE_BOUNDS = "tests/formats/test_debezium_bounds.py::test_"
ODD_SCHEMAS = (
    "tests/formats/test_odd_avro_schemas.py::test_a_schema_that_avro_does_not_have_is_a_reject_with_its_reason"
)
ANSWERS = "tests/formats/test_registry_answers.py::test_"
CONTRACTS = "tests/formats/test_json_contracts.py::"
WITHIN_SECONDS = f"{CONTRACTS}test_a_hostile_schema_or_record_is_a_reject_within_seconds"
HEADS = "tests/formats/test_json_registered.py::"
KNOWN_AS_A_KEY = f"{HEADS}test_what_is_known_of_an_id_as_a_keys_says_nothing_of_it_as_a_values"
EXACT_TIME = "tests/formats/test_protobuf_types.py::test_a_timestamp_is_exact_or_a_reject"
ODD_NAMES = (
    "tests/kafka/test_names_of_columns.py::test_rows_proofs_replays_and_erasures_are_right_whatever_columns_are_called"
)
JUDGED = "tests/ledger/test_judge_session.py::test_"
GOES_BACK, STAYS = (f"{each}\n        else:\n            " for each in ("self._go_back()", "pass"))
LONG_KEYS = "tests/ledger/test_long_keys.py::"
REFUSED = "tests/ledger/test_refused_records.py::test_the_first_record_that_a_target_refuses_is_named_by_its_offset"
LARGE = "tests/spark/test_too_large.py::"
BY_COLUMNS = "tests/formats/test_json_readers.py::test_each_definition_has_the_judges_rows_by_columns"
BAD_JSON = "tests/formats/test_json_judge.py::test_a_bad_record_is_rejected_with_its_reason"
LISTS, OBJECTS = ((b'{"z":' + deep * 40)[:40] for deep in (b"[", b'{"a":'))  # as far as an id shows a record
TOO_DEEP = (f"{LISTS!r}0", f"{LISTS!r}1", f"{OBJECTS!r}")
TOO_LARGE = (
    "tests/kafka/test_limits_of_postgres.py::test_what_is_too_large_for_a_page_or_an_index_is_refused_in_one_line"
)

MUTANTS = [
    one(
        "a refused record is not looked for",
        "one record among many thousand would stop its pipeline, and nobody could name it",
        (f"{REFUSED}[a check of keyed rows]",),
        Edit("steps/attempt/holding.py", "        refused_record_named(at.conn, pipeline, attempt),\n", ""),
        long=True,
    ),
    one(
        "the record before the refused one is blamed",
        "a record that the target takes would be named, and the refused one would stay",
        (f"{REFUSED}[a check of keyed rows]",),
        Edit(
            "targets/table/refused.py",
            "return _record(cur, rows, refused)\n",
            "return _record(cur, rows, max(1, taken))\n",
        ),
        long=True,
    ),
    one(
        "values are not tried in an index",
        "a producer could stop a pipeline with a key of 3 kB",
        (f"{LONG_KEYS}test_a_value_that_its_index_cannot_hold_is_a_reject_and_the_others_are_rows[a key of rows]",),
        Edit(
            "steps/batch/validate.py",
            "judge_keys(at, folder, attempt, judge_events(at, folder.pipeline, attempt, suite))",
            "judge_events(at, folder.pipeline, attempt, suite)",
        ),
        long=True,
    ),
    one(
        "a deleted key is not tried in the ledger's own index",
        "a producer could stop a pipeline with a deletion of 3 kB",
        (f"{LONG_KEYS}test_a_deleted_key_that_the_ledger_cannot_remember_is_a_reject",),
        Edit("targets/table/long_keys.py", "    if memory:\n", "    if memory and False:\n"),
        long=True,
    ),
    one(
        "our own reader does not count headers",
        "a record of very many small headers would be given to decoders and copied into its reject",
        (f"{LARGE}test_a_record_of_too_many_headers_comes_without_its_bytes",),
        Edit("engine/kafka_raw.py", "if headers > limits.headers:", "if headers < 0:"),
        long=True,
    ),
    one(
        "a record is blamed for one death",
        "a process that is killed once, for whatever reason, would cost a record",
        (f"{ISOLATION}that_was_survived_at_its_second_time",),
        Edit("core/isolation.py", "not (dies(left, hidden) and dies(left, hidden))", "not dies(left, hidden)"),
        long=True,
    ),
    one(
        "a record is blamed though its reader dies without its bytes",
        "what kills is not in the record",
        (f"{ISOLATION}where_the_process_dies_without_its_bytes_too",),
        Edit("core/isolation.py", "return None if dies(left, (*hidden, one)) else one", "return one"),
        long=True,
    ),
    one(
        "a record is blamed where readers live on no other",
        "a machine without memory would cost the first record of every batch",
        (f"{ISOLATION}while_the_machine_ends_every_reader_that_is_shown_a_record",),
        Edit("core/isolation.py", "if not lived and others and all(", "if lived and others and all("),
        long=True,
    ),
    one(
        "a value is cast whatever becomes of it",
        "a cast rounds a number and cuts a text without a word",
        (
            "tests/ledger/test_payload.py::test_a_value_reaches_the_target_as_it_was_or_is_refused[double precision as real]",
        ),
        Edit("targets/payload.py", "    if odd:\n", "    if odd and not rows.count:\n"),
        long=True,
    ),
    one(
        "what an intake wrote down before a reader died counts",
        "it has counted the record that is a reject now",
        (f"{REJECT}[transform]",),
        Edit("engine/source.py", "or row.task < -1 - work.after_task", "or row"),
        long=True,
    ),
    one(
        "schemas lead on without end",
        "one record would ask the registry as often as its owner likes",
        ("tests/formats/test_hostile_settings.py::test_a_long_chain_of_references_ends",),
        Edit("formats/avro/schemas.py", "if len(seen) > MOST_REFERENCES:", "if len(seen) > 2 * MOST_REFERENCES:"),
        long=True,
    ),
    one(
        "bytes of Protobuf that the parser has bent are taken",
        "an int32 of 33 bits would be another number, and a field of another wire type no value at all",
        (f"{ODD_WIRES}[an int32 of 33 bits]", f"{ODD_WIRES}[text for a number]"),
        Edit(
            "formats/protobuf/messages.py",
            "if message.SerializePartialToString(deterministic=True) != body:",
            "if message.SerializePartialToString(deterministic=True) is None:",
        ),
        long=True,
    ),
    one(
        "an index of Protobuf behind a map is guessed",
        "the rows of one message would be read as another's",
        ("tests/formats/test_protobuf_decoder.py::test_an_index_behind_a_map_is_taken_only_with_the_messages_name",),
        Edit("formats/protobuf/descriptors.py", "if len(whole) > 1:", "if len(whole) > 2:"),
        long=True,
    ),
    one(
        "a timestamp of Protobuf loses its nanoseconds",
        "a value would be rounded without a word",
        (f"{EXACT_TIME}[0-1-has digits below the microsecond, which a timestamp would lose]",),
        Edit("formats/protobuf/values.py", "if nanos % NANOS_A_MICRO:", "if nanos % NANOS_A_MICRO == NANOS_A_SECOND:"),
        long=True,
    ),
    one(
        "a decoder's own deletion takes a key with a column too many",
        "a deletion of a narrower key, from another table's decoder, would delete a row",
        (f"{NO_ROW}[{{'id': 1, 'n': 1}}-Delete: its key names id, n, and the target's key is id]",),
        Edit("formats/own_decoder.py", "if key.keys() != {*self._key}:", "if not key.keys() >= {*self._key}:"),
        long=True,
    ),
    one(
        "a decoder's own deletion has a key that is null",
        "its batch would be refused for one record, instead of a reject",
        (f"{NO_ROW}[{{'id': None}}-Delete: column id: null]",),
        Edit(
            "formats/own_decoder.py",
            "if empty else RecordOutcome(values",
            "if empty and not values else RecordOutcome(values",
        ),
        long=True,
    ),
    one(
        "a decoder's own deletion has no order and passes by one",
        "a row that is newer by its order would be deleted by an older record",
        (
            f"{OWN_DELETE}a_delete_that_no_target_takes_is_refused_by_its_line_or_a_reject_where_no_line_shows_it[order_by]",
        ),
        Edit(
            "core/formats/deletions.py",
            "        if target.order_by is not None:\n",
            "        if target.order_by == ():\n",
        ),
        long=True,
    ),
    one(
        "a decoder that deletes is not refused where no target can",
        "every one of its deletions would be a reject, and nobody told before the first run",
        ("tests/cli/test_check.py::test_a_decoder_that_deletes_where_no_target_can_is_one_line",),
        Edit(
            "steps/inspect/check.py",
            "            refuse_vain_deletion(format_, folder.decode, folder.pipeline.targets)\n",
            "",
        ),
        long=True,
    ),
    one(
        "JSON by the registry is taken without a head",
        "a record of another program would be read by a schema that its first bytes happen to name",
        (f"{HEADS}test_what_has_no_known_head_is_a_reject_with_its_reason",),
        Edit("formats/registered.py", "len(record) >= HEAD_BYTES and record[:1] == MAGIC", "len(record) >= HEAD_BYTES"),
        long=True,
    ),
    one(
        "an id is of every subject once it is known as a key's",
        "a value of another subject would be taken, and which one would hang on the order of records",
        (f"{KNOWN_AS_A_KEY}[key]", f"{KNOWN_AS_A_KEY}[value]"),
        Edit("formats/registered.py", "known = schema_id, subject\n", "known = schema_id, None\n"),
        long=True,
    ),
    one(
        "a pattern of a JSON Schema backtracks",
        "one record of forty letters would hold its batch for years",
        (f"{WITHIN_SECONDS}[a lookahead]", f"{WITHIN_SECONDS}[a back reference]"),
        Edit("formats/json/keywords.py", '    "pattern": _pattern,\n', ""),
        long=True,
    ),
    one(
        "checks by a JSON Schema are not counted",
        "a schema that leads to itself twice doubles the work with each level of a record",
        (f"{CONTRACTS}test_checks_are_counted_and_their_depth_is",),
        Edit("formats/json/keywords.py", "if self._left < 0:", "if self._left < -self._most:"),
        long=True,
    ),
    one(
        "a schema within a schema leaves the bounded keywords",
        "a dialect that is named again would bring back keywords without a bound",
        (f"{WITHIN_SECONDS}[a lookahead of a dialect within a schema]",),
        Edit("formats/json/contracts.py", "    made.evolve = evolve\n", ""),
        long=True,
    ),
    one(
        "a field that stands twice is checked once",
        "the schema would judge one value, and the table get the other",
        (CONTRACTS + """test_what_two_parsers_could_read_differently_is_a_reject[b'{"a":1,"a":2}']""",),
        Edit("formats/json/contracts.py", "if len(made) < len(pairs):", "if not made and pairs:"),
        long=True,
    ),
    one(
        "the judge of JSON takes records of any depth",
        "how deep a record may be would hang on who calls the parser",
        tuple(f"{BAD_JSON}[{case}]" for case in TOO_DEEP),
        Edit("formats/json/judge.py", "and _depth(text) > MOST_DEPTH", "and False"),
        long=True,
    ),
    one(
        "other fields are gathered of records that may have more of them",
        "rest would lose a field that occurs twice, and a name as it was written",
        (f"{BY_COLUMNS}[odd-rest]",),
        Edit("formats/json/rest.py", "return again == record or ", "return True or "),
        long=True,
    ),
    one(
        "a strict schema is not asked by columns",
        "records with other fields would be rows",
        (f"{BY_COLUMNS}[odd-strict]",),
        Edit("formats/json/apart.py", "            require(record)\n", ""),
        long=True,
    ),
    one(
        "a field that is read by itself may be null where its target needs it",
        "the key's constraint would stop the batch, and name no record",
        ("tests/formats/test_json_columns.py::test_a_key_that_is_read_by_itself_is_needed_all_the_same",),
        Edit("formats/json/columns.py", "all(row[place] is not None for place in needed)", "True"),
        long=True,
    ),
    one(
        "a row is taken by a name that a column may have",
        "an erasure would look for a key in one column, and say that nothing is left",
        (f"{ODD_NAMES}[written once]",),
        Edit("ledger/changes/search.sql", "where (t.*)::text ~", "where t::text ~"),
        long=True,
    ),
    one(
        "an image of a feed is taken by a name that a column may have",
        "no batch of a table with a column t would commit",
        f"{ODD_NAMES}[keyed]",
        Edit("ledger/migrations/0075_rows_of_any_column.sql", "(t.*)::lockstep_feed.%1$I", "t"),
        long=True,
    ),
    one(
        "a row that is too large is told as a lost connection",
        "it would be tried for ever",
        (f"{TOO_LARGE}[a row by staging]",),
        Edit(
            "engine/sinks/session.py",
            "raise  # a row is too large for a page: the server is there",
            "raise ConnectionError from None",
        ),
        long=True,
    ),
    one(
        "a key that is too large for an index is told as a lost connection",
        "it would be tried for ever",
        (f"{TOO_LARGE}[a key]",),
        Edit(
            "adapters/postgres_errors.py",
            "except errors.ProgramLimitExceeded as error:",
            "except ZeroDivisionError as error:",
        ),
        long=True,
    ),
    one(
        "a scale is made a number before it is looked at",
        "one record of 228 bytes would keep its reader busy for ever",
        (f"{CHANGE_BOUNDS}a_scale_is_looked_at_before_it_is_a_number[1e100000-column v: is a decim-by_schema]",),
        Edit(
            "formats/debezium/exact.py",
            "if type(given) is not int and not (isinstance(given, str) and SCALE_TEXT.fullmatch(given)):",
            "if given is None:",
        ),
        long=True,
    ),
    one(
        "a template is made of a record with very many values",
        "its pattern would take minutes to compile, and gigabytes",
        (f"{CHANGE_BOUNDS}records_of_many_names_make_no_costly_templates",),
        Edit("formats/debezium/slots.py", "and len(slots.pattern) <= MOST_PATTERN", "and MOST_PATTERN"),
        long=True,
    ),
    one(
        "templates of one task cost as much as its records like",
        "two hundred wide records, each written in another way, would hold a task for minutes",
        (f"{CHANGE_BOUNDS}templates_of_one_task_cost_so_much_together_and_no_more",),
        Edit("formats/debezium/templates.py", "if self._compiled > MOST_COMPILED:", "if self._compiled < 0:"),
        long=True,
    ),
    one(
        "readers of fields are kept for every schema that a record brings",
        "a producer of ever new schemas would fill the memory of a task",
        (f"{CHANGE_BOUNDS}schemas_that_never_come_again_are_not_kept",),
        Edit("formats/debezium/decoder.py", "if len(self._takers) >= MOST_TAKERS:", "if len(self._takers) < 0:"),
        long=True,
    ),
    one(
        "a registry's answer has no largest size",
        "1 MB of gzip would be a gigabyte in each task",
        (
            f"{ANSWERS}an_answer_that_is_too_large_ends_early_and_blames_the_registry[gzip]",
            f"{ANSWERS}an_answer_that_is_too_large_ends_early_and_blames_the_registry[plain]",
        ),
        Edit("formats/avro/client.py", "session.request = _bounded_request(session, longest(registry))", "pass"),
        long=True,
    ),
    one(
        "a registry may take its time, byte by byte",
        "a task would hold its batch, and renew its lease, for ever",
        (f"{ANSWERS}an_answer_that_never_ends_is_given_up[head]",),
        Edit("formats/avro/client.py", "    thread.join(seconds)\n", "    thread.join(10 * seconds)\n"),
        long=True,
    ),
    one(
        "schemas are kept without a bound",
        "a topic of ever new schemas would fill the memory of a process that lives long",
        (f"{ANSWERS}schemas_that_were_not_used_for_longest_go_first",),
        Edit("formats/avro/recent.py", "while len(self._values) > 1 and (", "while not self._values and ("),
        long=True,
    ),
    one(
        "a schema is checked by the package's own keywords",
        "a draft-04 enum of 51 kB would cost ten seconds, and one of a megabyte an hour",
        (f"{WITHIN_SECONDS}[many values of an enum]",),
        Edit(
            "formats/json/contracts.py",
            "        _require_schema(dialect, each)\n",
            "        dialect.check_schema(each)\n",
        ),
        long=True,
    ),
    one(
        "a keyword counts as one check, however much it goes through",
        "a schema with a long list would multiply the work of each value of a record",
        (
            f"{WITHIN_SECONDS}[many values of an enum for many items]",
            f"{WITHIN_SECONDS}[many patterns for many names that are additional]",
        ),
        Edit("formats/json/keywords.py", "1 + _more_checks(value, instance, schema)", "1"),
        long=True,
    ),
    one(
        "a commit asks nobody whose attempt it is",
        "a forged XCom would close the validated attempt of another pipeline as failed",
        tuple(
            f"tests/ledger/test_own_attempt.py::test_another_pipelines_attempt_is_neither_closed_nor_held_nor_announced[{each}]"
            for each in ("validate", "commit")
        ),
        Edit("steps/attempt/holding.py", "    require_own_attempt(at.conn, attempt, pipeline.name)\n", ""),
        long=True,
    ),
    one(
        "a suite's query is an expectation",
        "a JSON file would be SQL with the rights of a run",
        (
            "tests/core/test_suites.py::test_what_is_sql_or_no_expectation_is_loaded_by_nobody[expect_query_results_to_match_comparison-kwargs1]",
        ),
        Edit("core/pipeline/violations.py", "expect_(?!query_)(", "expect_("),
    ),
    one(
        "the judge's session may write",
        "a suite could move a sequence of the ledger, or leave a table",
        tuple(
            f"{JUDGED}{each}"
            for each in (
                "the_judge_reads_no_table_and_writes_nothing_whatever_its_suite_says[append]",
                "another_role_that_a_query_takes_on_writes_nothing_and_ends_with_the_query[append]",
            )
        ),
        Edit("adapters/connection/judge.py", "set transaction read only; savepoint held", "savepoint held"),
        long=True,
    ),
    one(
        "a suite is judged as the stager",
        "a suite could read the whole ledger, and other pipelines' rejects",
        (
            f"{JUDGED}the_judge_reads_no_table_and_writes_nothing_whatever_its_suite_says[append]",
            f"{JUDGED}the_judge_reads_the_rows_of_its_attempt_whatever_the_target[append]",
        ),
        Edit("steps/batch/expectations.py", "            become(cur, JUDGE_ROLE)\n", ""),
        long=True,
    ),
    one(
        "a role that a query takes on stays",
        "the rest of the suite would have the rights of a run",
        (f"{JUDGED}another_role_that_a_query_takes_on_writes_nothing_and_ends_with_the_query[append]",),
        Edit("adapters/connection/judge.py", f"{GOES_BACK}super().commit()", f"{STAYS}super().commit()"),
        long=True,
    ),
    one(
        "a role that a query takes on outlives a rollback",
        "a library that rolls back after each query would go on with the rights of a run",
        (f"{JUDGED}another_role_that_a_query_takes_on_writes_nothing_and_ends_with_the_query[append]",),
        Edit("adapters/connection/judge.py", f"{GOES_BACK}super().rollback()", f"{STAYS}super().rollback()"),
        long=True,
    ),
    one(
        "the folder of the code's zip may be a link",
        "whoever has put the link there could turn it, and executors would import what he likes",
        ("tests/core/test_shipping.py::test_a_link_in_the_folder_for_all_users_is_not_followed",),
        Edit("engine/shipping.py", "found = place.lstat()", "found = place.stat()"),
        long=True,
    ),
    one(
        "a driver inherits what nobody has listed",
        "every secret of Airflow, its providers and its workers would be read by a transform",
        ("tests/dags/test_withheld.py::test_what_is_on_no_list_does_not_reach_a_driver_and_what_it_needs_does",),
        Edit("adapters/withheld.py", "if not FOR_DRIVERS.fullmatch(name)}", "if not name}"),
        long=True,
    ),
    one(
        "a union within a union is a schema",
        "one record would end its task, and stop its pipeline",
        (f"{ODD_SCHEMAS}[fields1-a union within a union]",),
        Edit("formats/avro/writers.py", "            if is_branch:\n", "            if is_branch and not type_:\n"),
        long=True,
    ),
]
