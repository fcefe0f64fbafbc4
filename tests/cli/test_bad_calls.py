"""Tests the bad calls of bad_calls.txt: each is one line with its own exit code and a next command that exists."""

from __future__ import annotations

import gzip
import json
import shlex
from collections import Counter
from pathlib import Path

import pytest
from typer.main import get_command

from lockstep.cli.app import app
from lockstep.cli.exits import Exit
from support.oracles.documents import command_of
from support.oracles.next_commands import commands_in, faults_of
from support.scenes.command_line import DEFINITION, TARGET

TABLE = Path(__file__).with_name("bad_calls.txt").read_text(encoding="utf-8")
CALLS = [
    (Exit(int(code)), tuple(shlex.split(call)), begins)
    for code, call, begins in (line.split(" | ", 2) for line in TABLE.splitlines() if line and line[0] != "#")
]
NOWHERE = "host=127.0.0.1 port=1 user=u dbname=d"
SETTINGS = [
    ("LOCKSTEP_DSN", "nonsense", "batches orders", Exit.REFUSED, "cannot be read as a connection string"),
    ("LOCKSTEP_DSN", "mysql://u@h/db", "pause orders", Exit.REFUSED, "cannot be read as a connection string"),
    ("LOCKSTEP_DSN", "dbname='x", "unpause orders", Exit.REFUSED, "cannot be read as a connection string"),
    ("LOCKSTEP_DSN", "host=127.0.0.1 colour=red", "migrate", Exit.REFUSED, "cannot be read as a connection string"),
    ("LOCKSTEP_DSN", "postgresql://u:p%zz@127.0.0.1/d", "reap", Exit.REFUSED, "cannot be read as a connection string"),
    ("LOCKSTEP_DSN", NOWHERE, "forget orders --reason r", Exit.AWAY, "the ledger's database does not answer"),
    ("LOCKSTEP_DSN", NOWHERE, "rename gone orders --reason r", Exit.AWAY, "the ledger's database does not answer"),
    ("LOCKSTEP_DSN", NOWHERE, "migrate orders --propose", Exit.AWAY, "the ledger's database does not answer"),
    ("LOCKSTEP_KAFKA", "127.0.0.1:1", "dev topic t", Exit.AWAY, "Kafka at 127.0.0.1:1 does not answer"),
    (
        "LOCKSTEP_KAFKA",
        "127.0.0.1:1",
        "dev produce t --from f.jsonl",
        Exit.AWAY,
        "Kafka at 127.0.0.1:1 does not answer",
    ),
    ("LOCKSTEP_KAFKA", ":9092", "dev topic t", Exit.AWAY, "Kafka at :9092 does not answer"),
    ("LOCKSTEP_PIPELINES", "/nowhere", "check", Exit.REFUSED, "LOCKSTEP_PIPELINES is /nowhere, which is no folder"),
    ("LOCKSTEP_PIPELINES", "f.jsonl", "status", Exit.REFUSED, "LOCKSTEP_PIPELINES is f.jsonl, which is no folder"),
    ("LOCKSTEP_SIGNING_KEY", "/nowhere", "certificate orders --batch 1", Exit.REFUSED, "/nowhere: No such file"),
    ("LOCKSTEP_SIGNING_KEY", "f.jsonl", "certificate orders --batch 1", Exit.REFUSED, "f.jsonl holds no such key"),
    ("LOCKSTEP_PUBLIC_KEY", "/nowhere", "verify --certificate f.jsonl", Exit.REFUSED, "/nowhere: No such file"),
    ("LOCKSTEP_REGISTRY", "registry:8081", "try avro --file envelope.jsonl --envelope", Exit.REFUSED, "is no address"),
    ("LOCKSTEP_REGISTRY", "http://", "try avro --file envelope.jsonl --envelope", Exit.REFUSED, "is no address"),
]
NO_BATCHES = [
    ("batch 77", Exit.REFUSED, "the ledger has no batch 77"),
    ("abandon 77 --reason r", Exit.REFUSED, "the ledger has no batch 77"),
    ("forget gone --reason r", Exit.REFUSED, "gone"),
    ("forget gone --undo --reason r", Exit.REFUSED, "gone"),
    ("rename gone orders --reason r", Exit.REFUSED, "gone"),
    ("rename orders orders --reason r", Exit.REFUSED, "orders: it has this name"),
    (
        "migrate orders --apply 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef --reason r",
        Exit.REFUSED,
        "orders: ",
    ),
    ("hand-over public.avro --from orders --to avro --reason r", Exit.REFUSED, "orders cannot hand it over"),
    ("hand-over public.avro --from avro --to avro --reason r", Exit.REFUSED, "avro would hand it over to itself"),
    ("hand-over public.orders --from orders --to avro --reason r", Exit.REFUSED, "its definition writes public.avro"),
    ("replay orders --request 9", Exit.REFUSED, "9"),
    ("fill orders --request 9", Exit.REFUSED, "9"),
    ("lineage orders --partition 0 --offset 0", Exit.REFUSED, "partition 0 has no stream"),
    ("blame orders --key k", Exit.REFUSED, "the target public.orders is not migrated"),
    ("blame orders --key k --key l", Exit.REFUSED, "the key is (id), 2 of 1 values are given"),
    ("blame append --key k", Exit.REFUSED, "public.append is appended to, its rows have no key"),
    ("blame orders --key k --target public.avro", Exit.REFUSED, "public.avro is no target of it"),
    ("restored orders --reason r", Exit.REFUSED, "the ledger has no open stream of it"),
    ("adopt orders --at 0:1", Exit.AWAY, "Kafka at 127.0.0.1:1 does not answer"),
    ("adopt orders --spark-checkpoint .", Exit.AWAY, "Kafka at 127.0.0.1:1 does not answer"),
    ("batches gone", Exit.REFUSED, "no pipeline 'gone'"),
    ("verify gone", Exit.REFUSED, "no pipeline 'gone'"),
    ("plan orders", Exit.AWAY, "Kafka at 127.0.0.1:1 does not answer"),
    ("skip orders --to latest --reason r", Exit.AWAY, "Kafka at 127.0.0.1:1 does not answer"),
    ("status orders", Exit.AWAY, "Kafka at 127.0.0.1:1 does not answer"),
]
KINDS = 5  # of bad input, at least, for each command


