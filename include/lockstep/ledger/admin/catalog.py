"""Compares the database's objects with those that the migrations make."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from lockstep.core.health.catalog import Object, deviations
from lockstep.core.ledger_rights import EXPECTED_ROLES
from lockstep.ledger.queries import queries
from lockstep.ledger.rows import every

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import cursor

    from lockstep.core.health.catalog import Deviation

Q = queries("lockstep.ledger.admin", "catalog")
BETWEEN = " | "


def deviating(cur: cursor) -> list[Deviation]:
    """Returns each object that is not as this code's migrations make it. Call it only on a ledger of this version."""
    return deviations(made(), found(cur))


def found(cur: cursor) -> dict[Object, str]:
    """Returns the definition of every ledger object that a promise rests on, by kind and name."""
    # Otherwise names are qualified by the session's own path. The caller's path comes back.
    cur.execute("savepoint own_path; set local search_path = pg_catalog")
    cur.execute(Q["catalog"], {"roles": list(EXPECTED_ROLES)})
    objects = {(row.kind, row.name): " ".join(row.what.split()) for row in every(cur)}
    cur.execute("rollback to own_path; release own_path")
    return objects


@cache
def made() -> Mapping[Object, str]:
    """Reads the catalog that the migrations make from `catalog.txt`. A test holds the file to them."""
    lines = files("lockstep.ledger").joinpath("catalog.txt").read_text(encoding="utf-8").splitlines()
    split = (line.split(BETWEEN, 2) for line in lines if line and not line.startswith("#"))
    return {(kind, name): what for kind, name, what in split}


def catalog_text(catalog: Mapping[Object, str]) -> str:
    """Returns the text of `catalog.txt`."""
    head = "# What the migrations make: kind, name, what it is. Written by `make catalog`; a test holds it to a fresh ledger."
    return "\n".join([head, *(BETWEEN.join([*each, what]) for each, what in sorted(catalog.items()))]) + "\n"
