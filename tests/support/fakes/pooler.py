"""Provides a small transaction pooler: many clients share one backend, each for one transaction at a time."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

ENCRYPTION = (80877103, 80877104)
VERSION_3 = 196608
IDLE = b"I"


class Pooler:
    """A pooler that listens at `port`. The server behind it must trust us."""

    def __init__(self, server: int, user: str, database: str) -> None:
        self.turn = threading.Lock()
        self.backend = socket.create_connection(("127.0.0.1", server))
        words = f"user\0{user}\0database\0{database}\0\0".encode()
        self.backend.sendall(struct.pack("!ii", len(words) + 8, VERSION_3) + words)
        self.greeting = b""
        while (message := _message(self.backend))[:1] != b"Z":
            assert message[:1] != b"E", message
            # A client cancels with this key. Like every pooler, ours gives out its own.
            self.greeting += b"K" + struct.pack("!iii", 12, 4_000_000, 7) if message[:1] == b"K" else message
        self.greeting += message
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        self.door.close()
        self.backend.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.door.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), client:
            while True:
                (length,) = struct.unpack("!i", _exactly(client, 4))
                (code,) = struct.unpack("!i", _exactly(client, length - 4)[:4])
                if code not in ENCRYPTION:
                    break
                client.sendall(b"N")
            client.sendall(self.greeting)
            while True:
                asked = _message(client)
                if asked[:1] == b"X":
                    return
                self._one_transaction(client, asked)

    def _one_transaction(self, client: socket.socket, asked: bytes) -> None:
        with self.turn:
            while True:
                self.backend.sendall(asked)
                while (answer := _message(self.backend))[:1] != b"Z":
                    client.sendall(answer)
                client.sendall(answer)
                if answer[-1:] == IDLE:
                    return
                asked = _message(client)


def _message(peer: socket.socket) -> bytes:
    head = _exactly(peer, 5)
    return head + _exactly(peer, struct.unpack("!i", head[1:])[0] - 4)


def _exactly(peer: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        if not (more := peer.recv(size - len(found))):
            raise EOFError
        found += more
    return found
