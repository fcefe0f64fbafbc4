"""Provides a TCP proxy that misbehaves on demand: it cuts, falls silent, holds a COMMIT, or loses its answer."""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"  # Postgres' simple query
MEMORY = 100_000
SO_ATTACH_FILTER = 26


@dataclass(eq=False)
class Pair:
    """One client's connection and the proxy's own, made for it."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    silent: bool = False
    lose_answer: bool = False


class Proxy:
    """A proxy before `target` on this machine. Armed faults strike once, and `struck` then says so."""

    def __init__(self, target: int = 0) -> None:
        self.target = target
        self.mode = "pass"
        self.struck = threading.Event()
        self._armed: tuple[str, bytes | int, str] | None = None
        self._pairs: set[Pair] = set()
        self._passed = 0
        self._loop = asyncio.new_event_loop()
        self._released = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._meet, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]

    def pass_on(self) -> None:
        """Lets new connections pass, and releases held data. Connections that were cut or silenced stay so."""
        self._run(self._set("pass"))

    def cut(self) -> None:
        """Resets every connection, also those to come."""
        self._run(self._set("cut"))

    def hole(self) -> None:
        """Silences every connection in both directions, also those to come. Not even packets are acknowledged."""
        self._run(self._set("hole"))

    def at_commit(self, of: bytes, do: str) -> None:
        """Arms a fault at the COMMIT of the session that sent `of`.

        `hold` holds it and cuts the client off, `lose` drops its answer. `cut` and `hole` do what their methods do.
        """
        self._arm("commit", of, do)

    def at_words(self, words: bytes, do: str) -> None:
        """Arms `cut` or `hole` for all, when these bytes have gone to the server."""
        self._arm("words", words, do)

    def at_bytes(self, more: int, do: str) -> None:
        """Arms `cut` or `hole` for all, when so many more bytes have come back from the server."""
        self._arm("bytes", more, do)

    def close(self) -> None:
        """Ends every connection and the loop. What is left open is found by the collector within another test."""
        self._run(self._set("cut"))
        self._run(self._ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _arm(self, kind: str, what: bytes | int, do: str) -> None:
        self.struck.clear()
        self._released.clear()
        self._passed = 0
        self._armed = (kind, what, do)

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _ended(self) -> None:
        self._server.close()
        self._released.set()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:  # their connections are cut
            await asyncio.wait(others, timeout=5)

    async def _set(self, mode: str) -> None:
        self.mode = mode
        if mode == "pass":
            self._released.set()
        for pair in list(self._pairs) if mode != "pass" else ():
            if mode == "cut":
                reset(pair.client)
                reset(pair.server)
            else:
                pair.silent = True
                deafen(pair.client)
                deafen(pair.server)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode == "hole":
            deafen(writer)
            self._pairs.add(Pair(writer, writer, silent=True))
            return
        if self.mode == "cut":
            reset(writer)
            return
        try:
            up, down = await asyncio.open_connection("127.0.0.1", self.target)
        except ConnectionError:
            reset(writer)
            return
        pair = Pair(writer, down)
        self._pairs.add(pair)
        await asyncio.gather(self._toward_server(reader, pair), self._toward_client(up, pair))
        if not pair.silent:
            self._pairs.discard(pair)

    async def _toward_server(self, reader: asyncio.StreamReader, pair: Pair) -> None:
        said = b""
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                said = (said + data)[-MEMORY:]
                ends = COMMIT in data
                await self._before(pair, said, ends=ends)
                if pair.silent:
                    return
                said = b"" if ends else said
                pair.server.write(data)
                await pair.server.drain()
        if not pair.silent:
            pair.server.close()

    async def _before(self, pair: Pair, said: bytes, *, ends: bool) -> None:
        """Strikes with the armed fault if this is what it waits for."""
        kind, what, do = self._armed or ("", b"", "")
        if kind not in {"commit", "words"} or what not in said or (kind == "commit" and not ends):
            return
        self._armed = None
        match do:
            case "hold":
                reset(pair.client)
                self.struck.set()
                await self._released.wait()
            case "lose":
                pair.lose_answer = True
            case _:
                await self._set(do)
                self.struck.set()

    async def _toward_client(self, reader: asyncio.StreamReader, pair: Pair) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                self._passed += len(data)
                if self._armed and self._armed[0] == "bytes" and self._passed >= self._armed[1]:  # type: ignore[operator]
                    _, _, do = self._armed
                    self._armed = None
                    await self._set(do)
                    self.struck.set()
                if pair.lose_answer:
                    reset(pair.client)
                    self.struck.set()
                    break
                if pair.silent:
                    return
                pair.client.write(data)
                await pair.client.drain()
        if not pair.silent:
            pair.client.close()


def reset(writer: asyncio.StreamWriter) -> None:
    """Resets the connection, so that the other end reads ECONNRESET."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def deafen(writer: asyncio.StreamWriter) -> None:
    """Makes the kernel drop everything that comes in, unacknowledged.

    The socket gets a filter of one instruction, which lets 0 bytes through.
    """
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(instruction))
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
