"""Lists mutants of the rules of change records: what a change is, what a value means, and what a row keeps."""

from __future__ import annotations

from mutants.mutant import Edit, one

CHANGES = "tests/formats/test_debezium.py::test_"
KEPT = "tests/simulation/test_unavailable.py::test_"
MARKED = "tests/formats/test_debezium_placeholders.py::test_"
REALS = "tests/formats/test_debezium_reals.py::test_"
RENAMED = "tests/simulation/test_renamed_columns.py::test_"
FILLED = "tests/simulation/test_filled_values.py::test_"
TEMPLATES = "tests/formats/test_debezium_templates.py::test_"
PROTOBUF = "tests/formats/test_protobuf_columns.py::test_"
DECODER = "formats/debezium/decoder.py"

MUTANTS = [
    one(
        "a value that is filled in stays unsure",
        "a spoiled value would be passed over, and the check would say that it was compared",
        f"{FILLED}a_spoiled_value_that_an_older_record_gave_is_found[per batch]",
        Edit(
            "targets/proof/newest.sql",
            '        then replace(c."Unsure", {marked}, \',\') else c."Unsure" end',
            '        then c."Unsure" else c."Unsure" end',
        ),
    ),
    one(
        "a value returns from before a deletion, when it is compared",
        "verify would say of a right row that it is wrong",
        f"{FILLED}after_a_deletion_the_value_is_null[per batch-True]",
        Edit(
            "targets/proof/newest.sql",
            '    where coalesce(strpos(e."Unsure", {marked}), 0) = 0\n',
            '    where coalesce(strpos(e."Unsure", {marked}), 0) = 0 and e."Became" <> \'deleted\'\n',
        ),
        long=True,
    ),
    one(
        "a row that nothing explains counts as compared",
        "verify would count a row of which it knows nothing",
        f"{FILLED}a_value_that_no_record_has_is_null_or_is_left_out[per batch]",
        Edit(
            "steps/proof/verify_upsert.py",
            "    compared = rest.compared - unexplained\n",
            "    compared = rest.compared\n",
        ),
        long=True,
    ),
    one(
        "a truncation is filtered",
        "the rows of a table that is empty by now would stay, and nobody would know",
        f"{CHANGES}a_truncation_is_refused_and_never_a_reject",
        Edit(DECODER, "if change.operation == MESSAGE:", "if change.operation in {MESSAGE, TRUNCATE}:"),
        long=True,
    ),
    one(
        "a placeholder is taken for a value",
        "it would overwrite what the row has",
        f"{MARKED}all_unavailable_values_of_a_record_are_marked",
        Edit(
            DECODER,
            "elif type(value) not in NO_PLACEHOLDERS and self._is_unavailable(value):",
            "elif False and self._is_unavailable(value):",
        ),
        long=True,
    ),
    one(
        "nanoseconds are cut",
        "a timestamp would lose digits without a word",
        f"{CHANGES}nanoseconds_are_never_cut",
        Edit("formats/debezium/moments.py", "        if beyond:\n", "        if beyond < 0:\n"),
    ),
    one(
        "a number without a schema is milliseconds",
        "a time in microseconds would lie in the year 57,000, or look right and be wrong",
        f"{CHANGES}a_number_without_a_schema_says_no_unit",
        Edit(
            DECODER,
            "self._units.get(column.name)",
            'self._units.get(column.name, "millis" if column.type == "timestamp" else None)',
        ),
        long=True,
    ),
    one(
        "the text of a struct is a key",
        "a deletion would find no row, and the row would stay",
        f"{CHANGES}the_text_of_a_struct_is_no_key",
        Edit(DECODER, 'STRUCT = "Struct{"', 'STRUCT = "Struct<"'),
        long=True,
    ),
    one(
        "an append may follow a source",
        "a deletion would be lost",
        "tests/core/test_capture.py::test_an_append_cannot_follow_a_source",
        Edit(
            "core/capture/fit.py",
            "if not isinstance(target, Upsert):",
            'if type(target).__name__ == "Append":\n            continue\n        if not isinstance(target, Upsert):',
        ),
        long=True,
    ),
    one(
        "a value comes back from before a deletion",
        "the row of a new life would show what was deleted",
        (f"{KEPT}nothing_comes_back_from_before_a_deletion[True]",),
        Edit(
            "targets/unavailable.sql",
            "where not %(column)s = any(",
            "where not coalesce(t._deleted, false) and not %(column)s = any(",
        ),
        long=True,
    ),
    one(
        "a replay forgets the rows that it takes out",
        "a value that only the row had would be lost",
        (f"{KEPT}a_replay_of_the_newest_record_keeps_what_the_row_had[per batch]",),
        Edit("targets/unavailable.py", "            if withdrawn:\n", "            if withdrawn and not name:\n"),
        long=True,
    ),
    one(
        "the oldest record of a batch gives the value",
        "the row would show what it was two changes ago",
        (f"{KEPT}in_one_batch_the_newest_older_record_gives_the_value[per batch]",),
        Edit("targets/unavailable.sql", '"Epoch" desc, _offset desc', '"Epoch" desc, _offset asc'),
        long=True,
    ),
    one(
        "the row that is there is not asked",
        "each large value would be null after the first update",
        (f"{KEPT}in_a_later_batch_the_row_that_is_there_gives_the_value[per batch]",),
        Edit("targets/unavailable.py", '            self._run("fill_from_target", name)\n', ""),
        long=True,
    ),
    one(
        "values that nothing has are not counted",
        "nobody would know which rows lack a value",
        f"{KEPT}at_the_first_sight_of_a_key_it_is_null_and_counted",
        Edit("targets/unavailable.py", "self._lost + one(self._cur).lost", "self._lost"),
        long=True,
    ),
    one(
        "an envelope is looked for before what is added to a row",
        "a row with columns op and after would be another row, or a deletion",
        "tests/formats/test_debezium_flat.py::test_a_nested_column_is_no_side_of_an_envelope",
        Edit(
            "formats/debezium/change.py",
            "    if ADDED_DELETED in payload or ADDED_OPERATION in payload:\n        return _of_row",
            "    if not _is_envelope(payload) and (ADDED_DELETED in payload or ADDED_OPERATION in payload):\n"
            "        return _of_row",
        ),
        long=True,
    ),
    one(
        "any source makes an envelope",
        "a row that says nothing of itself would be a deletion",
        "tests/formats/test_debezium_flat.py::test_a_row_that_nothing_is_added_to_is_a_reject_and_no_envelope[row2]",
        Edit(
            "formats/debezium/change.py",
            '(source is not None or any(isinstance(payload.get(side), dict) for side in ("before", "after")))',
            "any(each in payload for each in ('source', 'before', 'after'))",
        ),
        long=True,
    ),
    one(
        "the text of an hstore is a value",
        "the placeholder would overwrite what the row has",
        (
            f'{MARKED}a_placeholder_may_be_written_in_hexadecimal_as_the_connector_takes_it[{{"ABC":"ABC"}}-string-schema6]',
        ),
        Edit("formats/debezium/unavailable.py", "raw.hex(), _map_as_text(text)})", "raw.hex()})"),
        long=True,
    ),
    one(
        "a placeholder in hexadecimal is a text",
        "no value would be known as unavailable",
        f"{MARKED}a_placeholder_that_is_no_text_is_known_by_its_bytes",
        Edit(
            "core/capture/debezium.py",
            "bytes.fromhex(given.removeprefix(HEX)) if given.startswith(HEX) else given.encode()",
            "given.encode()",
        ),
        long=True,
    ),
    one(
        "bytes have no sign",
        "a placeholder beyond ASCII would be written as an array of numbers",
        f"{MARKED}the_bytes_of_a_placeholder_are_javas_in_an_array_of_numbers[numbers0]",
        Edit("formats/debezium/unavailable.py", 'cast("b")', 'cast("B")'),
        long=True,
    ),
    one(
        "any double becomes the nearest float",
        "digits would be lost without a word",
        f"{REALS}a_number_that_would_be_rounded_is_a_reject[1234567.891-float-schema0]",
        Edit("formats/debezium/exact.py", "(was_double and made != wide) or ", ""),
        long=True,
    ),
    one(
        "any digits become the nearest number",
        "a bigint without a schema would be another number in a double",
        f"{REALS}a_fraction_of_more_digits_than_a_column_holds_is_a_reject[0.1234567890123456789-double]",
        Edit(
            "formats/debezium/exact.py",
            "return abs(Decimal(made) - value) <= ",
            "return True or abs(Decimal(made) - value) <= ",
        ),
        long=True,
    ),
    one(
        "a mark of no column is passed over",
        "a renamed column would be null where the row has a value",
        (f"{RENAMED}a_mark_of_no_column_is_refused_and_the_row_keeps_its_value[per batch]",),
        Edit(
            "targets/unavailable.py",
            "[row.name for row in every(cur)]",
            "[row.name for row in every(cur) if row.name in self._types]",
        ),
        long=True,
    ),
    one(
        "a template takes a placeholder for a value",
        "it would overwrite what the row has",
        (f"{TEMPLATES}a_batch_is_what_the_decoder_makes_of_each_record[log-0]",),
        Edit(
            "formats/debezium/templates.py",
            "good &= ~pc.is_in(texts, self._placeholders).to_numpy(zero_copy_only=False)",
            "good &= True",
        ),
        long=True,
    ),
    one(
        "a row that a template takes leaves the memory of a deletion",
        "a tombstone would have the order of another deletion, and its row would stay",
        tuple(
            f"{TEMPLATES}a_row_that_a_template_takes_ends_the_memory_of_its_keys_deletion[{cut}]" for cut in (1, 3, 4)
        ),
        Edit("formats/judged.py", "if self.pass_over and begin < end:", "if False:"),
        long=True,
    ),
    one(
        "a template's record needs no key",
        "a row without its key would be staged, and refuse the batch",
        (f"{TEMPLATES}a_batch_is_what_the_decoder_makes_of_each_record[log-0]",),
        Edit("formats/debezium/templates.py", "if column.name in self._needed and array.null_count:", "if False:"),
        long=True,
    ),
    one(
        "a text with an escape is what it says",
        "the row would hold the escape and not the letter",
        (f"{TEMPLATES}a_batch_is_what_the_decoder_makes_of_each_record[log-0]",),
        Edit(
            "formats/debezium/slots.py",
            '"string": r\'(?:"([^"\\\\\\x00-\\x1f]*)"|null)\'',
            '"string": r\'(?:"([^"]*)"|null)\'',
        ),
        long=True,
    ),
    one(
        "a bool of 2 is false by columns",
        "a reject would be a row with another value",
        (f"{PROTOBUF}bytes_that_no_writer_writes_are_left_to_the_decoder[a bool of 2]",),
        Edit("formats/protobuf/columns.py", "cursors.refuse(rows, octets > 1)", "cursors.refuse(rows, octets > 9)"),
        long=True,
    ),
    one(
        "what stands behind a message's fields is passed over",
        "a field that comes twice, or in another order, would be lost",
        tuple(f"{PROTOBUF}whatever_is_taken_is_what_the_decoder_makes_of_it[{seed}]" for seed in range(3)),
        Edit("formats/avro/heads.py", "    cursors.finish()\n", ""),
        long=True,
    ),
]