ROOT = get_command(app)


def names_of(group, before=""):
    """Yields each command's name: `run`, and `dev-topic` for one of a group."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from names_of(command, f"{before}{name}-")
        else:
            yield f"{before}{name}"


NAMES = list(names_of(ROOT))


def family(arguments):
    """Returns the command of a call, or `lockstep` if it names none."""
    name = command_of(arguments) if any(word[:1] != "-" for word in arguments) else ""
    return name if name in NAMES else "lockstep"


def of_another(name: str, *changes: tuple[str, str]) -> dict[str, str]:
    """Returns a definition like that of orders under another name, with its target.sql."""
    texts = [
        text.replace('"orders"', f'"{name}"').replace("public.orders", f"public.{name}")
        for text in (DEFINITION, TARGET)
    ]
    for old, new in changes:
        texts[0] = texts[0].replace(old, new)
    return {"init": texts[0], "target": texts[1]}


@pytest.fixture
def shop(lockstep, monkeypatch):
    """Makes pipelines and files for the calls: orders, append, avro, and broken, which does not load."""
    lockstep.define()
    lockstep.define(
        "append", **of_another("append", ("Upsert(", "Append("), (', key=("id",))', ")"), (", Upsert", ", Append"))
    )
    lockstep.define("avro", **of_another("avro", ("Json", "Avro")))
    lockstep.define("broken", **of_another("broken", ("topic=", "topik=")))
    for name, content in {
        "f.jsonl": b'{"id": "a", "n": 1}\n',
        "empty.jsonl": b"",
        "envelope.jsonl": b'{"value_base64": "AAAAAAE="}\n',
        "lines.gz": gzip.compress(b'{"id": "a"}\n', mtime=0),
    }.items():
        (lockstep.home / name).write_bytes(content)
    monkeypatch.setattr("lockstep.dev.scratch.scratch_ledger", None)  # nothing is started for a bad call
    return lockstep


def test_each_command_has_at_least_five_kinds_of_bad_input():
    counted = Counter(family(arguments) for _, arguments, _ in CALLS)
    assert [name for name in NAMES if counted[name] < KINDS] == []
    assert len(set(CALLS)) == len(CALLS) > 300


@pytest.mark.parametrize("name", ["lockstep", *NAMES])
def test_each_bad_call_is_one_line_with_its_code_and_a_command_that_exists(shop, name):
    before = shop.tree()
    for code, arguments, begins in CALLS:
        if family(arguments) != name:
            continue
        said = shop(*arguments)
        message, _, following = said.err.removesuffix("\n").partition("  Next: ")
        assert (said.code, said.err.count("\n")) == (code, 1), (arguments, said)
        assert message.removeprefix("Invalid value for ").startswith(begins), (arguments, said.err)
        assert following, (arguments, said.err)
        assert faults_of(following) == [], (arguments, said.err)
        assert following != shlex.join(["lockstep", *arguments]), "the very call that was refused"
        if code == Exit.USAGE:
            assert list(commands_in(following)) == [f"{path_of(arguments)} --help"], (arguments, said.err)
        assert "--json" in arguments or said.out == "", (arguments, said.out)
        assert "--json" not in arguments or said.document["next"] == following, (arguments, said.out)
    assert shop.tree() == before


def assert_one_line(said, code, words):
    message, _, following = said.err.removesuffix("\n").partition("  Next: ")
    assert (said.code, said.err.count("\n"), said.out) == (code, 1, ""), said
    assert words in message, said
    assert following, said
    assert faults_of(following) == [], said


@pytest.mark.parametrize(("variable", "value", "call", "code", "words"), SETTINGS)
def test_a_bad_setting_is_one_line(shop, monkeypatch, variable, value, call, code, words):
    monkeypatch.setattr("lockstep.dev.records.topics.PATIENCE_SECONDS", 0.3)
    shop.environ(**{variable: value})
    assert_one_line(shop(*shlex.split(call)), code, words)


def test_what_the_ledger_does_not_have_is_one_line_and_writes_nothing(shop, database, ledger_rows, monkeypatch):
    monkeypatch.setattr("lockstep.adapters.kafka.client.ANSWER_SECONDS", 0.3)
    shop.environ(LOCKSTEP_DSN=database, LOCKSTEP_KAFKA="127.0.0.1:1")
    before = ledger_rows()
    for call, code, words in NO_BATCHES:
        assert_one_line(shop(*shlex.split(call)), code, words)
    assert ledger_rows() == before


def path_of(arguments):
    """Returns the command that a call names, as a person types it, as far as it exists."""
    path, found = ["lockstep"], ROOT
    for word in arguments:
        if word not in getattr(found, "commands", {}):
            break
        path, found = [*path, word], found.commands[word]  # type: ignore[attr-defined]
    return " ".join(path)


def test_a_bad_call_with_json_is_one_document(shop):
    for code, arguments, _ in CALLS[::10]:
        if arguments[-1].startswith("--"):
            continue  # --json would become the option's value, and the call a good one
        said = shop(*arguments, "--json")
        if "certificate" in arguments or not said.out:
            continue
        assert (said.code, json.loads(said.out).keys()) == (code, {"error", "next"}), (arguments, said)
