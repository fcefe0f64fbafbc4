"""Writes values as COPY's text format has them."""

from __future__ import annotations

NULL = "\\N"
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def escaped(text: str) -> str:
    """Returns text as COPY reads it back. Most texts have nothing to escape."""
    return text.translate(ESCAPES) if not text.isprintable() or "\\" in text else text
