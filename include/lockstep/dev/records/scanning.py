"""Reads data files as any reader does that knows nothing of Lockstep: DuckDB, over their paths alone."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from lockstep.installed import is_installed

if TYPE_CHECKING:
    from collections.abc import Sequence

LAKE_READERS = ("pyiceberg", "duckdb")  # the first writes the table, the second reads it back
BY_SHOP = """select shop, count(*) as sales, count(distinct (_stream, _offset)) as offsets, sum(amount) as revenue
from read_parquet(?) group by shop order by shop"""


class ShopSales(NamedTuple):
    """The sales of one shop. `offsets` counts each place in Kafka once."""

    shop: str
    sales: int
    offsets: int
    revenue: Any


def can_scan() -> bool:
    """Returns True if a lake table can be written and read back here."""
    return all(map(is_installed, LAKE_READERS))


def scan_sales(paths: Sequence[str]) -> list[ShopSales]:
    """Returns the sales in these files, by shop."""
    import duckdb  # noqa: PLC0415 - only the demo needs it

    with closing(duckdb.connect()) as reader:
        return [ShopSales(*row) for row in reader.execute(BY_SHOP, [list(paths)]).fetchall()]
