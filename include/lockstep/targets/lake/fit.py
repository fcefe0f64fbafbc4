"""Refuses a lake table whose columns are not those that rows or files were made for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.errors import BadDefinition, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.adapters.iceberg.table import LakeTable
    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline


def require_lake_columns(pipeline: Pipeline, table: LakeTable, columns: Sequence[Column]) -> None:
    """Refuses a table that rows with these columns do not fit."""
    if why := table.misfit(columns):
        raise BadDefinition(
            f"{pipeline.name}: {table.name}: {why}", next_command=f"alter table {table.name}, by Spark or Trino"
        )


def refuse_stale(pipeline: Pipeline, table: LakeTable, column: str | None) -> None:
    """Refuses files of an attempt if there is a column of theirs that is not the table's any more."""
    if column:
        raise Refusal(
            f"{pipeline.name}: the column {column} of {table.name} is not the one that the batch's files were written for",
            next_command=f"lockstep run {pipeline.name}",
        )
