"""Lists mutants of the adapters of Kafka and Spark.

Their tests need a broker, and some a JVM, so all are long.
"""

from __future__ import annotations

from mutants.mutant import Edit, Mutant

SPARK, WAYS = "tests/spark/test_exactly_what_was_planned.py::", ("rows", "a transform")
READERS = "tests/spark/test_two_readers.py::"
STRETCHES = "tests/kafka/test_long_aborted_stretches.py::"
MALFORMED = "tests/kafka/test_malformed_batches.py::"
DRIVER = "tests/spark/test_chosen_engine.py::"

MUTANTS = [
    Mutant(
        "planned to the high watermark",
        "an open transaction is not there yet; what it holds may be aborted",
        (Edit("adapters/kafka/client.py", "IsolationLevel.READ_COMMITTED", "IsolationLevel.READ_UNCOMMITTED"),),
        ("tests/kafka/test_bounds.py::test_an_open_transaction_ends_the_log_for_whoever_plans",),
        long=True,
    ),
    Mutant(
        "a reader stops one offset early",
        "a range ends where the next one begins",
        (Edit("engine/kafka_ranges.py", "bisect_left(messages, until, key", "bisect_left(messages, until - 1, key"),),
        tuple(f"{SPARK}test_every_record_of_the_range_is_read_and_none_beside_it[{way}]" for way in WAYS),
        (SPARK.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "a task goes on where the log begins now",
        "what was deleted would be skipped",
        (Edit("engine/kafka_ranges.py", '"auto.offset.reset": "error"', '"auto.offset.reset": "earliest"'),),
        tuple(f"{SPARK}test_records_that_are_deleted_before_the_read_fail_it[{way}]" for way in WAYS),
        (SPARK.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "ranges are read together however many bytes they have",
        "250 records of 10 MB would be held at once",
        (Edit("engine/kafka_ranges.py", "> BYTES_READ_TOGETHER:", "> 2**63:"),),
        ("tests/spark/test_large_records.py::test_ranges_with_too_many_bytes_are_read_one_by_one_and_give_the_same",),
        long=True,
    ),
    Mutant(
        "a task stops one offset early",
        "a range ends where the next one begins",
        (Edit("engine/kafka_ranges.py", "item.offsets.until_offset if", "item.offsets.until_offset - 1 if"),),
        tuple(f"{SPARK}test_every_record_of_the_range_is_read_and_none_beside_it[{way}]" for way in WAYS),
        (SPARK.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "a task keeps what it fetched past a range's end",
        "the next range holds it, too",
        (
            Edit(
                "engine/kafka_ranges.py",
                "wanted = messages[: bisect_left(messages, until, key=Message.offset)]",
                "wanted = messages",
            ),
        ),
        (
            f"{READERS}test_it_gives_the_records_of_any_range_of_one_topic_or_two",
            f"{READERS}test_archived_files_give_the_same_records_as_kafka_of_any_range",
        ),
        (READERS.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "a task reads what was aborted",
        "what was taken back never was",
        (Edit("engine/kafka_ranges.py", '"read_committed"', '"read_uncommitted"'),),
        (
            f"{READERS}test_it_gives_the_records_of_any_range_of_one_topic_or_two",
            f"{READERS}test_offsets_that_are_gone_or_not_there_yet_are_named_and_nothing_stands_for_them",
        ),
        (READERS.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "a task gives up where all that it fetches is aborted",
        "the batch would be stuck for good",
        (Edit("engine/kafka_ranges.py", " or fetched.has_moved():", ":"),),
        (
            f"{STRETCHES}test_a_reader_goes_on_through_a_stretch_that_takes_longer_than_its_patience[task]",
            f"{STRETCHES}test_a_range_that_ends_at_an_abort_marker_ends_there[task]",
            f"{STRETCHES}test_a_task_that_fetches_nothing_names_the_offset_at_which_it_waits",
        ),
        (STRETCHES.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "a task goes on behind a batch that cannot be read",
        "it waits, or speaks of an offset that does not exist",
        (
            Edit(
                "engine/kafka_ranges.py",
                "                    refuse_malformed(all_[place], self.bootstrap)\n",
                "                    pass\n",
            ),
        ),
        (
            f"{MALFORMED}test_a_malformed_batch_is_named_by_offset_by_every_reader_and_ends_none",
            f"{MALFORMED}test_a_malformed_batch_is_skipped_and_records_before_it_are_filled",
        ),
        (MALFORMED.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "verify reads without checksums",
        "the client aborts the process, or gives other bytes",
        (Edit("adapters/kafka/client.py", '"check.crcs": True', '"check.crcs": False'),),
        (f"{MALFORMED}test_a_malformed_batch_is_named_by_offset_by_every_reader_and_ends_none",),
        (MALFORMED.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "a read in the driver goes on when its batch was taken over",
        "nobody can stop it from outside, as Spark's jobs are stopped",
        (Edit("engine/kafka_ranges.py", "            go_on()\n", ""),),
        (f"{DRIVER}test_a_read_that_waits_for_the_log_ends_when_it_is_cancelled",),
        (DRIVER.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "a piece of a range begins within the piece before it",
        "a record would be staged twice",
        (Edit("engine/spark/ranges.py", "first + max(begin, 0)", "first + max(begin - 1, 0)"),),
        ("tests/spark/test_groups.py::test_shares_are_the_ranges_each_offset_once_and_no_share_has_two_pieces_of_one",),
        long=True,
    ),
]
