"""Builds descriptors of Protobuf files, and records of them in Confluent's wire format."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from lockstep.formats.protobuf.descriptors import KNOWN_FILES

KINDS = {
    name.removeprefix("TYPE_").lower(): number for name, number in FieldDescriptorProto.Type.items()
}  # fmt: skip
KNOWN = "google/protobuf/"
IMPORTS = {
    "Timestamp": f"{KNOWN}timestamp.proto",
    "Duration": f"{KNOWN}duration.proto",
    "Any": f"{KNOWN}any.proto",
    **dict.fromkeys(("Struct", "Value", "ListValue"), f"{KNOWN}struct.proto"),
}


def a_file(
    *messages: Any, package: str = "shop", syntax: str = "proto3", imports=(), enums=None
) -> FileDescriptorProto:
    """Returns a file of messages, made by `a_message`, and of enums as dicts of names and numbers."""
    file = FileDescriptorProto(name="t.proto", package=package, syntax=syntax, message_type=messages)
    for name, values in (enums or {}).items():
        enum = file.enum_type.add(name=name)
        for value, number in values.items():
            enum.value.add(name=value, number=number)
    needed = list(imports)
    known = (kind.rpartition(".")[2] for kind in _kinds(messages) if kind.startswith(".google.protobuf."))
    needed.extend(IMPORTS.get(kind, f"{KNOWN}wrappers.proto") for kind in known)
    file.dependency.extend(dict.fromkeys(needed))
    return file


def a_message(name: str, *fields: str, nested: Any = ()) -> Any:
    """Returns a message of fields such as `repeated int32 n = 1`, `oneof o string a = 2`, `map string int32 m = 3`.

    Types begin with a point: `.shop.Item`. An enum's begin with `enum .shop.`.
    """
    made = FileDescriptorProto().message_type.add(name=name)
    for text in fields:
        head, _, number = text.partition(" = ")
        *labels, name_ = head.split()
        _add_field(made, labels, name_, int(number))
    for field in made.field:
        if field.proto3_optional:  # its own oneof stands behind those that the file says
            made.oneof_decl.add(name=f"_{field.name}")
            field.oneof_index = len(made.oneof_decl) - 1
    made.nested_type.extend(nested)
    return made


def _add_field(made: Any, labels: list[str], name: str, number: int) -> None:
    if labels[0] == "map":
        entry = made.nested_type.add(name=f"{name.capitalize()}Entry")
        entry.options.map_entry = True
        of_value = labels[2:]
        _add_field(entry, labels[1:2], "key", 1)
        _add_field(entry, of_value, "value", 2)
        made.field.add(name=name, number=number, label=3, type=11, type_name=f"{entry.name}")
        return
    field = made.field.add(name=name, number=number, label=1)
    if labels[0] == "repeated":
        field.label = 3
    elif labels[0] == "required":
        field.label = 2
    elif labels[0] == "oneof":
        names = [each.name for each in made.oneof_decl]
        if labels[1] not in names:
            made.oneof_decl.add(name=labels[1])
        field.oneof_index = names.index(labels[1]) if labels[1] in names else len(names)
    elif labels[0] == "optional":
        field.proto3_optional = True
    kind = labels[-1]
    if kind.startswith("."):
        field.type, field.type_name = (14 if "enum" in labels else 10 if "group" in labels else 11), kind
    else:
        field.type = KINDS[kind]


def _kinds(messages: Any) -> Any:
    for message in messages:
        yield from (field.type_name for field in message.field)
        yield from _kinds(message.nested_type)


def classes(file: FileDescriptorProto, *references: FileDescriptorProto) -> Any:
    """Returns `make(name, **fields)`, which makes messages of a file as another program does."""
    pool = DescriptorPool()
    added: set[str] = set()

    def add(each: FileDescriptorProto) -> None:
        for name in each.dependency:
            if name in KNOWN_FILES and name not in added:
                known = FileDescriptorProto()
                module = __import__(KNOWN_FILES[name], fromlist=["DESCRIPTOR"])
                known.ParseFromString(module.DESCRIPTOR.serialized_pb)
                add(known)
        if each.name not in added:
            added.add(each.name)
            pool.AddSerializedFile(each.SerializeToString())

    for each in (*references, file):
        add(each)
    return lambda name, **fields: GetMessageClass(pool.FindMessageTypeByName(name))(**fields)


def framed(schema_id: int, message: Any, indexes: bytes = b"\x00") -> bytes:
    """Returns a message, or its bytes, in Confluent's wire format."""
    body = message if isinstance(message, bytes) else message.SerializeToString()
    return b"\x00" + schema_id.to_bytes(4, "big") + indexes + body
