"""Builds the descriptors of a schema id, once, and finds the message that a record's indexes name."""

from __future__ import annotations

import base64
import binascii
from importlib import import_module
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError

from lockstep.core.errors import Unreachable
from lockstep.core.formats.registered import HEAD_BYTES
from lockstep.formats.avro.schemas import UnknownSchema
from lockstep.formats.protobuf.messages import MessageType
from lockstep.formats.registered import WritersById

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lockstep.core.pipeline.limits import RecordLimits

GOOGLE = (
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
)
GOOGLE_TYPES = (
    *("calendar_period", "color", "date", "datetime", "dayofweek", "expr", "fraction", "latlng", "money", "month"),
    *("postal_address", "quaternion", "timeofday"),
)
CONFLUENT = "confluent_kafka.schema_registry.confluent"
# Files that a registry knows without a reference, with the modules that hold them here.
KNOWN_FILES = {
    **{f"google/protobuf/{name}.proto": f"google.protobuf.{name}_pb2" for name in (*GOOGLE, "wrappers")},
    **{f"google/type/{name}.proto": f"google.type.{name}_pb2" for name in GOOGLE_TYPES},
    "confluent/meta.proto": f"{CONFLUENT}.meta_pb2",
    **{f"confluent/type/{name}.proto": f"{CONFLUENT}.type.{name}_pb2" for name in ("decimal", "variant")},
}
ALWAYS = tuple(f"google/protobuf/{name}.proto" for name in ("any", "duration", "struct", "timestamp", "wrappers"))
FIRST = (0,)
MOST_INDEXES = 100  # messages within each other
VARINT_BYTES = 5


def split_record(record: bytes) -> tuple[tuple[int, ...], bytes]:
    """Returns the message indexes behind a record's head, and the message's bytes.

    Raises `ValueError` if these are no indexes.
    """
    if record[HEAD_BYTES : HEAD_BYTES + 1] == b"\x00":
        return FIRST, record[HEAD_BYTES + 1 :]
    count, at = _zigzag(record, HEAD_BYTES)
    if not 0 <= count <= MOST_INDEXES:
        raise ValueError(f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(record, at)
        indexes.append(index)
    return tuple(indexes) or FIRST, record[at:]


def _zigzag(record: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place, byte in enumerate(record[at : at + VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:  # noqa: PLR2004 - the sign that it is the last byte
            return (value >> 1) ^ -(value & 1), at + place + 1
    raise ValueError("the bytes end within the message indexes, or these are no numbers")


class MessageWriters(WritersById["DescribedFile"]):
    """The writers of one task's records by schema id."""

    def parse(self, schema_id: int) -> DescribedFile:
        """Returns the described file of an id. Raises `UnknownSchema` if it cannot be read."""
        return described(schema_id, *self._schemas.writer(schema_id), self._limits)


class DescribedFile:
    """The messages of one schema id, in a pool of its own."""

    def __init__(self, schema_id: int, file: FileDescriptorProto, pool: DescriptorPool, limits: RecordLimits) -> None:
        self._schema_id, self._file, self._pool, self._limits = schema_id, file, pool, limits
        self._messages: dict[str, MessageType] = {}
        self._found: dict[tuple[tuple[int, ...], str | None], MessageType] = {}

    def message(self, indexes: tuple[int, ...], wanted: str | None = None) -> MessageType:
        """Returns the message that the indexes name.

        Raises `ValueError` if they name none, or several, or not the wanted one.
        """
        if (indexes, wanted) not in self._found:
            self._found[indexes, wanted] = self._message(self._name(indexes, wanted))
        return self._found[indexes, wanted]

    def by_name(self, name: str) -> MessageType:
        """Returns the message of this full name. Raises `KeyError` if the schema has none."""
        return self._message(name)

    def _message(self, name: str) -> MessageType:
        if name not in self._messages:
            descriptor = self._pool.FindMessageTypeByName(name)
            self._messages[name] = MessageType(self._schema_id, descriptor, self._limits)
        return self._messages[name]

    def _name(self, indexes: tuple[int, ...], wanted: str | None) -> str:
        names = [".".join(name) for name in _named(self._file, indexes)]
        whole = [f"{self._file.package}.{name}" if self._file.package else name for name in names]
        if not whole:
            raise ValueError(f"message indexes {list(indexes)} are not in schema id {self._schema_id}")
        if wanted in whole:
            return str(wanted)
        if wanted is not None:
            raise ValueError(f"schema id {self._schema_id} is message {' or '.join(whole)}, not {wanted}")
        if len(whole) > 1:
            which = f"message indexes {list(indexes)} of schema id {self._schema_id} may be {' or '.join(whole)}"
            raise ValueError(f"{which}: name one as format.message")
        return whole[0]


def _named(file: FileDescriptorProto, indexes: Sequence[int]) -> list[tuple[str, ...]]:
    """Returns the messages that the indexes may name.

    A map is a nested message to some serializers, and none to others. Behind maps an index may so be one of several.
    """
    found: list[tuple[tuple[str, ...], Any]] = [((), file)]
    for place, index in enumerate(indexes):
        found = [
            ((*path, each.name), each)
            for path, parent in found
            for each in _at(parent.message_type if place == 0 else parent.nested_type, index)
        ]
    return [path for path, _ in found]


def _at(messages: Sequence[Any], index: int) -> Iterator[Any]:
    real = [each for each in messages if not each.options.map_entry]
    for place in range(max(0, index - (len(messages) - len(real))), index + 1):
        if place < len(real):
            yield real[place]


def described(schema_id: int, text: str, references: Mapping[str, str], limits: RecordLimits) -> DescribedFile:
    """Builds the descriptors of a schema after its references. Raises `UnknownSchema` if they are none.

    Raises `Unreachable` if the registry gives `.proto` text, which nothing here can read.
    """
    pool, added = DescriptorPool(), set[str]()
    try:
        # First, so that no schema gives one of these names another meaning.
        for name in ALWAYS:
            _add_known(pool, name, added)
        for name, each in references.items():
            if name not in KNOWN_FILES:
                _add(pool, _file(each, schema_id, name), added)
        file = _file(text, schema_id, f"schema id {schema_id}")
        _add(pool, file, added)
    except (TypeError, ValueError, DecodeError, KeyError) as error:
        raise UnknownSchema(f"schema id {schema_id} cannot be read: {type(error).__name__}: {error}") from None
    return DescribedFile(schema_id, file, pool, limits)


def _file(text: str, schema_id: int, name: str) -> FileDescriptorProto:
    """Parses a file's descriptor, under the name by which others import it."""
    try:
        serialized = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise Unreachable(
            f"the schema registry gives schema id {schema_id} as .proto text, and not as a serialized descriptor",
            next_command="use a registry that answers format=serialized, as Confluent's does",
        ) from None
    file = FileDescriptorProto.FromString(serialized)
    file.name = name
    return file


def _add(pool: DescriptorPool, file: FileDescriptorProto, added: set[str]) -> None:
    """Adds a file to the pool, after those of its imports that every registry knows."""
    for name in file.dependency:
        if name in KNOWN_FILES:
            _add_known(pool, name, added)
    pool.AddSerializedFile(file.SerializeToString())


def _add_known(pool: DescriptorPool, name: str, added: set[str]) -> None:
    if name not in added:
        added.add(name)
        known = import_module(KNOWN_FILES[name]).DESCRIPTOR.serialized_pb
        _add(pool, FileDescriptorProto.FromString(known), added)
