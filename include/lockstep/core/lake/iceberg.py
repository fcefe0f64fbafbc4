"""Names a table of the lake, and refuses what no lake table can keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.columns import IDENTIFIER
from lockstep.core.pipeline.guarantees import PerBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockstep.core.pipeline.guarantees import Guarantee
    from lockstep.core.pipeline.targets import Target

CATALOG = "lockstep"  # the name of the catalog in every reader: its rows in `iceberg_tables` have it


class Iceberg(str):
    """A table of the lake, as `namespace.table`. Its value has the catalog in front: `lockstep.sales.orders`.

    Spark and Trino read it by that value. No table of a database has a name of three parts.
    """

    __slots__ = ()

    def __new__(cls, table: str) -> Self:
        """Refuses what is not `namespace.table`, in lower case."""
        parts = table.split(".") if isinstance(table, str) else []
        if len(parts) != 2 or not all(map(IDENTIFIER.match, parts)):  # noqa: PLR2004 - namespace and name
            raise BadDefinition(f"Iceberg({str(table)!r}): it must be namespace.table, in lower case")
        return super().__new__(cls, f"{CATALOG}.{table}")

    def __getnewargs__(self) -> tuple[str]:
        """Returns what a copy is made of."""
        return (f"{self.namespace}.{self.name}",)

    def __repr__(self) -> str:
        return f"Iceberg({self.__getnewargs__()[0]!r})"

    @property
    def namespace(self) -> str:
        """Returns the namespace, such as `sales`."""
        return self.split(".")[1]

    @property
    def name(self) -> str:
        """Returns the table's name in its namespace."""
        return self.split(".")[2]


class LakeCopy(Iceberg):
    """A lake table that this session has copied into a temporary table of the same name."""

    __slots__ = ()


def recorded_table(name: str) -> str:
    """Returns the table of a definition's document, which keeps a lake table by its value."""
    return Iceberg(name.partition(".")[2]) if is_lake_table(name) else name


def is_lake_table(name: str) -> bool:
    """Returns True for the value of an `Iceberg`. A table of the database has two parts."""
    return name.count(".") == 2 and name.startswith(f"{CATALOG}.")  # noqa: PLR2004 - catalog, namespace, name


def lake_places(targets: Iterable[Target]) -> dict[int, Iceberg]:
    """Returns the lake tables by their target's place, or none for a pipeline without one. Copies are no lake tables."""
    tables = {place: target.table for place, target in enumerate(targets)}
    return {p: table for p, table in tables.items() if isinstance(table, Iceberg) and not isinstance(table, LakeCopy)}


def database_places(targets: Sequence[Target]) -> dict[int, Target]:
    """Returns the other targets by their place."""
    return {place: target for place, target in enumerate(targets) if place not in lake_places(targets)}


def refuse_odd_lake(targets: Sequence[Target], guarantee: Guarantee) -> None:
    """Refuses a lake table under another guarantee than PerBatch, one with a feed, and one with several writers."""
    for place, table in lake_places(targets).items():
        if not isinstance(guarantee, PerBatch):
            raise BadDefinition(
                f"target: {table!r} moves in one transaction with the whole batch's offsets, and "
                f"{type(guarantee).__name__}() has none: say guarantee=PerBatch()"
            )
        if targets[place].feed is not None:
            raise BadDefinition(
                f"target.feed of {table!r}: a feed's images are kept by the database, and the lake's rows are not in it: "
                "leave feed out"
            )
        if getattr(targets[place], "shared_with", ()):
            raise BadDefinition(
                f"target.shared_with of {table!r}: one pipeline writes a keyed table of the lake: leave shared_with out, or "
                "name a table of the database"
            )
