"""Who decides, and why: what every recorded decision begins with."""

from __future__ import annotations

from dataclasses import dataclass

from lockstep.core.errors import Refusal


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who takes responsibility: `login@host`, and the reason in his own words.

    `run` is the key of the Airflow run that he decides by, and is kept with what he decides or asks for.
    """

    who: str
    why: str
    run: str | None = None

    def __post_init__(self) -> None:
        if not self.who.strip() or not self.why.strip():
            raise Refusal("a decision is recorded with who takes it and why; one of the two is empty")
