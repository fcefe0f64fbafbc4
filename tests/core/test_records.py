"""Tests that one table lists Lockstep's own columns, and that each package takes its columns from it."""

import pytest

from lockstep.core import records
from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.columns import Column
from lockstep.core.records import RECORD_COLUMNS, RESERVED
from lockstep.engine.raw_schema import RAW_SCHEMA
from lockstep.engine.spark.rows import in_spark


@pytest.mark.parametrize("name", sorted({"_bytes", "_partition", "_batch", *(c.name for c in RECORD_COLUMNS)}))
def test_no_definition_takes_a_name_that_lockstep_fills(name):
    with pytest.raises(BadDefinition, match=f"column '{name}' is reserved"):
        Column(name, "int")


def test_staging_begins_with_these_columns_in_this_order():
    assert dict(records.RESERVED_COLUMNS) == {
        "_stream": "integer",
        "_offset": "bigint",
        "_ordinal": "integer",
        "_task": "bigint",
        "_timestamp": "timestamptz",
        "_deleted": "boolean",
        "_reason": "text",
        "_key": "bytea",
        "_value": "bytea",
        "_headers": "text",
    }
    assert list(dict(records.RESERVED_COLUMNS)) == [c.name for c in RECORD_COLUMNS if c.postgres]


def test_the_bytes_beside_a_transform_are_those_of_a_reject():
    assert [name for name, _ in records.RAW_COLUMNS] == [
        "_stream",
        "_offset",
        "_task",
        "_timestamp",
        "_key",
        "_value",
        "_headers",
    ]


def test_a_transform_is_given_what_names_a_record_and_hides_the_rest():
    assert records.GIVEN_COLUMNS == (
        ("_stream", "int"),
        ("_offset", "bigint"),
        ("_timestamp", "timestamp"),
        ("_key", "binary"),
        ("_headers", "string"),
    )
    own = {"_ordinal", "_deleted", "_reason", "_value", "_bytes", "_filtered", "_topic", "_partition"}
    assert set(records.HIDDEN) == own


def test_a_reader_delivers_the_same_columns_in_arrow_and_in_spark():
    found = [(field.name, field.dataType.simpleString()) for field in in_spark(RAW_SCHEMA)]
    assert found == list(records.READ_COLUMNS)
    assert [field.name for field in RAW_SCHEMA][-3:] == ["_bytes", "_topic", "_partition"]


def test_every_column_of_lockstep_is_reserved():
    assert {c.name for c in RECORD_COLUMNS} | {"_batch"} == RESERVED
