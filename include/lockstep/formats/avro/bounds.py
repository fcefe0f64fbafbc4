"""Bounds Avro records: counts depth and values before the decoder, which is C, recurses or allocates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.core.pipeline.limits import RecordLimits

FIXED_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
LENGTH_BITS = 63  # a longer varint is no length of anything
UNION = "union"
INT_BITS = 32
INT_END = 1 << INT_BITS - 1
VALUES_A_BYTE = 4  # of an ordinary schema: a field that may be null is a union and a value in one byte


def schema_kind(type_: Any) -> str:
    """Returns the kind of a parsed type: a primitive, a complex type or a union."""
    if isinstance(type_, list):
        return UNION
    while isinstance(type_, dict) and isinstance(type_["type"], dict | list):
        type_ = type_["type"]
    return str(type_["type"] if isinstance(type_, dict) else type_)


def nesting(document: Any) -> int:
    """Returns the depth of a JSON document. Walks it without recursion."""
    deepest, waiting = 0, [(document, 1)]
    while waiting:
        value, depth = waiting.pop()
        if isinstance(value, dict | list):
            deepest = max(deepest, depth)
            waiting += [(each, depth + 1) for each in (value.values() if isinstance(value, dict) else value)]
    return deepest


def is_open(schema: Any, named: Mapping[str, Any], limits: RecordLimits) -> bool:
    """Returns True if few bytes of this schema may decode to more depth or values than the limits allow.

    Such are recursive schemas, and arrays and maps whose items may take no bytes. So are records that unfold into too
    many fields.
    """
    return _Shape(named, limits).is_open(schema)


@dataclass(slots=True)
class _Unfolded:
    """A type in full: the number of its values, its depth, and the fewest bytes it takes."""

    values: int
    depth: int
    bytes: int


class _Shape:
    def __init__(self, named: Mapping[str, Any], limits: RecordLimits) -> None:
        self._named, self._limits = named, limits
        self._known: dict[str, _Unfolded] = {}
        self._inside: set[str] = set()

    def is_open(self, schema: Any) -> bool:
        try:
            whole = self._unfolded(schema, 0)
        except _OpenError:
            return True
        return whole.depth > self._limits.depth or whole.values > self._limits.values

    def _unfolded(self, type_: Any, level: int) -> _Unfolded:
        if level > self._limits.depth:
            raise _OpenError
        type_ = self._named.get(type_, type_) if isinstance(type_, str) else type_
        kind = schema_kind(type_)
        if kind in self._named and not isinstance(type_, list) and kind not in {"record", "error"}:
            return self._unfolded(self._named[kind], level)
        match kind:
            case "union":
                all_ = [self._unfolded(each, level) for each in type_]
                deepest = max((each.depth for each in all_), default=0)
                return _Unfolded(1 + max((each.values for each in all_), default=0), deepest, 1)
            case "record" | "error":
                return self._record(type_, level)
            case "array" | "map":
                item = self._unfolded(type_["items" if kind == "array" else "values"], level + 1)
                if item.values > VALUES_A_BYTE * (item.bytes + (kind == "map")):  # a map's key takes a byte
                    raise _OpenError
                return _Unfolded(1 + item.values, 1 + item.depth, 1)
            case "fixed":
                return _Unfolded(1, 0, int(type_["size"]))
            case _:
                return _Unfolded(1, 0, FIXED_SIZES.get(kind, 1))

    def _record(self, type_: Any, level: int) -> _Unfolded:
        name = type_.get("name", "")
        if name in self._known:
            return self._known[name]
        if name in self._inside:
            raise _OpenError
        self._inside.add(name)
        fields = [self._unfolded(field["type"], level + 1) for field in type_["fields"]]
        self._inside.discard(name)
        made = _Unfolded(
            1 + sum(each.values for each in fields),
            1 + max((each.depth for each in fields), default=0),
            sum(each.bytes for each in fields),
        )
        self._known[name] = made
        return made


class _OpenError(Exception):
    """The schema alone does not bound its records."""


class Walk:
    """A walk over one record's bytes by its schema. Raises `ValueError` at a limit, before anything is decoded."""

    def __init__(self, body: bytes, named: Mapping[str, Any], limits: RecordLimits) -> None:
        self._body, self._named, self._limits = body, named, limits
        self._at, self._values = 0, 0

    def over(self, type_: Any, depth: int = 0) -> None:
        """Steps over a value of this type."""
        type_ = self._named.get(type_, type_) if isinstance(type_, str) else type_
        kind = schema_kind(type_)
        self._values += 1
        if self._values > self._limits.values:
            raise ValueError(f"holds more than {self._limits.values} values, which is the limit")
        if kind == "boolean" and self._body[self._at : self._at + 1] > b"\x01":
            raise ValueError(f"a boolean of {self._body[self._at]}")
        if kind in FIXED_SIZES:
            self._pass(FIXED_SIZES[kind])
        elif kind in {"int", "long", "enum"}:
            self._fits(kind, type_, self._number())
        elif kind in {"bytes", "string", "fixed"}:
            self._pass(int(type_["size"]) if kind == "fixed" else self._number())
        else:
            self._over_parts(type_, kind, depth)

    def _over_parts(self, type_: Any, kind: str, depth: int) -> None:
        match kind:
            case "union":
                branch = self._number()
                if not 0 <= branch < len(type_):
                    raise ValueError(f"branch {branch} of a union of {len(type_)}")
                self.over(type_[branch], depth)
            case "record" | "error":
                inside = self._deeper(depth)
                for field in type_["fields"]:
                    self.over(field["type"], inside)
            case "array" | "map":
                self._blocks(type_, kind, self._deeper(depth))
            case _:
                self.over(self._named[kind], depth)

    def _fits(self, kind: str, type_: Any, number: int) -> None:
        if kind == "enum" and not 0 <= number < len(type_["symbols"]):
            raise ValueError(f"symbol {number} of an enum of {len(type_['symbols'])}")
        if kind == "int" and not -INT_END <= number < INT_END:
            raise ValueError(f"an int of {number}")

    def _deeper(self, depth: int) -> int:
        if depth >= self._limits.depth:
            raise ValueError(f"is nested deeper than {self._limits.depth}, which is the limit")
        return depth + 1

    def _blocks(self, type_: Any, kind: str, depth: int) -> None:
        while count := self._number():
            if count < 0:
                self._number()  # the block's size, by which others may skip it
                count = -count
            for _ in range(count):
                if kind == "map":
                    self._pass(self._number())
                self.over(type_["items" if kind == "array" else "values"], depth)

    def _number(self) -> int:
        value = shift = 0
        while True:
            if self._at >= len(self._body) or shift > LENGTH_BITS:
                raise ValueError("the bytes end within a number")
            byte = self._body[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 - Avro's sign that it is the last byte
                if value >> 2 * INT_BITS:
                    raise ValueError("a number of more than 64 bits")
                return (value >> 1) ^ -(value & 1)

    def _pass(self, size: int) -> None:
        if size < 0 or size > len(self._body) - self._at:
            raise ValueError(f"a value of {size} bytes where {len(self._body) - self._at} are left")
        self._at += size
