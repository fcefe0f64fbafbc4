"""Names a table of the lake, and refuses what no lake table can keep."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, Self

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.columns import IDENTIFIER
from lockstep.core.pipeline.guarantees import Delivered, PerBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockstep.core.pipeline.guarantees import Guarantee
    from lockstep.core.pipeline.targets import Target

CATALOG = "lockstep"  # the name of the catalog in every reader: its rows in `iceberg_tables` have it
LONGEST_RELATION = 63  # characters of a name in Postgres
_ELSEWHERE = re.compile(r"^[A-Z][A-Z0-9_]{0,40}\Z")


class Iceberg(str):
    """A table of the lake, as `namespace.table`. Its value has the catalog in front: `lockstep.sales.orders`.

    Spark and Trino read it by that value. No table of a database has a name of three parts. A `catalog` names a REST
    catalog elsewhere, in capitals, such as `POLARIS.web.clicks`. Its settings stand in `LOCKSTEP_CATALOG_POLARIS`, or in
    the Airflow connection `lockstep_catalog_polaris`.
    """

    __slots__ = ()

    def __new__(cls, table: str, catalog: str | None = None) -> Self:
        """Refuses what is not `namespace.table`, in lower case."""
        parts = table.split(".") if isinstance(table, str) else []
        if len(parts) != 2 or not all(map(IDENTIFIER.match, parts)):  # noqa: PLR2004 - namespace and name
            raise BadDefinition(f"Iceberg({str(table)!r}): it must be namespace.table, in lower case")
        if catalog is not None:
            refuse_bad_catalog(catalog)
        return super().__new__(cls, f"{catalog or CATALOG}.{table}")

    def __getnewargs__(self) -> tuple[str, str | None]:  # type: ignore[override]  # str knows of one
        """Returns what a copy is made of."""
        return f"{self.namespace}.{self.name}", self.catalog

    def __repr__(self) -> str:
        table, catalog = self.__getnewargs__()
        return f"Iceberg({table!r}, catalog={catalog!r})" if catalog else f"Iceberg({table!r})"

    @property
    def catalog(self) -> str | None:
        """Returns the name of the catalog elsewhere, or None for a table of the ledger's own catalog."""
        name = self.split(".")[0]
        return None if name == CATALOG else name

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

    @property
    def relation(self) -> str:
        """Returns the name of the temporary table. Postgres would cut a long one, and two of them to the same name."""
        if len(self) <= LONGEST_RELATION:
            return str(self)
        digest = sha256(self.encode()).hexdigest()[:16]
        return f"{self[: LONGEST_RELATION - len(digest) - 1]}.{digest}"


def refuse_bad_catalog(name: str) -> None:
    """Refuses a name of a catalog elsewhere that no variable could have."""
    if not isinstance(name, str) or not _ELSEWHERE.match(name):
        raise BadDefinition(
            f"catalog={name!r}: a name in capitals, such as POLARIS; its settings stand in LOCKSTEP_CATALOG_POLARIS"
        )


def recorded_table(name: str) -> str:
    """Returns the table of a definition's document, which keeps a lake table by its value."""
    catalog, _, table = name.partition(".")
    if is_lake_table(name):
        return Iceberg(table)
    return Iceberg(table, catalog) if "." in table and _ELSEWHERE.match(catalog) else name


def catalog_elsewhere(targets: Iterable[Target]) -> str | None:
    """Returns the name of the catalog elsewhere that a target is in, or None."""
    tables = [target.table for target in targets]
    return next((t.catalog for t in tables if isinstance(t, Iceberg) and t.catalog), None)


def is_lake_table(name: str) -> bool:
    """Returns True for the value of an `Iceberg` in the ledger's own catalog. A table of the database has two parts."""
    return name.count(".") == 2 and name.startswith(f"{CATALOG}.")  # noqa: PLR2004 - catalog, namespace, name


def lake_places(targets: Iterable[Target]) -> dict[int, Iceberg]:
    """Returns the tables of the ledger's own catalog by their target's place. Copies are no lake tables."""
    tables = {place: target.table for place, target in enumerate(targets)}
    found = {p: table for p, table in tables.items() if isinstance(table, Iceberg) and table.catalog is None}
    return {place: table for place, table in found.items() if not isinstance(table, LakeCopy)}


def database_places(targets: Sequence[Target]) -> dict[int, Target]:
    """Returns the other targets by their place."""
    return {place: target for place, target in enumerate(targets) if place not in lake_places(targets)}


def refuse_odd_lake(targets: Sequence[Target], guarantee: Guarantee) -> None:
    """Refuses a lake table that its catalog cannot keep the promise for: by guarantee, feed, or several writers."""
    for target in targets:
        table = target.table
        if not isinstance(table, Iceberg) or table.catalog is None:
            continue
        if type(target).__name__ != "Append":
            raise BadDefinition(f"target: {table!r} is in a catalog elsewhere, which takes only Append")
        if not isinstance(guarantee, Delivered):
            raise BadDefinition(
                f"target: {table!r} is in a catalog elsewhere, and {type(guarantee).__name__}() moves results and offsets "
                "in one transaction: say guarantee=Idempotent(), AtLeastOnce() or AtMostOnce(), or leave catalog out"
            )
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
