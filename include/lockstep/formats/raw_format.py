"""Takes the value's bytes untouched. No record of this format is a reject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lockstep.core.pipeline.formats import Raw


def decoded(records: DataFrame, format_: Raw) -> DataFrame:
    """Adds the column, `_deleted` and `_reason` to raw records (`_value`)."""
    return records.withColumns(
        {
            "_deleted": F.lit(False),  # noqa: FBT003 - a literal
            "_reason": F.lit(None).cast("string"),
            format_.column: F.col("_value"),
        }
    )
