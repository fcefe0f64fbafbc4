"""Defines a statement that a login tries, and what it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, what it would do to which object, and a query whose answer changes if it has done anything."""

    kind: str
    object: str
    part: str
    how: str
    sql: str
    effect: str | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        numbered = self.object.startswith("lockstep_staging.")
        return self.kind, re.sub(r"\d+", "#", self.object) if numbered else self.object, self.part, self.how
