"""Reads records from a file of lines: each line is one record's value, byte for byte."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any

from lockstep.core.errors import Refusal, quoted
from lockstep.dev.records.sending import MESSAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STANDARD_INPUT = "-"
KEPT_IN_MEMORY_BYTES = 64 * 2**20
LOOK_BYTES = 2**20


class BadLine(Exception):  # noqa: N818 - an answer, and nobody's fault
    """A line, or a file, that holds no record. The text names it."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """The use of the records: what a refusal says was not done, and the command to type again."""

    not_done: str
    command: str


SENDING = Purpose("nothing was sent", "lockstep dev produce NAME --from FILE.jsonl")


@dataclass(frozen=True, slots=True)
class Lines:
    """A file whose every line was checked. It holds `count` records. `key` is the column that becomes the key."""

    shown: str
    file: IO[bytes]
    count: int
    key: str | None

    def records(self) -> Iterator[tuple[bytes | None, bytes]]:
        """Yields key and value of each line, in order. Leaves out lines that were added since."""
        self.file.seek(0)
        for number, line in enumerate(islice(self.file, self.count), 1):
            try:
                yield _record(f"{self.shown}:{number}", line, self.key)
            except BadLine:
                changed = (
                    f"{self.shown}:{number}: it changed while it was sent; the lines before it may be on the topic"
                )
                raise Refusal(changed) from None


@contextmanager
def open_lines(
    name: str, key: str | None, looked_at: Callable[[int], None], purpose: Purpose = SENDING
) -> Iterator[Lines]:
    """Opens a file, or standard input for `-`, and looks at each line before the first is sent.

    Reports bytes to `looked_at`. Raises `Refusal` with the number of the first line that is no record.
    """
    shown = "standard input" if name == STANDARD_INPUT else name or "a file without a name"
    try:
        with _seekable(name) as file:
            count, size = 0, 0
            for count, line in enumerate(file, 1):
                _record(f"{shown}:{count}", line, key)
                size += len(line)
                if size >= LOOK_BYTES:
                    looked_at(size)
                    size = 0
            if count == 0:
                raise _bad(shown, "it holds no line")
            yield Lines(shown, file, count, key)
    except BadLine as bad:
        raise Refusal(f"{bad}; {purpose.not_done}", next_command=purpose.command) from None
    except OSError as error:
        what = f"{shown}: cannot be read: {error.strerror or error}; {purpose.not_done}"
        raise Refusal(what, next_command=purpose.command) from None


def _record(where: str, line: bytes, column: str | None) -> tuple[bytes | None, bytes]:
    value = line.removesuffix(b"\n")
    key = None if column is None else _key_of(value, column, where)
    size = len(value) + len(key or b"")
    if size > MESSAGE_BYTES:
        raise _bad(where, f"{size} bytes, and one record holds {MESSAGE_BYTES} at most")
    return key, value


@contextmanager
def _seekable(name: str) -> Iterator[IO[bytes]]:
    """Opens the file. Keeps a copy of input that can be read only once, such as a pipe."""
    if name != STANDARD_INPUT:
        with Path(name).open("rb") as file:
            if file.seekable():
                yield file
                return
            with _kept(file) as copy:
                yield copy
        return
    with _kept(sys.stdin.buffer) as copy:
        yield copy


@contextmanager
def _kept(source: IO[bytes]) -> Iterator[IO[bytes]]:
    with SpooledTemporaryFile(KEPT_IN_MEMORY_BYTES) as copy:
        shutil.copyfileobj(source, copy)
        copy.seek(0)
        yield copy


def _key_of(value: bytes, column: str, where: str) -> bytes:
    """Returns the column's value as a key: text as it is, numbers as they are written."""
    try:
        record = json.loads(value.decode(), parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):  # a text that is no UTF-8 is a ValueError, too
        raise _bad(where, "no JSON object, and the key is one of its columns") from None
    if not isinstance(record, dict):
        raise _bad(where, "no JSON object, and the key is one of its columns")
    match record.get(column):
        case str(text):
            try:
                return text.encode()
            except UnicodeEncodeError:
                raise _bad(where, f"column {quoted(column)} is no text that UTF-8 can hold") from None
        case bool(truth):
            return b"true" if truth else b"false"
        case None:
            known = ", ".join(quoted(name) for name in islice(record, 5)) or "none"
            raise _bad(where, f"column {quoted(column)} is missing or null; there are: {known}")
        case other:
            kind = "an array" if isinstance(other, list) else "an object"
            raise _bad(where, f"column {quoted(column)} is {kind}, and a key is text, a number or a truth value")


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _bad(where: str, what: str) -> BadLine:
    return BadLine(f"{where}: {what}")
