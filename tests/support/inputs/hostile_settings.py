"""Makes hostile settings: answers of a registry, and inputs of a definition, a command or a form."""

from __future__ import annotations

import json
from typing import Any

GOOD = '{"type":"record","name":"R","fields":[{"name":"id","type":"string"}]}'


def _answer(**more: Any) -> bytes:
    return json.dumps({"schema": GOOD} | more).encode()


# A registry's answer for any path: the status and the body.
ANSWERS: list[tuple[int, bytes]] = [
    *(
        (200, body)
        for body in (b"", b" ", b"null", b"[]", b"{}", b"1", b'"x"', b"true", b"<html>", b"\xff\xfe", b"\0", b"{")
    ),
    *((200, b"[" * depth + b"]" * depth) for depth in (100, 900, 5_000, 100_000)),
    *((200, _answer(schema=schema)) for schema in (None, 1, [], {}, "", "{", "null", "\ud800", "\0", "x" * 1_000_000)),
    *((200, _answer(schemaType=kind)) for kind in ("JSON", "PROTOBUF", "avro", "", 1, [], {}, "\x1b[2J")),
    *((200, _answer(references=many)) for many in (1, "x", {}, [1], [None], [[]], [{}], [{"name": "R"}])),
    *(
        (200, _answer(references=[{"name": name, "subject": subject, "version": version}]))
        for name in ("R", "", None, 1)
        for subject in ("s", "../../x", "")
        for version in (1, -1, "latest", 2**70)
    ),
    *((status, body) for status in (301, 400, 401, 403, 404, 409, 422, 429, 500, 503) for body in (b"", b"x", b"{}")),
    (404, b'{"error_code": "40403"}'),
    (404, b'{"error_code": 40403}'),
    (404, b'{"error_code": 40403, "message": {"a": []}}'),
    (404, b'{"error_code": null, "message": null}'),
    (500, b'{"error_code": 40403, "message": "Schema not found"}'),
]
COLUMNS = (
    "", " ", ",", ",,", "id", "id string,", ", id string", "id string id string", "id string, id string", "ID string",
    "\u0130d string", "id str\u0131ng", "id STRING", "_offset bigint", "_batch bigint", "_filtered boolean", "1d int",
    "id array<int>", "id struct<a:int>", "id map<string,string>", "id varchar(5)", "id text", "id numeric", "id json",
    "id decimal", "id decimal()", "id decimal(,)", "id decimal(0,0)", "id decimal(39,1)", "id decimal(5,6)",
    "id decimal(-1,0)", "id decimal(5)", "id decimal(5,2,1)", "id decimal(1e2,1)", "id decimal(\u0663,1)",
    "id decimal(5,\u0661)",
    "id decimal(\u00b2,1)", "id decimal(" + "9" * 5_000 + ",1)", "id decimal(5,2", "id decimal 5,2)", "id string; drop table x",
    "id string -- x", "id string /* x */", "id string\0", "i\0d string", "id\u2003string", "id\nstring", "`id` string",
    '"id" string', "id.x string", "a" * 63 + " string", "a" * 64 + " string", "a" * 100_000 + " string", "id " + "x" * 100_000,
    "id string not null", "id string default 1", "id string primary key", "$(id) string", "{{ id }} string",
    "id int /", "é int",
    ", ".join(f"c{n} int" for n in range(2_000)), "(" * 10_000, "id decimal" + "(" * 5_000 + ")" * 5_000,
    "\u202eid string", "id\tint",
)  # fmt: skip
BOUNDS = (
    "", " ", ":", "0:", ":0", "0:0:0", "-1:0", "0:-1", "a:b", "0:1e3", "0:9223372036854775808", "2147483648:0", "9" * 5_000,
    "0:" + "9" * 5_000, "\u0663:\u0661", "\u00b2:1", "0:0,0:1", "0:0,", "1.5:2", "0x1:1", "2026-13-01", "2026-02-30",
    "10000-01-01",
    "0000-01-01", "2026-01-01T25:00", "2026-01-01T00:00+99:99", "now", "-infinity", "batch", "batch:x", "latest earliest",
    "\x1b[2J", "x" * 100_000, "'; drop table lockstep.commit; --", "$(id)", "{{7*7}}", "../../etc/passwd", "0 :0",
    "\ud800", "1_0:0",
    "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "\n0:0\n1:1", "0:0\n",
)  # fmt: skip
FORM = (
    *BOUNDS, None, True, False, 0, -1, 2**31, 2**63, 1e308, [], [None], [[]], {}, {"a": 1}, ["0:0", "0:0"], ["0:5", "0:9"],
    ["0:" + "9" * 5_000], ["9" * 5_000 + ":0"], ["\u0663:\u0661"], ["0:0\n"], "fill", "replay", "skip", "accept-loss",
    "FILL", "2026-01-01",
    "2026-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z",
)  # fmt: skip
