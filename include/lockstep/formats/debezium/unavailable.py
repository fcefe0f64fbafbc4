"""Recognises the placeholder that Debezium writes for a value that the source's log does not hold."""

from __future__ import annotations

from base64 import b64encode
from hashlib import md5
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable


def placeholder_test(placeholder: str) -> Callable[[Any], bool]:
    """Returns a function that is True for a JSON value that stands for an unavailable one, whatever its type.

    Text and bytes are the placeholder. An array holds it, or its bytes as numbers. A map has it as name and value.
    """
    raw = placeholder.encode()
    alone = {placeholder, b64encode(raw).decode(), raw.hex(), raw}
    of_uuids = str(UUID(bytes=md5(raw, usedforsecurity=False).digest(), version=3))
    numbers = list(raw)

    def is_unavailable(value: Any) -> bool:
        match value:
            case str() | bytes():
                return value in alone
            case [str() | bytes() as one]:
                return one in alone or one == of_uuids
            case [*many]:
                return many == numbers
        return bool(value == {placeholder: placeholder})

    return is_unavailable
