"""Writes ledger/catalog.txt anew from a database that has just been migrated. `make catalog` calls it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.ledger.admin import catalog
from support.servers.fresh_ledger import fresh_ledger

if TYPE_CHECKING:
    from psycopg2.extensions import cursor


def main() -> None:
    with fresh_ledger() as cur:
        print(f"catalog.txt: {write_catalog(cur)} objects")


def write_catalog(cur: cursor) -> int:
    """Writes the catalog of the cursor's database into the imported Lockstep. Returns the number of objects."""
    objects = catalog.found(cur)
    (Path(str(files("lockstep.ledger"))) / "catalog.txt").write_text(catalog.catalog_text(objects), encoding="utf-8")
    return len(objects)


if __name__ == "__main__":
    main()
