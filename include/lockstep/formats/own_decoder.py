"""Runs a pipeline's own decoder in the process that reads the records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.formats.own_code import function_of
from lockstep.formats.rows import RecordOutcome, headers_of
from lockstep.formats.values import taker

if TYPE_CHECKING:
    from lockstep.core.pipeline.formats import Custom


class OwnDecoder:
    """The judge that calls the pipeline's own function.

    A dict is a row, None is filtered, and a `ValueError` is a reject. Any other exception is the code's fault, and ends
    the task.
    """

    def __init__(self, format_: Custom, source: str | None) -> None:
        self._function = function_of(format_.function, source)
        self._takers = {column.name: taker(column) for column in format_.columns}

    def __call__(self, key: bytes | None, value: bytes | None, headers: str | None) -> RecordOutcome:
        """Returns the outcome of a record."""
        try:
            made = self._function(key, value, headers_of(headers))
        except ValueError as error:
            return RecordOutcome(reason=str(error) or "refused by the decoder, which gives no reason")
        if made is None:
            return RecordOutcome(filtered=True)
        if not isinstance(made, dict):
            raise TypeError(f"the decoder returns {type(made).__name__}, and must return a dict or None")
        if strangers := made.keys() - self._takers.keys():
            return RecordOutcome(reason=f"column {min(map(str, strangers))}: not in the schema")
        try:
            return RecordOutcome({name: take(made.get(name)) for name, take in self._takers.items()})
        except ValueError as error:
            return RecordOutcome(reason=str(error))
