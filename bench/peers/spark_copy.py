"""Copies from Spark's tasks: Spark makes the lines, and Python workers of `foreachPartition` send them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - as every reader of PySpark knows it

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, Row

AS_POSTGRES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}
LINES_AT_ONCE, BUFFER_BYTES = 10_000, 1 << 18


def copy(frame: DataFrame, dsn: str, into: str, tasks: int) -> None:
    """Appends the frame to a table by so many tasks.

    Each task is a transaction, so that one that is tried again doubles nothing.
    """
    statement = f"copy {into} ({', '.join(frame.columns)}) from stdin (format csv)"
    lines = frame.select(F.to_csv(F.struct(*frame.columns), AS_POSTGRES).alias("line")).coalesce(tasks)

    # Defined here so that workers need no import of the bench.
    def send(rows: Iterator[Row]) -> None:
        import io  # noqa: PLC0415
        from contextlib import closing  # noqa: PLC0415
        from itertools import islice  # noqa: PLC0415

        import psycopg2  # noqa: PLC0415

        with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
            while some := [row.line for row in islice(rows, LINES_AT_ONCE)]:
                cur.copy_expert(statement, io.StringIO("\n".join([*some, ""])), BUFFER_BYTES)

    lines.foreachPartition(send)
