"""Defines the person who takes a recorded decision, and the reason."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.core.errors import Refusal
from lockstep.core.text import is_utf8


@dataclass(frozen=True, slots=True)
class Person:
    """A person who takes responsibility: `login@host`, and the reason in their own words.

    `run` is the key of the Airflow run of the decision. It is kept with what the person decides or asks for.
    """

    who: str
    why: str
    run: str | None = None

    def __post_init__(self) -> None:
        if not self.who.strip() or not self.why.strip():
            raise Refusal("a decision is recorded with who takes it and why; one of the two is empty")
        if not all(map(_is_held, (self.who, self.why))):
            raise Refusal(
                "a decision is recorded with who takes it and why; one of the two holds NUL, or is no text of UTF-8"
            )


def _is_held(text: str) -> bool:
    """Returns True for a text that Postgres can hold."""
    return "\0" not in text and is_utf8(text)
