"""Writes ledger/catalog.txt anew from a database that has just been migrated. `make catalog` calls it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from lockstep.ledger.admin import catalog
from support.servers.fresh_ledger import fresh_ledger


def main() -> None:
    with fresh_ledger() as cur:
        text = catalog.catalog_text(catalog.found(cur))
    path = Path(str(files("lockstep.ledger"))) / "catalog.txt"
    path.write_text(text)
    print(f"{path.name}: {len(text.splitlines()) - 1} objects")


if __name__ == "__main__":
    main()
