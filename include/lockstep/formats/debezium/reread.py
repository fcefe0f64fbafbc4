"""Judges change records a second time. A value that a record does not have is not compared with the row's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.core.records import UNAVAILABLE
from lockstep.formats.rows import UNSURE

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockstep.formats.rows import RecordOutcome

    Judge = Callable[[bytes | None, bytes | None, str | None], RecordOutcome]


def reread(judge: Judge) -> Judge:
    """Returns the judge with `UNSURE` for each unavailable value."""

    def judged(key: bytes | None, value: bytes | None, headers: str | None) -> RecordOutcome:
        outcome = judge(key, value, headers)
        marks = outcome.values.get(UNAVAILABLE)
        return outcome._replace(values=outcome.values | dict.fromkeys(marks.split(","), UNSURE)) if marks else outcome

    return judged
