"""Answers each request to an object store in one way: with a page, or with an error in the store's own form."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = b"<html><body>Please log in.</body></html>"
ERROR = '<?xml version="1.0"?><Error><Code>{code}</Code><Message>no</Message><RequestId>1</RequestId></Error>'


class HollowStore(ThreadingHTTPServer):
    """A server with one answer. `say` sets it: a status, and the code of an error or a page."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.say(200)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def say(self, status: int, code: str = "") -> None:
        self.status, self.body = status, ERROR.format(code=code).encode() if code else PAGE


class _Answer(BaseHTTPRequestHandler):
    server: HollowStore

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(self.server.status)
        self.send_header("Content-Type", "text/html" if self.server.body == PAGE else "application/xml")
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(self.server.body)

    do_PUT = do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815 - the names that the server looks for

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def hollow_store() -> Iterator[HollowStore]:
    """Runs the server."""
    server = HollowStore()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
