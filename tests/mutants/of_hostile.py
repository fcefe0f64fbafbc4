"""Lists mutants of the guards against one record that harms others, and against blaming the wrong record."""

from __future__ import annotations

from mutants.mutant import Edit, one

ISOLATION = "tests/core/test_isolation.py::test_no_record_is_blamed_"
REJECT = "tests/spark/test_isolated.py::test_a_record_that_ends_its_readers_process_is_a_reject_and_the_others_are_rows"
ODD_WIRES = (
    "tests/formats/test_protobuf_decoder.py::test_odd_wires_are_rejects_wherever_the_parser_would_bend_or_skip_them"
)
EXACT_TIME = "tests/formats/test_protobuf_types.py::test_a_timestamp_is_exact_or_a_reject"

MUTANTS = [
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
        "the second reader of JSON takes names of any length",
        "verify would raise an alarm over a record that Spark rejects",
        (
            "tests/spark/test_hostile.py::test_every_hostile_record_of_json_is_the_row_that_it_says_or_a_reject[as it is]",
        ),
        Edit("formats/json/alone.py", "if any(len(name) * UNITS > MOST_NAME for name in made):", "if None in made:"),
        long=True,
    ),
]
