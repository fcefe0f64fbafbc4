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
    from pathlib import Path

STATUS = {
    CommitFailedException: 409,
    NamespaceAlreadyExistsError: 409,
    TableAlreadyExistsError: 409,
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
}
HTML = b"<!doctype html><html><body>Sign in to the guest network</body></html>"


class RestCatalogServer:
    """A REST catalog over a folder. `faults` are struck by the next commits, one by each.

    `drop-before` and `drop-after` close the connection without an answer, `500-before` and `500-after` answer so,
    `silent` does nothing for `late` seconds, and `late` commits after them. `hold-N` commits after N tenths of a second.
    """

    def __init__(self, home: Path) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home, self.faults, self.late = home, list[str](), 2.0
        self.token: str | None = None
        self.page: tuple[int, bytes] | None = None
        self.overrides: dict[str, str] = {}
        self.commits: list[tuple[str, int]] = []
        self.struck, self.away_after_commit = threading.Event(), False
        self._lock = threading.Lock()
        self.catalog.create_tables()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    @property
    def catalog(self) -> SqlCatalog:
        given = {"uri": f"sqlite:///{self.home / 'catalog.db'}", "warehouse": f"file://{self.home / 'warehouse'}"}
        return SqlCatalog("tests", **given)

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}"

    def waits_for(self, commits: int) -> None:
        """Waits until so many commits have reached the table, or 10 seconds."""
        until = time.monotonic() + 10
        while len(self.commits) < commits and time.monotonic() < until:
            time.sleep(0.02)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, method: str, parts: list[str], body: bytes) -> tuple[int, Any]:
        """Answers one request, alone. Commits are answered by `commit`."""
        with self._lock:
            catalog = self.catalog
            match method, parts:
                case "GET", ["config"]:
                    return 200, {"defaults": {}, "overrides": self.overrides}
                case "GET", ["namespaces", space]:
                    return 200, {"namespace": [space], "properties": catalog.load_namespace_properties(space)}
                case "POST", ["namespaces"]:
                    catalog.create_namespace(tuple(json.loads(body)["namespace"]))
                    return 200, json.loads(body)
                case "GET", ["namespaces", space, "tables", name]:
                    return 200, _loaded(catalog.load_table((space, name)))
                case "POST", ["namespaces", space, "tables"]:
                    wanted = json.loads(body)
                    schema = Schema.model_validate(wanted["schema"])
                    made = catalog.create_table((space, wanted["name"]), schema, properties=wanted["properties"])
                    return 200, _loaded(made)
                case "POST", ["namespaces", space, "tables", name]:
                    asked = CommitTableRequest.model_validate_json(body)
                    table = catalog.load_table((space, name))
                    done = catalog.commit_table(table, asked.requirements, asked.updates)
                    return 200, {
                        "metadata": json.loads(done.metadata.model_dump_json()),
                        "metadata-location": done.metadata_location,
                    }
        return 404, _error(NoSuchTableError("nothing is here"), 404)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # noqa: N802 - as http.server has it
                self._serve("GET")

            def do_POST(self) -> None:  # noqa: N802 - as http.server has it
                self._serve("POST")

            def log_message(self, *_: Any) -> None:
                pass

            def _serve(self, method: str) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = self.path.partition("?")[0].strip("/").split("/")[1:]
                is_commit = method == "POST" and len(parts) == 4
                fault = server.faults.pop(0) if is_commit and server.faults else ""
                if fault:
                    server.struck.set()
                if server.page:
                    return self._say(*server.page)
                if server.token and self.headers.get("Authorization") != f"Bearer {server.token}":
                    return self._say(401, json.dumps(_error(PermissionError("token expired"), 401)).encode())
                if fault == "drop-before":
                    return self._drop()
                if fault == "500-before":
                    return self._say(500, json.dumps(_error(OSError("broken"), 500)).encode())
                if fault in {"silent", "late"} or fault.startswith("hold-"):
                    time.sleep(int(fault[5:]) / 10 if fault.startswith("hold-") else server.late)
                if fault == "silent":
                    return self._drop()
                try:
                    status, document = server.answer(method, parts, body)
                except tuple(STATUS) as error:
                    status = STATUS[type(error)]
                    document = _error(error, status)
                if is_commit:
                    server.commits.append((fault, status))
                    if server.away_after_commit:
                        server.page = (503, b"")
                if fault == "drop-after":
                    return self._drop()
                if fault == "500-after":
                    status, document = 500, _error(OSError("broken"), 500)
                return self._say(status, json.dumps(document).encode())

            def _say(self, status: int, body: bytes) -> None:
                with suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def _drop(self) -> None:
                with suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True

        return Handler


def _loaded(table: Any) -> dict[str, Any]:
    return {
        "metadata-location": table.metadata_location,
        "metadata": json.loads(table.metadata.model_dump_json()),
        "config": {},
    }


def _error(error: Exception, status: int) -> dict[str, Any]:
    return {"error": {"message": str(error), "type": type(error).__name__, "code": status}}
