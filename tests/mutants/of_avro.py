"""Lists mutants of Avro by columns. Each takes a record that only the decoder of single records may judge."""

from __future__ import annotations

from mutants.mutant import Edit, Mutant

FILE = "tests/formats/test_avro_columns.py"
EDGE = f"{FILE}::test_values_at_the_edge_are_taken_and_those_past_it_are_not"
AVRO = "formats/avro/"


def edge(kind: str, file: str, old: str, new: str) -> Mutant:
    """Returns a mutant that lets values past an edge through."""
    change = Edit(f"{AVRO}{file}.py", old, new)
    why = "another value, or one that is a reject"
    return Mutant(f"Avro by columns: {kind}", why, (change,), (f"{EDGE}[{kind}]",), long=True)


def other(name: str, why: str, test: str, *text: str) -> Mutant:
    """Returns a mutant that another test sees."""
    file, old, new = text
    change = Edit(f"{AVRO}{file}.py", old, new)
    return Mutant(f"Avro by columns: {name}", why, (change,), (f"{FILE}::{test}",), long=True)


MUTANTS = [
    edge("boolean", "readers", "cursors.refuse(rows, octets > 1)", "cursors.refuse(rows, octets > 255)"),
    edge("int", "readers", "_bounded(cursors, rows, INT_BOUNDS)", "_bounded(cursors, rows, (-(2**63), 2**63 - 1))"),
    edge("long", "cursors", "wrong |= byte > 1", "wrong |= byte > 255"),
    edge(
        "string",
        "readers",
        "bad = np.array([not is_utf8_bytes(value) ",
        "bad = np.array([False and not _is_utf8(value) ",
    ),
    edge("NUL", "readers", 'nuls, "right")] = True', 'nuls, "right")] = False'),
    edge("bytes", "cursors", "(sizes < 0) | (sizes > self._ends[rows] - begins)", "sizes < 0"),
    edge("a size below zero", "cursors", "(sizes < 0) | (sizes >", "(sizes >"),
    edge(
        "enum",
        "readers",
        "_bounded(cursors, rows, (0, len(field.symbols) - 1))",
        "_bounded(cursors, rows, (-(2**63), 2**63 - 1)) % 2",
    ),
    edge("union", "readers", " & (branch != 1 - field.value_branch))", " & (branch != branch))"),
    edge("date", "readers", "_bounded(cursors, rows, DAY_BOUNDS)", "_bounded(cursors, rows, INT_BOUNDS)"),
    edge(
        "micros",
        "readers",
        "bounds = -(-MICRO_BOUNDS[0] // ticks), MICRO_BOUNDS[1] // ticks",
        "bounds = INT_BOUNDS[0] << 28, INT_BOUNDS[1] << 28",
    ),
    edge("decimal", "readers", "cursors.refuse(rows, ~within)", "cursors.refuse(rows, within & ~within)"),
    edge("long decimal", "cursors", "self.refuse(rows, sizes > 16)", "self.refuse(rows, sizes > 99)"),
    other(
        "bytes behind a record",
        "the next record's, in one block",
        "test_two_bad_records_that_are_good_together_are_none",
        *("heads", "    cursors.finish()\n", ""),
    ),
    other(
        "a logical type that is not known",
        "it changes what a value is",
        "test_a_schema_with_any_other_type_is_left_whole_even_if_no_column_takes_it[time]",
        *("flat", 'if whole.get("logicalType") is None else', "if True else"),
    ),
    other(
        "a type that the column does not take",
        "the whole batch is refused for it",
        "test_a_schema_that_the_definition_does_not_match_is_left_and_then_refused_as_ever",
        *("flat", "if column is not None and converter(", "if False and converter("),
    ),
    other(
        "a schema of another subject",
        "its records are rejects",
        "test_what_the_registry_does_not_know_or_the_limits_forbid_is_left",
        *("columns", "of_id(schema_id, self._subject)", "of_id(schema_id)"),
    ),
    other(
        "a schema that is past a limit by itself",
        "values that take no bytes are not counted",
        "test_a_schema_whose_records_may_be_past_a_limit_is_left",
        *("flat", "fields is None or writer.is_open or", "fields is None or"),
    ),
    other(
        "a record without its key",
        "the target needs it, and the record is a reject",
        "test_a_record_without_the_targets_key_is_left",
        *("heads", "if column.name in needed and array.null_count:", "if column.name in () and array.null_count:"),
    ),
    other(
        "an error that nobody foresaw",
        "one record would end each try of its batch",
        "test_an_error_that_nobody_foresaw_leaves_the_schemas_records",
        *("heads", "except (ValueError, IndexError, ArithmeticError):", "except IndexError:"),
    ),
    other(
        "the head of a record",
        "any byte would begin one",
        "test_a_bad_record_costs_no_neighbour_anything",
        *("heads", 'octets.take(begins + place, mode="clip") == byte', 'octets.take(begins + place, mode="clip") < 9'),
    ),
]
