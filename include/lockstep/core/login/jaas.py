"""Writes and reads a login as JAAS text, the one option in which Java's client takes a whole login."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = r"[A-Za-z][\w.]*"
_OPTION = rf'({_NAME})=(?:"((?:[^"\\]|\\.)*)"|(\w+))'
_JAAS = re.compile(rf"\s*({_NAME})\s+required((?:\s+{_OPTION})*)\s*;\s*")
_ESCAPES = {"\n": "n", "\r": "r", "\t": "t", "\\": "\\", '"': '"'}
_MEANT = {letter: character for character, letter in _ESCAPES.items()}


def jaas_text(module: str, options: Mapping[str, str]) -> str:
    """Returns the login as one line: a module and its options."""
    return " ".join([module, "required", *(f'{name}="{_quoted(value)}"' for name, value in options.items())]) + ";"


def read_jaas(text: str) -> tuple[str, dict[str, str]] | None:
    """Returns the module and its options. Returns None for other text, and if an option stands there twice."""
    found = _JAAS.fullmatch(text)
    if found is None:
        return None
    options: dict[str, str] = {}
    for name, quoted, word in re.findall(_OPTION, found[2]):
        if name in options:
            return None
        options[name] = word or re.sub(r"\\(.)", lambda each: _MEANT.get(each[1], each[1]), quoted)
    return found[1], options


def _quoted(text: str) -> str:
    return "".join(f"\\{_ESCAPES[each]}" if each in _ESCAPES else each for each in text)
