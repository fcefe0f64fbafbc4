"""Serves pyiceberg's SQL catalog over the REST protocol, and spoils answers where a test asks for it."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.rest import CommitTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STATUS = {
    CommitFailedException: 409,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
}
COMMIT_PARTS = 4  # namespaces, its name, tables, its name
HTML = b"<!doctype html><html><body>Sign in to the guest network</body></html>"


class RestCatalogServer:
    """A REST catalog over a folder. `faults` are struck by the next commits, one by each.

    `drop-before` and `drop-after` close the connection without an answer, `500-before` and `500-after` answer so,
    `silent` does nothing for `late` seconds. `overtaking` commits when another commit has been sent, and `overtaken` when
    another one has reached the table.
    """

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home, self.faults, self.late = home, list[str](), 2.0
        self.token: str | None = None
        self.page: tuple[int, bytes] | None = None
        self.overrides: dict[str, str] = {}
        self.config: dict[str, str] = {}
        self.commits: list[tuple[str, int]] = []
        self.sent = 0
        self.struck, self.away_after_commit = threading.Event(), False
        self._lock = threading.Lock()
        self.catalog.create_tables()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"served": self}))
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def catalog(self) -> SqlCatalog:
        given = {"uri": f"sqlite:///{self.home / 'catalog.db'}", "warehouse": f"file://{self.home / 'warehouse'}"}
        return SqlCatalog("tests", **given)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def waits_for(self, holds: Callable[[], Any]) -> None:
        """Waits until something holds, or for a minute."""
        until = time.monotonic() + 60
        while not holds() and time.monotonic() < until:
            time.sleep(0.02)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, method: str, parts: list[str], body: bytes) -> tuple[int, Any]:
        """Answers one request, alone."""
        asked = json.loads(body or b"{}")
        with self._lock:
            try:
                return 200, self._done(self.catalog, method, parts, asked)
            except tuple(STATUS) as error:
                return STATUS[type(error)], _error(error, STATUS[type(error)])

    def commit(self, parts: list[str], body: bytes) -> tuple[int, Any] | None:
        """Answers one commit, as its fault has it, or not at all."""
        fault = self.faults.pop(0) if self.faults else ""
        self.sent += 1
        mine = self.sent
        if fault:
            self.struck.set()
        if fault in {"drop-before", "silent"}:
            time.sleep(self.late if fault == "silent" else 0)
            return None
        if fault == "500-before":
            return 500, _error(OSError("broken"), 500)
        if fault == "overtaking":
            self.waits_for(lambda: self.sent > mine)
        if fault == "overtaken":
            self.waits_for(lambda: self.commits)
        said = self.answer("POST", parts, body)
        self.commits.append((fault, said[0]))
        if self.away_after_commit:
            self.page = (503, b"")
        said = (500, _error(OSError("broken"), 500)) if fault == "500-after" else said
        return None if fault == "drop-after" else said

    def _done(self, catalog: SqlCatalog, method: str, parts: list[str], asked: Any) -> Any:
        match method, parts:
            case "GET", ["config"]:
                return {"defaults": {}, "overrides": self.overrides}
            case "GET", ["namespaces", space]:
                return {"namespace": [space], "properties": catalog.load_namespace_properties(space)}
            case "POST", ["namespaces"]:
                catalog.create_namespace(tuple(asked["namespace"]))
                return asked
            case "GET", ["namespaces", space, "tables", name]:
                return self._loaded(catalog.load_table((space, name)))
            case "POST", ["namespaces", space, "tables"]:
                schema = Schema.model_validate(asked["schema"])
                return self._loaded(
                    catalog.create_table((space, asked["name"]), schema, properties=asked["properties"])
                )
            case "POST", ["namespaces", space, "tables", name]:
                request = CommitTableRequest.model_validate(asked)
                catalog.commit_table(catalog.load_table((space, name)), request.requirements, request.updates)
                return self._loaded(catalog.load_table((space, name)))
        raise NoSuchTableError("nothing is here")

    def _loaded(self, table: Any) -> dict[str, Any]:
        document = json.loads(table.metadata.model_dump_json())
        return {"metadata-location": table.metadata_location, "metadata": document, "config": self.config}


class _Handler(BaseHTTPRequestHandler):
    served: RestCatalogServer

    def do_GET(self) -> None:
        self._serve("GET")

    def do_POST(self) -> None:
        self._serve("POST")

    def log_message(self, *_: Any) -> None:
        pass

    def _serve(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = self.path.partition("?")[0].strip("/").split("/")[1:]
        said: tuple[int, Any] | None
        if self.served.page:
            said = self.served.page
        elif self.served.token and self.headers.get("Authorization") != f"Bearer {self.served.token}":
            said = 401, _error(PermissionError("token expired"), 401)
        elif method == "POST" and len(parts) == COMMIT_PARTS:
            said = self.served.commit(parts, body)
        else:
            said = self.served.answer(method, parts, body)
        with suppress(OSError):
            if said is None:
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
            text = said[1] if isinstance(said[1], bytes) else json.dumps(said[1]).encode()
            self.send_response(said[0])
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)


def _error(error: Exception, status: int) -> dict[str, Any]:
    return {"error": {"message": str(error), "type": type(error).__name__, "code": status}}
