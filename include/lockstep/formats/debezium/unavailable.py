"""Recognises the placeholder that Debezium writes for a value that the source's log does not hold."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from hashlib import md5
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Callable


def placeholder_test(raw: bytes) -> Callable[[Any], bool]:
    """Returns a function that is True for a JSON value that stands for an unavailable one, whatever its type.

    `raw` are the placeholder's bytes. Text and bytes are the placeholder. An array holds it, or its bytes as numbers. A
    map has it as name and value, also where the map is written as text.
    """
    text, alone = raw.decode(errors="replace"), {*placeholder_texts(raw), raw}
    of_uuids = str(UUID(bytes=md5(raw, usedforsecurity=False).digest(), version=3))
    numbers = (list(raw), memoryview(raw).cast("b").tolist())  # Java's bytes have a sign

    def is_unavailable(value: Any) -> bool:
        match value:
            case str() | bytes():
                return value in alone
            case [str() | bytes() as one]:
                return one in alone or one == of_uuids
            case [*many]:
                return many in numbers
        return bool(value == {text: text})

    return is_unavailable


def placeholder_texts(raw: bytes) -> frozenset[str]:
    """Returns the texts that stand for an unavailable value."""
    text = raw.decode(errors="replace")
    return frozenset({text, b64encode(raw).decode(), urlsafe_b64encode(raw).decode(), raw.hex(), _map_as_text(text)})


def _map_as_text(text: str) -> str:
    """Returns the text of a map as Jackson writes it: an hstore becomes one unless the connector sends maps."""
    return json.dumps({text: text}, ensure_ascii=False, separators=(",", ":"))
