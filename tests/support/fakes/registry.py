"""Provides a schema registry: real HTTP, a few of Confluent's endpoints, and a switch for its faults."""

from __future__ import annotations

import base64
import io
import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from fastavro import parse_schema, schemaless_writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class SchemaRegistry(ThreadingHTTPServer):
    """Schemas by id, from 1 on. `trouble` answers everything with (status, body), `asked` keeps the paths."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Door)
        self.schemas: list[dict[str, Any]] = []
        self.versions: dict[str, list[int]] = {}
        self.trouble: tuple[int, bytes] | None = None
        self.odd: Callable[[BaseHTTPRequestHandler], None] | None = None  # answers by itself
        self.login: str | None = None
        self.asked: list[str] = []
        self.strict: set[str] = set()  # subjects that take no second schema

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def register(self, subject: str, schema: Any, **more: Any) -> int:
        document = {"schema": json.dumps(schema), **more}
        if document not in self.schemas:
            self.schemas.append(document)
        schema_id = self.schemas.index(document) + 1
        self.versions.setdefault(subject, []).append(schema_id)
        return schema_id

    def register_json(self, subject: str, schema: Any, **more: Any) -> int:
        """Registers a JSON Schema, given as a document or as its text."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        document = {"schema": text, "schemaType": "JSON", **more}
        if document not in self.schemas:
            self.schemas.append(document)
        schema_id = self.schemas.index(document) + 1
        self.versions.setdefault(subject, []).append(schema_id)
        return schema_id

    def register_protobuf(self, subject: str, file: Any, text: str | None = None, **more: Any) -> int:
        """Registers a file's descriptor, given as a `FileDescriptorProto`. With `text`, the registry knows no other form."""
        serialized = base64.b64encode(file.SerializeToString()).decode()
        document = {
            "schema": text or "syntax = ...",
            "schemaType": "PROTOBUF",
            "serialized": text or serialized,
            **more,
        }
        if document not in self.schemas:
            self.schemas.append(document)
        schema_id = self.schemas.index(document) + 1
        self.versions.setdefault(subject, []).append(schema_id)
        return schema_id

    def encode(self, schema_id: int, value: Any) -> bytes:
        schema = parse_schema(json.loads(self.schemas[schema_id - 1]["schema"]))
        return wire(schema_id, schema, value)

    def take(self, subject: str, schema: Any, more: dict[str, Any]) -> tuple[int, Any]:
        """Registers a schema, unless the subject takes no other one."""
        if subject in self.strict and self.versions.get(subject) and self.look_up(subject, schema, more)[0] != 200:
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
        return 200, {"id": self.register(subject, schema, **more)}

    def look_up(self, subject: str, schema: Any, more: dict[str, Any]) -> tuple[int, Any]:
        """Returns the version of a subject that has this very schema."""
        document = {"schema": json.dumps(schema), **more}
        for version, schema_id in enumerate(self.versions.get(subject, ()), 1):
            if self.schemas[schema_id - 1] == document:
                return 200, {"subject": subject, "version": version, "id": schema_id, **document}
        return 404, {"error_code": 40403 if subject in self.versions else 40401, "message": "not found"}

    def form(self, schema_id: int, query: str) -> dict[str, Any]:
        """Returns a schema in the form that the query asks for."""
        document = dict(self.schemas[schema_id - 1])
        serialized = document.pop("serialized", None)
        return document | {"schema": serialized} if serialized and "format=serialized" in query else document

    def answer(self, path: str, query: str = "") -> tuple[int, Any]:
        if found := re.fullmatch(r"/schemas/ids/(\d+)(/versions)?", path):
            schema_id = int(found[1])
            if not 1 <= schema_id <= len(self.schemas):
                return 404, {"error_code": 40403, "message": "Schema not found"}
            if not found[2]:
                return 200, self.form(schema_id, query)
            pairs = [(subject, i) for subject, ids in self.versions.items() for i in ids]
            return 200, [{"subject": s, "version": self.versions[s].index(i) + 1} for s, i in pairs if i == schema_id]
        if path == "/subjects":
            return 200, sorted(self.versions)
        found = re.fullmatch(r"/subjects/([^/]+)/versions/(\d+|latest)", path)
        if found and found[1] in self.versions:
            version = len(self.versions[found[1]]) if found[2] == "latest" else int(found[2])
            schema_id = self.versions[found[1]][version - 1]
            return 200, {"subject": found[1], "version": version, "id": schema_id, **self.form(schema_id, query)}
        return 404, {"error_code": 40401, "message": "Subject not found"}


class Door(BaseHTTPRequestHandler):
    server: SchemaRegistry

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.server.asked.append(path)
        if self.server.odd:
            self.server.odd(self)
            return
        self._say(*self.server.answer(path, query))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        schema = json.loads(body.pop("schema"))
        _, _, subject, *to_register = self.path.partition("?")[0].split("/")
        self._say(*(self.server.take if to_register else self.server.look_up)(subject, schema, body))

    def _say(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        if self.server.login and self.headers["Authorization"] != self.server.login:
            status, body = 401, b'{"error_code": 40101, "message": "Unauthorized"}'
        if self.server.trouble:
            status, body = self.server.trouble
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Drops the message, because a test's own output is enough."""


@contextmanager
def a_registry() -> Iterator[SchemaRegistry]:
    made = SchemaRegistry()
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def headed(schema_id: int, value: Any) -> bytes:
    """Returns a record of JSON in Confluent's wire format. `value` is bytes, or what becomes JSON."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return b"\x00" + schema_id.to_bytes(4, "big") + body


def wire(schema_id: int, schema: Any, value: Any) -> bytes:
    """Returns a value in Confluent's wire format."""
    out = io.BytesIO()
    schemaless_writer(out, schema, value)
    return b"\x00" + schema_id.to_bytes(4, "big") + out.getvalue()


def a_record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    """Returns a record's schema of (name, type) pairs."""
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}
