"""Makes the rows of the example `reviews` in plain Python. Shares no code with the product."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any


def usable(value: bytes | None) -> dict[str, Any] | None:
    """Returns a record's event, or None where it has no place in a table."""
    try:
        found = json.loads((value or b"").decode())
        datetime.fromisoformat(found["time"])
    except (ValueError, TypeError):
        return None
    return found


def review_of(found: dict[str, Any]) -> tuple:
    data = found["data"]
    author = data["author"] or {}
    name, country = author.get("displayName"), author.get("countryCode")
    stars = [each["stars"] for each in data["ratings"] or [] if each["stars"] is not None]
    return (
        found["id"],
        data["productId"],
        name and name.strip(" "),
        country and country.upper(),
        data["text"],
        min(stars, default=None),
        datetime.fromisoformat(found["time"]),
    )


def ratings_of(found: dict[str, Any]) -> list[tuple]:
    listed = enumerate(found["data"]["ratings"] or [])
    return [(found["id"], place, each.get("aspect"), each["stars"]) for place, each in listed]
