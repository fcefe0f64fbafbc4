"""Reads a login from JAAS text, the one option in which Java's client takes a whole login."""

from __future__ import annotations

import re

_NAME = r"[A-Za-z][\w.]*"
_OPTION = rf'({_NAME})=(?:"((?:[^"\\]|\\.)*)"|(\w+))'
_JAAS = re.compile(rf"\s*({_NAME})\s+required((?:\s+{_OPTION})*)\s*;\s*")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def read_jaas(text: str) -> tuple[str, dict[str, str]] | None:
    """Returns the module and its options. Returns None for other text, and if an option stands there twice."""
    found = _JAAS.fullmatch(text)
    if found is None:
        return None
    options: dict[str, str] = {}
    for name, quoted, word in re.findall(_OPTION, found[2]):
        if name in options:
            return None
        options[name] = word or re.sub(r"\\(.)", lambda each: _ESCAPES.get(each[1], each[1]), quoted)
    return found[1], options
