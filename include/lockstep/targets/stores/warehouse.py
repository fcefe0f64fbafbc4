"""Keeps results in a Postgres of their own, or in the ledger's beside its transaction.

A delivery is one transaction there.
"""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg2
from psycopg2 import sql

from lockstep.adapters.postgres import COMMITTER, LEDGER_PLACE, Place, connect, transaction
from lockstep.adapters.postgres_words import first_line, without_values
from lockstep.core.changes.restored import SeenBatch
from lockstep.core.errors import BadData, BadDefinition, Refusal
from lockstep.core.pipeline.definition import Append, AtLeastOnce, Idempotent
from lockstep.faults import reach
from lockstep.ledger.admin.origin_index import index_new_tables
from lockstep.ledger.queries import queries
from lockstep.ledger.quoting import table_name
from lockstep.ledger.rows import every, maybe, one
from lockstep.targets.stores import arrival
from lockstep.targets.table import fit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg2.extensions import cursor

    from lockstep.core.pipeline.columns import Column
    from lockstep.core.pipeline.definition import Pipeline
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.targets.stores.delivery import Delivery, FoundDelivery, Range

Q = queries("lockstep.targets.stores", "warehouse")
WAREHOUSE_LOCK_SECONDS = 60
ROWS_PER_COPY = 10_000


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A Postgres that holds results. `role` writes them in the ledger's own database, None is the login of another."""

    dsn: str = field(repr=False)
    place: Place = LEDGER_PLACE
    role: str | None = None

    def require_fit(self, pipeline: Pipeline, columns: Sequence[Column]) -> None:
        """Refuses a store without the table, a column, the key that the guarantee needs, or the rights."""
        with self._transaction() as cur:
            cur.execute(Q["has_room"])
            if not one(cur).yes:
                raise Refusal(
                    f"{pipeline.name}: {self.place.called} is not made ready for deliveries",
                    next_command=f"lockstep migrate {pipeline.name}",
                )
            fit.require_columns(cur, pipeline, columns)
            if isinstance(pipeline.guarantee, Idempotent):
                fit.require_key(cur, pipeline)
            elif isinstance(pipeline.guarantee, AtLeastOnce):
                fit.refuse_key(cur, pipeline)
            cur.execute(Q["may_write"], {"table": pipeline.first.table})
            if not one(cur).granted:
                raise Refusal(
                    f"{pipeline.name}: this login may not select, insert, update and delete in {pipeline.first.table} "
                    f"of {self.place.called}",
                    next_command=f"lockstep migrate {pipeline.name}",
                )

    def make(self, folder: PipelineFolder) -> str:
        """Runs target.sql there, and creates the tables that record deliveries.

        Refuses the database of a ledger.
        """
        pipeline = folder.pipeline
        if folder.target_sql is None:
            raise BadDefinition(f"{pipeline.name}: {folder.path.name}/target.sql is missing")
        with self._transaction() as cur:
            cur.execute(Q["is_a_ledger"])
            if one(cur).yes:
                raise Refusal(
                    f"{pipeline.name}: {self.place.called} is the database of a ledger, with streams of its own",
                    next_command=f"set {self.place.variable} to another database, or leave store out of the definition",
                )
            try:
                cur.execute(Q["make_room"])
                cur.execute(folder.target_sql)
                index_new_tables(cur, [each.table for each in pipeline.targets if not isinstance(each, Append)])
            except psycopg2.ProgrammingError as error:
                raise BadDefinition(
                    f"{pipeline.name}: target.sql does not give a table {pipeline.first.table} in {self.place.called}: "
                    f"{first_line(error)}",
                    next_command=f"lockstep migrate {pipeline.name}",
                ) from None
        return pipeline.first.table

    def take(self, cur: cursor, delivery: Delivery) -> None:
        """Copies the staged rows, as Postgres itself writes them, to a file in the spool."""
        arrival.take(cur, delivery)

    def bring(self, delivery: Delivery) -> dict[str, int]:
        """Makes the rows results in one transaction. Refuses if a newer delivery of the same offsets has come."""
        with self._refusing(delivery), self._transaction() as cur:
            effect = arrival.publish_spooled(cur, delivery, self.place, notes_streams=self.role is None)
            reach("deliver.written")
        return effect

    def seen(self, pipeline: Pipeline) -> tuple[SeenBatch, ...]:
        """Returns the recorded deliveries, and the batches that the rows name."""
        table = pipeline.first.table
        with self._transaction() as cur:
            cur.execute(sql.SQL(Q["seen"]).format(target=table_name(table)), {"target": table})
            return tuple(SeenBatch(*row) for row in every(cur))

    def counts(self, pipeline: Pipeline, ranges: Sequence[Range]) -> dict[Range, FoundDelivery]:
        """Returns rows, offsets and digest of each range, by one statement."""
        with self._transaction() as cur:
            statement = sql.SQL(Q["count_ranges"]).format(target=table_name(pipeline.first.table))
            cur.execute(statement, arrival.arrays(ranges))
            return {tuple(row[:3]): (row.rows, row.records, int(row.sum), int(row.squares)) for row in every(cur)}

    def stranger(self, pipeline: Pipeline, owners: Sequence[tuple[int, int, int, int]]) -> str | None:
        """Returns the first row whose batch does not own its offset."""
        values = arrival.arrays([owner[1:] for owner in owners]) | {"batches": [owner[0] for owner in owners]}
        values["of_pipeline"] = sorted(set(values["streams"]))
        with self._transaction() as cur:
            cur.execute(sql.SQL(Q["strange_row"]).format(target=table_name(pipeline.first.table)), values)
            row = maybe(cur)
        return "stream {} offset {} names batch {}".format(*row) if row else None

    def offsets(self, pipeline: Pipeline, stream_id: int) -> Iterator[int]:
        """Yields the offsets through a server-side cursor, so that memory stays flat."""
        with closing(self._connect()) as conn, conn.cursor() as plain, conn.cursor(name="offsets") as cur:
            plain.execute("set local idle_in_transaction_session_timeout = 0")  # Kafka is read in between
            cur.itersize = ROWS_PER_COPY
            statement = sql.SQL(Q["offsets_of_stream"]).format(target=table_name(pipeline.first.table))
            cur.execute(statement, {"stream_id": stream_id})
            for (offset,) in cur:
                yield offset

    def rows_of_offset(self, pipeline: Pipeline, stream_id: int, offset: int) -> list[dict[str, Any]]:
        """Returns the rows of one record."""
        with self._transaction() as cur:
            statement = sql.SQL(Q["rows_of_record"]).format(target=table_name(pipeline.first.table))
            cur.execute(statement, {"stream_id": stream_id, "offset": offset})
            names = [column.name for column in cur.description]
            return [dict(zip(names, row, strict=True)) for row in every(cur)]

    @contextmanager
    def reading(self) -> Iterator[cursor]:
        """Opens a transaction in the store for the caller's own questions."""
        with self._transaction() as cur:
            yield cur

    @contextmanager
    def _refusing(self, delivery: Delivery) -> Iterator[None]:
        """Turns the store's refusal of the rows into `BadData`, in one line.

        A lost connection is no such refusal.
        """
        try:
            yield
        except psycopg2.DatabaseError as error:
            constraint = f" by {error.diag.constraint_name}" if error.diag.constraint_name else ""
            said, values = without_values(error)
            raise BadData(
                f"{delivery.pipeline.name}: batch {delivery.attempt.batch_id}: {delivery.pipeline.first.table} of "
                f"{self.place.called} refuses the rows{constraint}: {said}",
                next_command=f"lockstep batch {delivery.attempt.batch_id}",
                values=values,
            ) from None

    def _connect(self) -> Any:
        return connect(self.dsn, name="lockstep deliver", place=self.place)

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        with (
            closing(self._connect()) as conn,
            transaction(conn, self.role, lock_seconds=WAREHOUSE_LOCK_SECONDS, place=self.place) as cur,
        ):
            yield cur


def own_database(dsn: str) -> Warehouse:
    """Returns the ledger's own database, written as the committer."""
    return Warehouse(dsn, LEDGER_PLACE, COMMITTER)
