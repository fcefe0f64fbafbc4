"""Makes the address of a new lake table, and refuses one that readers take differently or the catalog cannot hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from lockstep.core.lake.iceberg import Iceberg

LAKE = "LOCKSTEP_LAKE"
MOST_CHARACTERS = 1000  # of a column of Iceberg's SQL catalog
CHARACTERS_OF_A_FILE = 100  # the folder and the name of a metadata file, whose number grows
READ_DIFFERENTLY = "%?#"  # some readers take these for an escape, a query or a fragment, others for themselves


def address_of_table(pipeline: str, warehouse: str, table: Iceberg) -> str:
    """Returns the address of a new table below the warehouse. Raises `Refusal` for one that will not do."""
    again = f"set {LAKE} to another address, then lockstep migrate {pipeline}"
    odd = next((letter for letter in warehouse if letter in READ_DIFFERENTLY), None)
    if odd is not None:
        raise Refusal(
            f"{pipeline}: {LAKE} has a {odd}, which readers of the lake take differently: name the folder without it",
            next_command=again,
        )
    address = f"{warehouse.rstrip('/')}/{table.namespace}/{table.name}"
    most = MOST_CHARACTERS - CHARACTERS_OF_A_FILE
    if len(address) > most:
        raise Refusal(
            f"{pipeline}: the address of {table} has {len(address)} characters, and at most {most} are taken: a catalog "
            f"of Iceberg holds {MOST_CHARACTERS}, with the names of its files",
            next_command=again,
        )
    return address
