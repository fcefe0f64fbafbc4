"""Runs a pipeline's own decoder in the process that reads the records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockstep.core.formats.deletions import Delete, why_no_deletion
from lockstep.core.pipeline.targets import Keyed
from lockstep.formats.own_code import function_of
from lockstep.formats.rows import RecordOutcome, headers_of
from lockstep.formats.values import taker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.core.pipeline.formats import Custom
    from lockstep.core.pipeline.targets import Target


class OwnDecoder:
    """The judge that calls the pipeline's own function.

    A dict is a row, `Delete` a deletion, None is filtered, and a `ValueError` is a reject. Any other exception is the
    code's fault, and ends the task.
    """

    def __init__(self, format_: Custom, source: str | None, targets: Sequence[Target]) -> None:
        self._function = function_of(format_.function, source)
        self._why_no_deletion = why_no_deletion(format_, targets)
        self._key: tuple[str, ...] = next((target.key for target in targets if isinstance(target, Keyed)), ())
        self._takers = {column.name: taker(column) for column in format_.columns}

    def __call__(self, key: bytes | None, value: bytes | None, headers: str | None) -> RecordOutcome:
        """Returns the outcome of a record."""
        try:
            made = self._function(key, value, headers_of(headers))
        except ValueError as error:
            return RecordOutcome(reason=str(error) or "refused by the decoder, which gives no reason")
        if made is None:
            return RecordOutcome(filtered=True)
        if isinstance(made, Delete):
            return self._deletion(made.key)
        if not isinstance(made, dict):
            raise TypeError(f"the decoder returns {type(made).__name__}, and must return a dict, Delete or None")
        if strangers := made.keys() - self._takers.keys():
            return RecordOutcome(reason=f"column {min(map(str, strangers))}: not in the schema")
        try:
            return RecordOutcome({name: take(made.get(name)) for name, take in self._takers.items()})
        except ValueError as error:
            return RecordOutcome(reason=str(error))

    def _deletion(self, key: Any) -> RecordOutcome:
        """Returns the deletion of a row, or the reason why its key names none."""
        names = ", ".join(self._key)
        if self._why_no_deletion:
            return RecordOutcome(reason=f"Delete: {self._why_no_deletion}")
        if not isinstance(key, dict):
            return RecordOutcome(reason=f"Delete: its key is {type(key).__name__}, and must be a dict of {names}")
        if key.keys() != {*self._key}:
            found = ", ".join(sorted(map(str, key))) or "nothing"
            return RecordOutcome(reason=f"Delete: its key names {found}, and the target's key is {names}")
        try:
            values = {name: self._takers[name](key[name]) for name in self._key}
        except ValueError as error:
            return RecordOutcome(reason=f"Delete: {error}")
        empty = [name for name, value in values.items() if value is None]
        return (
            RecordOutcome(reason=f"Delete: column {empty[0]}: null") if empty else RecordOutcome(values, deleted=True)
        )
