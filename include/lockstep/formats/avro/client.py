"""Makes a registry's client whose answers have a size and a time that they may take."""

from __future__ import annotations

import tempfile
import threading
import time
import zlib
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NoReturn

from confluent_kafka.schema_registry import SchemaRegistryClient

from lockstep.core.errors import BadDefinition
from lockstep.core.registry import REGISTRY_PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from lockstep.core.registry import Registry

MOST_ANSWER = 16 * 2**20  # bytes of an answer, after decompression
ENCODINGS = "gzip, deflate"  # that are decompressed piece by piece
GZIP_OR_ZLIB = 47  # as zlib names a window of 32 kB behind either head


class AnswerTooLargeError(Exception):
    """An answer of the registry is larger than `MOST_ANSWER`."""


class AnswerTooLateError(Exception):
    """The registry has not given its whole answer within the time of all tries."""


def registry_client(registry: Registry) -> Any:
    """Returns a client with bounded answers. Raises `BadDefinition` if the options make none."""
    settings: Mapping[str, Any] = {"url": registry.url, **dict(registry.options)}
    with tempfile.TemporaryDirectory(prefix="lockstep-registry-") as folder:  # read while the client is made, then gone
        try:
            client = SchemaRegistryClient({**settings, **_written(registry, folder)})
        except Exception as error:  # noqa: BLE001 - the client's own complaint may repeat a secret, so it is not said
            raise BadDefinition(
                f"LOCKSTEP_REGISTRY_CONFIG: its options make no client: {type(error).__name__}"
            ) from None
    session = client._rest_client.session  # noqa: SLF001 - the client has no other place for a limit
    session.headers["Accept-Encoding"] = ENCODINGS
    session.request = _bounded_request(session, longest(registry))
    return client


def longest(registry: Registry) -> float:
    """Returns the seconds that all tries at all of a registry's addresses may take together."""
    given = {**REGISTRY_PATIENCE, **dict(registry.options)}
    each = float(given["timeout"]) + float(given["retries.max.wait.ms"]) / 1_000
    return each * (int(given["max.retries"]) + 1) * len(registry.url.split(","))


def in_time(ask: Callable[[], Any], seconds: float) -> Any:
    """Returns what a call returns or raises. Raises `AnswerTooLateError` if it takes longer.

    The call is left to itself then. A look-up of a name knows no end of its own, nor does a head that comes byte by byte.
    """
    told: list[tuple[Any, BaseException | None]] = []

    def answer() -> None:
        try:
            told.append((ask(), None))
        except BaseException as error:  # noqa: BLE001 - raised again by who has asked
            told.append((None, error))

    thread = threading.Thread(target=answer, name="lockstep-registry", daemon=True)
    thread.start()
    thread.join(seconds)
    if not told:
        raise AnswerTooLateError
    found, error = told[0]
    if error is not None:
        raise error
    return found


def _bounded_request(session: Any, seconds: float) -> Callable[..., Any]:
    """Returns the session's `request` that reads an answer piece by piece, and stops at either limit."""

    def request(method: str, **how: Any) -> Any:
        end = time.monotonic() + seconds
        with session.stream(method, **how) as answer:
            pieces = takewhile(lambda _: time.monotonic() < end or _too_late(), answer.iter_raw())
            body = _body(pieces, answer.headers.get("Content-Encoding", "").strip().lower())
        headers = [(name, value) for name, value in answer.headers.items() if name.lower() not in _OF_THE_WIRE]
        return type(answer)(answer.status_code, headers=headers, content=body, request=answer.request)

    return request


_OF_THE_WIRE = {"content-encoding", "content-length", "transfer-encoding"}


def _too_late() -> NoReturn:
    raise AnswerTooLateError


def _body(pieces: Iterable[bytes], encoding: str) -> bytes:
    if encoding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
        raise AnswerTooLargeError  # its size cannot be known before all of it is there
    unpack = zlib.decompressobj(GZIP_OR_ZLIB) if encoding not in {"", "identity"} else None
    body = bytearray()
    for piece in pieces:
        body += unpack.decompress(piece, MOST_ANSWER + 1 - len(body)) if unpack else piece
        if len(body) > MOST_ANSWER or (unpack and unpack.unconsumed_tail):
            raise AnswerTooLargeError
    return bytes(body)


def _written(registry: Registry, folder: str) -> dict[str, str]:
    paths = {}
    for name, content in registry.files:
        paths[name] = f"{folder}/{name}"
        with open(paths[name], "x", encoding="utf-8") as file:  # noqa: PTH123 - the folder is ours alone
            file.write(content)
    return paths
