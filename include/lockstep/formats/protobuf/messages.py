"""Reads the bytes of one message type. A record that is not what its schema says has a reason, and no value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from lockstep.formats.protobuf.bounds import WireShape, WireWalk

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

    from lockstep.core.pipeline.limits import RecordLimits

BYTES_A_LEVEL = 2  # of a message within another: its tag and its length


class MessageType:
    """A message of a schema id: its fields by name, and its reader."""

    def __init__(self, schema_id: int, descriptor: Descriptor, limits: RecordLimits) -> None:
        self.schema_id = schema_id
        self.name = descriptor.full_name
        self.fields = {field.name: field for field in descriptor.fields}
        self._limits = limits
        self._class = GetMessageClass(descriptor)
        self._shape = WireShape(descriptor, limits.depth)

    def read(self, body: bytes) -> dict[int, Any]:
        """Returns the fields that are set, by number. Raises `ValueError` with the reason if the bytes do not decode.

        A field without presence is set if it is not its type's default.
        """
        try:
            return self._read(body)
        except (ValueError, DecodeError) as error:
            raise ValueError(f"does not decode by schema id {self.schema_id}: {error}") from None

    def _read(self, body: bytes) -> dict[int, Any]:
        # The parser is lenient: it cuts numbers to size, and takes a field of another wire type for an unknown one.
        # What it would write again byte for byte holds nothing of that kind. All else is walked.
        unwalked = self._is_within(len(body))
        if not unwalked:
            WireWalk(body, self._shape, self._limits).over_record()
        message = self._class.FromString(body)
        if unwalked:
            message.DiscardUnknownFields()
            if message.SerializePartialToString(deterministic=True) != body:
                WireWalk(body, self._shape, self._limits).over_record()
        if self._shape.has_required and not message.IsInitialized():
            raise ValueError(f"lacks {', '.join(message.FindInitializationErrors())}, which the schema requires")
        return {field.number: value for field, value in message.ListFields()}

    def _is_within(self, size: int) -> bool:
        """Returns True if no record of this size can be past the limits of depth and values."""
        shape, limits = self._shape, self._limits
        shallow = shape.is_bounded or size < BYTES_A_LEVEL * limits.depth
        return shallow and not shape.has_groups and (size + 1) * shape.widest <= limits.values
