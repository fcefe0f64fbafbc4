"""Holds the systems that a step works with: the ledger's connection, the broker, and the way to connect once more."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lockstep.adapters.postgres import connect

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from psycopg2.extensions import connection

    from lockstep.adapters.kafka.broker import Broker
    from lockstep.core.registry import Registry


@dataclass(slots=True)
class Context:
    """The outside systems of one run. The connection is opened when first needed, and again after it was lost.

    `stores` are the addresses of other stores, by name. `find_registry` returns the schema registry, if there is one.
    `stager_dsn` is the login of executors, if they have one of their own.
    """

    dsn: str = field(repr=False)
    broker: Broker
    stores: Mapping[str, str] = field(default_factory=dict, repr=False)
    find_registry: Callable[[], Registry | None] = field(default=lambda: None, repr=False)
    stager_dsn: str | None = field(default=None, repr=False)
    _conn: connection | None = field(default=None, repr=False)

    @property
    def conn(self) -> connection:
        """Returns a connection to the ledger that is not known to be broken."""
        if self._conn is None or self._conn.closed:
            self._conn = connect(self.dsn)
        return self._conn

    def close(self) -> None:
        """Closes the connection."""
        if self._conn is not None:
            self._conn.close()
