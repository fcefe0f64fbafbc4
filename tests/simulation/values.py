"""Computes, without the product, the values that the house's records must become in its target."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.oracles.contents import NO_ROW

if TYPE_CHECKING:
    from collections.abc import Callable


def becomes(kind: str) -> Callable[[bytes, bytes | None, dict | None], object]:
    """Returns the columns of a record's row: its own fields, with `n` multiplied by the code of the day.

    The row names that code.
    """

    def expected(_key: bytes, value: bytes | None, row: dict | None) -> Any:
        if kind == "versions" and value is None:
            return {"id": (_key or b"").decode(), "n": None, "uid": None, "_deleted": True}
        try:
            content = dict(json.loads(value))
        except (ValueError, TypeError):
            return NO_ROW  # garbage is a reject. A deletion is a reject, too, or removes a row.
        factor = (row or {}).get("factor", 1)
        if kind not in {"accumulated", "windowed"} and content["n"] is not None:
            content["n"] *= factor
        return content

    return expected
