"""Defines numbers and nested values of JSON as their producer wrote them."""

from __future__ import annotations


class Literal(str):
    """A number of JSON, or a nested value, as its producer wrote it."""

    __slots__ = ()
