"""Names the changes that a request makes to the rows of a target."""

from __future__ import annotations

from enum import StrEnum


class RowChange(StrEnum):
    """The fate of a target's row when its records are read again."""

    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    UNCHANGED = "unchanged"
