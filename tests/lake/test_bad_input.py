"""Tests bad input for the lake: one line each, with the next command, and nothing is written."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from lake.test_commands import lockstep  # noqa: F401 - a fixture
from lockstep.adapters.iceberg.store import LakePlace
from lockstep.cli.exits import Exit
from support.fakes.hollow_store import hollow_store
from support.oracles.next_commands import faults_of

KEYS = {"s3.access-key-id": "canary-id", "s3.secret-access-key": "canary-secret", "s3.region": "us-east-1"}
TABLE = "table_name = 'drill' and table_namespace = 'sales'"
POINT = f"update lockstep_lake.iceberg_tables set iceberg_type = %s, metadata_location = %s where {TABLE}"

# (what, variables, the command, the exit code, words of the answer)
BEFORE_A_TABLE = [
    ("no address", {"LOCKSTEP_LAKE": ""}, 1, "LOCKSTEP_LAKE is not set"),
    ("another store", {"LOCKSTEP_LAKE": "gs://bucket/lake"}, 1, "is neither a folder nor a bucket"),
    ("a host in front of a folder", {"LOCKSTEP_LAKE": "file://srv/lake"}, 1, "is neither a folder nor a bucket"),
    ("a login in the address", {"LOCKSTEP_LAKE": "s3://id:canary-secret@bucket/lake"}, 1, "holds a login or a query"),
    ("a key in the query", {"LOCKSTEP_LAKE": "s3://bucket/lake?key=canary-secret"}, 1, "holds a login or a query"),
    ("a file in the way", {"LOCKSTEP_LAKE": "file:///dev/null/lake"}, 3, "look at that folder"),
]
CONFIGS = [
    ("a list", '["canary-secret"]', "neither a JSON object nor the path of a file"),
    ("no JSON", '{"s3.region": canary-secret', "no JSON"),
    ("values in values", '{"s3": {"region": "canary-secret"}}', "one JSON object of options and plain values"),
    ("an unknown option", '{"s3.secret": "canary-secret"}', "'s3.secret' is not on the list"),
    ("half a pair", '{"s3.secret-access-key": "canary-secret"}', "go together"),
    ("a login in the endpoint", '{"s3.endpoint": "http://id:canary-secret@h"}', "s3.endpoint is no http://HOST:PORT"),
    ("a certificate that is not there", '{"s3.ca.location": "/nowhere.pem"}', "/nowhere.pem cannot be read"),
]
STORES = [
    ("a page that says yes", (200, ""), 1, "what answers there is no object store"),
    ("a page that says no", (404, ""), 1, "there is no such bucket"),
    ("an expired token", (400, "ExpiredToken"), 1, "the session token has expired"),
    ("an unknown key", (403, "InvalidAccessKeyId"), 1, "the store does not know the access key"),
    ("a wrong secret", (403, "SignatureDoesNotMatch"), 1, "the secret key is not the one of the access key"),
    ("a wrong clock", (403, "RequestTimeTooSkewed"), 1, "the clock of this machine is not the store's"),
    ("a wrong bucket", (404, "NoSuchBucket"), 1, "there is no such bucket"),
    ("no right", (403, "AccessDenied"), 1, "this login may not do that there"),
    ("another region", (301, "PermanentRedirect"), 1, "the bucket is not in the region of s3.region"),
    ("too busy", (503, "SlowDown"), 3, "the store is too busy"),
]


def no_json(_: Any) -> str:
    return "<html>"


def changed(**parts: Any) -> Any:
    return lambda document: json.dumps(document | parts)


def with_column(name: str, **parts: Any) -> Any:
    def change(document: dict[str, Any]) -> str:
        for schema in document["schemas"]:
            fields = [f | parts if f["name"] == name else f for f in schema["fields"]]
            schema["fields"] = [field for field in fields if not field.pop("gone", False)]
        return json.dumps(document)

    return change


def of_version_1(document: dict[str, Any]) -> str:
    older = {key: value for key, value in document.items() if key != "last-sequence-number"}
    return json.dumps(older | {"format-version": 1, "schema": document["schemas"][0], "partition-spec": []})


BY = {"source-id": 1, "field-id": 1000, "transform": "identity", "name": "by"}
PARTITIONS = {"partition-specs": [{"spec-id": 0, "fields": [BY]}]}
TABLES = [
    ("no metadata there", None, "a file is missing"),
    ("no JSON", no_json, "this is no metadata of Iceberg"),
    ("format version 1", of_version_1, "its format version is 1, and 2 is written here"),
    ("partitions", changed(**PARTITIONS), "it is partitioned by by"),
    ("a column less", with_column("n", gone=True), "it has no column n"),
    ("another type", with_column("n", type="string"), "its column n is string, and int is needed"),
    ("a required column", with_column("id", required=True), "its column id is required"),
    ("code to run", changed(properties={"py-io-impl": "os.path"}), "would run code"),
]


class Answers:
    """The answers of commands, each with its faults."""

    def __init__(self, call: Any) -> None:
        self.call, self.faults, self.count = call, [], 0

    def expect(self, what: str, code: int, words: str, *command: str) -> None:
        said = self.call(*command)
        self.count += 1
        told = said.err.strip()
        wrong = [
            *([f"code {said.code}"] if said.code != code else []),
            *(["not one line"] if "\n" in told or "Traceback" in told else []),
            *([f"without {words!r}"] if words not in told else []),
            *(["without a next command"] if "  Next: " not in told else faults_of(told.partition("  Next: ")[2])),
            *(["a key is said"] if "canary" in said.out + said.err else []),
        ]
        if wrong:
            self.faults.append((what, wrong, told))


def act(lake: Any, statement: str, *values: Any) -> None:
    with closing(psycopg2.connect(lake.drill.dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(statement, values)


@pytest.mark.long
def test_addresses_options_and_stores_that_are_wrong_are_one_line(of_tasks, lockstep):  # noqa: F811 - a fixture
    answers = Answers(lockstep)
    act(of_tasks, f"delete from lockstep_lake.iceberg_tables where {TABLE}")
    for what, variables, code, words in BEFORE_A_TABLE:
        lockstep.environ(**variables)
        answers.expect(what, code, words, "migrate", "drill")
    lockstep.environ(LOCKSTEP_LAKE="s3://bucket/lake")
    for what, config, words in CONFIGS:
        lockstep.environ(LOCKSTEP_LAKE_CONFIG=config)
        answers.expect(what, Exit.REFUSED, words, "migrate", "drill")
    lockstep.environ(LOCKSTEP_LAKE_CONFIG=json.dumps(KEYS | {"s3.endpoint": "http://127.0.0.1:1"}))
    answers.expect("no answer", Exit.AWAY, "no store answers", "migrate", "drill")
    with hollow_store() as store:
        lockstep.environ(LOCKSTEP_LAKE_CONFIG=json.dumps(KEYS | {"s3.endpoint": store.endpoint}))
        for what, answer, code, words in STORES:
            store.say(*answer)
            answers.expect(what, code, words, "migrate", "drill")
        act(
            of_tasks,
            "insert into lockstep_lake.iceberg_tables values ('lockstep', 'sales', 'drill', %s, null, 'TABLE')",
            "s3://bucket/lake/sales/drill/metadata/1.metadata.json",
        )
        for what, answer, code, words in STORES[2:]:
            store.say(*answer)
            answers.expect(f"{what}, of a table", code, words, "files", "drill")
    assert answers.faults == []
    assert answers.count > 20


@pytest.mark.long
def test_tables_that_take_no_rows_are_one_line_and_nothing_is_written(of_tasks, lockstep, monkeypatch):  # noqa: F811
    answers = Answers(lockstep)
    file = Path(of_tasks.pointer("drill").removeprefix("file://"))
    good = file.read_text()
    for what, change, words in TABLES:
        if change is None:
            file.unlink()
        else:
            file.write_text(change(json.loads(good)))
        answers.expect(what, Exit.REFUSED, words, "run", "drill")
        file.write_text(good)
    for kind, address, words in (
        ("VIEW", of_tasks.pointer("drill"), "is a view of the catalog"),
        ("TABLE", "gs://bucket/1.metadata.json", "files of the lake are in folders or in an S3 store"),
    ):
        act(
            of_tasks,
            POINT,
            kind,
            address,
        )
        answers.expect(kind, Exit.REFUSED, words, "run", "drill")
    act(
        of_tasks,
        POINT,
        "TABLE",
        f"file://{file}",
    )
    with monkeypatch.context() as full:
        (disk := file.parent / "full").symlink_to("/dev/full")  # what is deleted is the link, and not the device
        full.setattr(LakePlace, "unfinished", property(lambda self: LakePlace(self.fs, str(disk))))
        answers.expect("a full disk", Exit.AWAY, "No space left on device", "run", "drill")
    data = file.parent.parent / "data"
    data.rename(data.with_name("away"))
    data.write_text("")
    answers.expect("a file in place of a folder", Exit.AWAY, "look at that folder", "run", "drill")
    data.unlink()
    assert answers.faults == []
    assert of_tasks.rows() == []
    of_tasks.drain()
    assert len(of_tasks.rows()) == 60
