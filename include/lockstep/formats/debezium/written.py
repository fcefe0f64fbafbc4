"""Writes nested JSON values as text again, with numbers to the last digit, for columns of text."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import date, time
from decimal import Decimal
from typing import Any

from lockstep.formats.values import storable


def nested_text(value: Any) -> str:
    """Returns an array or object as JSON text. Raises `ValueError` if Postgres could not store it."""
    try:
        return storable(_written(value))
    except RecursionError:
        raise ValueError("is nested too deep") from None


def _written(value: Any) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{_written(name)}:{_written(each)}" for name, each in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
        case Decimal():
            return str(value)
        case bytes():
            return json.dumps(b64encode(value).decode())
        case date() | time():
            return json.dumps(value.isoformat())
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
