"""Mutants of what speaks to Kafka and to Spark; their tests need a broker, and some a JVM, so all are long."""

from __future__ import annotations

from mutants.mutant import Edit, Mutant

SPARK = "tests/spark/test_exactly_what_was_planned.py::"
READERS = "tests/spark/test_two_readers.py::"

MUTANTS = [
    Mutant(
        "planned to the high watermark",
        "an open transaction is not there yet; what it holds may be aborted",
        (Edit("adapters/kafka.py", "IsolationLevel.READ_COMMITTED", "IsolationLevel.READ_UNCOMMITTED"),),
        ("tests/kafka/test_bounds.py::test_an_open_transaction_ends_the_log_for_whoever_plans",),
        long=True,
    ),
    Mutant(
        "failOnDataLoss=false",
        "Spark would go on with what is left",
        (Edit("adapters/spark_source.py", '"failOnDataLoss": "true"', '"failOnDataLoss": "false"'),),
        (f"{SPARK}test_records_that_are_deleted_before_the_read_fail_it[long]",),
        (SPARK.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "Spark stops one offset early",
        "a range ends where the next one begins",
        (
            Edit(
                "adapters/spark_source.py",
                "str(p): i.offsets.until_offset for",
                "str(p): i.offsets.until_offset - 1 for",
            ),
        ),
        (f"{SPARK}test_every_record_of_the_range_is_read_and_none_beside_it[long]",),
        (SPARK.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "a task goes on where the log begins now",
        "what was deleted would be skipped",
        (Edit("adapters/kafka_ranges.py", '"auto.offset.reset": "error"', '"auto.offset.reset": "earliest"'),),
        (f"{SPARK}test_records_that_are_deleted_before_the_read_fail_it[short]",),
        (SPARK.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "a task stops one offset early",
        "a range ends where the next one begins",
        (Edit("adapters/kafka_ranges.py", "item.offsets.until_offset\n", "item.offsets.until_offset - 1\n"),),
        (f"{SPARK}test_every_record_of_the_range_is_read_and_none_beside_it[short]",),
        (SPARK.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "a task keeps what it fetched past a range's end",
        "the next range holds it, too",
        (Edit("adapters/kafka_ranges.py", "if error is None and offset < until:", "if error is None:"),),
        (f"{READERS}test_they_give_the_same_records_of_any_range",),
        (READERS.removesuffix("::"),),
        long=True,
    ),
    Mutant(
        "a task reads what was aborted",
        "what was taken back never was",
        (Edit("adapters/kafka_ranges.py", '"read_committed"', '"read_uncommitted"'),),
        (
            f"{READERS}test_they_give_the_same_records_of_any_range",
            f"{READERS}test_offsets_that_are_gone_or_not_there_yet_are_named_and_nothing_stands_for_them",
        ),
        (READERS.removesuffix("::"),),
        long=True,
    ),
]
