"""Fuzzes change records, a registry's answers and definitions. Each input has a deadline and a bound of memory."""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import signal
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lockstep.core.capture.debezium import Debezium
from lockstep.core.errors import BadData, Refusal
from lockstep.core.pipeline.definition import Append, Avro, Json, Pipeline, Protobuf
from lockstep.formats.avro.decoder import Decoder
from lockstep.formats.debezium.decoder import ChangeDecoder
from lockstep.formats.debezium.templates import Templates
from lockstep.formats.json.heads import HeadJudge
from lockstep.formats.protobuf.decoder import MessageDecoder
from lockstep.formats.values import arrow_type
from support.inputs.change_records import change, field, with_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

CPU_SECONDS = 5  # of one input
MOST_MEMORY = 4 * 2**30  # bytes of addresses beyond those at the start
SHOWN = 2**20  # bytes of an input that are kept for a report
HEAD = b"\x00\x00\x00\x00\x01"
# What stands in for values, names and numbers of a document. Each has been a danger somewhere.
ODD = (
    "1e999999999", "-1e999999999", "1e-999999999", "0e999999999", "1e100000", "9" * 999, "9" * 5_000, "-0",
    "-0.0", "1.5", "true", "null",
    "[]", "{}", '""', '"1e999999999"', '"NaN"', '"Infinity"', '"\\u0000"', '"\\ud800"', '"\\u0663"', '"1_0"',
    "[" * 400 + "]" * 400,
    '{"scale":1e999999999,"value":"AQ=="}', '{"scale":-1000,"value":"AQ=="}', '"' + "A" * 4_000 + '"',
    '"9999-12-31T23:59:59+14:00"',
)  # fmt: skip
TYPES = ("int8", "int32", "int64", "float", "double", "boolean", "string", "bytes", "array", "map", "struct", "what")
TIME, CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
NAMES = (
    None, f"{CONNECT}Decimal", f"{CONNECT}Date", f"{CONNECT}Timestamp", f"{CONNECT}Time",
    "io.debezium.data.VariableScaleDecimal",
    *(f"{TIME}{each}" for each in ("Date", "IsoDate", "MicroTimestamp", "NanoTimestamp", "ZonedTimestamp", "NanoTime")),
)  # fmt: skip
COLUMNS = (
    "id bigint, a decimal(12,2), b string, c timestamp, d date, e double, f binary, g boolean, h float, i smallint"
)
AVRO_TYPES = ("int", "long", "bytes", "string", "null", "double", "boolean")


class Watch:
    """A file that says which input is being read, for the report of a process that was ended."""

    def __init__(self) -> None:
        self._file = tempfile.NamedTemporaryFile(prefix="lockstep-fuzz-")  # noqa: SIM115 - open as long as the process
        self.path = Path(self._file.name)
        self._begin = b""

    def guard(self) -> None:
        """Has each input of this process end it after its deadline, with a traceback, and bounds its memory."""
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
        faulthandler.register(signal.SIGVTALRM, file=sys.stderr, all_threads=False, chain=True)
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY,) * 2)

    def round(self, name: str, seed: int) -> None:
        """Notes the fuzzer and the seed of all inputs that follow."""
        self._begin = f"{name}, seed {seed}: ".encode()
        self._note(b"")

    @contextmanager
    def reading(self, data: bytes) -> Iterator[None]:
        """Notes an input, and gives it its deadline."""
        self._note(data)
        signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS)
        try:
            yield
        except Exception as error:
            raise AssertionError(f"{self._begin.decode()}{data[:SHOWN]!r}: {type(error).__name__}") from error
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def _note(self, data: bytes) -> None:
        os.ftruncate(self._file.fileno(), 0)
        os.pwrite(self._file.fileno(), self._begin + repr(data[:SHOWN]).encode(), 0)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Runs the block in a child process. If that is ended, writes out the seed and the input, and fails."""
    child = os.fork()
    if child == 0:
        watch.guard()
        yield
        return
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        sys.stderr.write(f"ended by {code} at {watch.path.read_text(encoding='utf-8', errors='replace')}\n")
    sys.stderr.flush()
    os._exit(min(abs(code), 1))


def odd(chance: random.Random, document: Any, share: float = 0.08) -> str:
    """Returns a document's JSON in which some values are odd ones."""
    if chance.random() < share:
        return chance.choice(ODD)
    if isinstance(document, dict):
        return "{" + ",".join(f"{json.dumps(n)}:{odd(chance, v, share)}" for n, v in document.items()) + "}"
    if isinstance(document, list):
        return "[" + ",".join(odd(chance, each, share) for each in document) + "]"
    return json.dumps(document)


def cut(chance: random.Random, data: bytes) -> bytes:
    """Returns the bytes, sometimes with a part left out or doubled."""
    if chance.random() > 0.1:
        return data
    at, until = sorted(chance.choices(range(len(data) + 1), k=2))
    return data[:at] + data[until:] if chance.random() < 0.5 else data[:until] + data[at:]


def changes(chance: random.Random, watch: Watch) -> None:
    """Checks that a change record is a row that fits, a deletion, nothing, or a reject with a reason."""
    order: dict[str, Any] = chance.choice([{}, {"order": "source"}])
    format_ = Debezium(COLUMNS, key=("id",), **order)
    take, templates = (
        ChangeDecoder("shop", format_),
        Templates(ChangeDecoder("shop", format_), format_, frozenset({"id"})),
    )
    records = []
    for _ in range(20):
        columns = [column.name for column in format_.columns if column.name in COLUMNS.replace(",", "").split()]
        values = {name: chance.choice([1, "x", "AQ==", 1.5, True, None, 2**40]) for name in columns}
        operation = chance.choice("cccurdtm")
        record = change(operation, values if operation in "ud" else None, None if operation == "d" else values)
        if chance.random() < 0.6:
            kinds = [
                field(
                    name,
                    chance.choice(TYPES),
                    chance.choice(NAMES),
                    parameters={"scale": chance.choice(["2", 2, "-1"])},
                )
                for name in columns
            ]
            record = with_schema(record, *kinds)
        data = cut(chance, odd(chance, record, chance.choice([0, 0.02, 0.1])).encode(errors="replace"))
        records.append(data)
        with watch.reading(data):
            outcome = take(chance.choice([None, b"7", b'{"id": 7}', data]), data, None)
            said = [outcome.reason is not None, outcome.filtered, outcome.refusal is not None]
            assert sum(said) <= 1
            assert any(said) or outcome.values or outcome.deleted
            assert outcome.reason is None or outcome.reason.strip()
            for column in format_.columns:
                pa.array([outcome.values.get(column.name)], arrow_type(column))
    with watch.reading(b"\n".join(records)):
        templates(pa.array(records, pa.binary()))


class Answering:
    """A registry that answers each id with this text."""

    def __init__(self, text: Any) -> None:
        self._text = text

    def writer(self, _schema_id: int) -> tuple[Any, dict[str, str]]:
        return self._text, {}


def answers(chance: random.Random, watch: Watch) -> None:
    """Checks that whatever a registry calls a schema, a record of it is a row or a reject with a reason."""
    kind = {
        "type": chance.choice(AVRO_TYPES),
        "logicalType": chance.choice(["decimal", "date", "uuid"]),
        "precision": 4,
        "scale": 2,
    }
    fields = [{"name": name, "type": chance.choice([kind, "string", ["null", kind]])} for name in ("id", "n", "m")]
    avro = {"type": "record", "name": "R", "fields": fields}
    item = {
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"enum": [1, "x"], "pattern": "^a+$", "multipleOf": 3}},
    }
    schema = {
        "$schema": f"http://json-schema.org/draft-0{chance.choice('467')}/schema#",
        "items": item,
        "uniqueItems": True,
    }
    for document, format_, decoder in (
        (avro, Avro("id string, n int"), Decoder),
        (schema, Json("id string", registry=True, validate=True), HeadJudge),
    ):
        text = odd(chance, document, chance.choice([0, 0.03, 0.1]))
        take = decoder(Pipeline("p", "t", format_, Append("public.p")), format_, Answering(text))  # type: ignore[arg-type]
        for _ in range(3):
            data = HEAD + cut(chance, odd(chance, [{"a": 1}, "x", 2.5, [True]], 0.2).encode())
            with watch.reading(text.encode(errors="replace") + b"\n" + data):
                try:
                    outcome = take(None, data, None)
                except BadData:  # the schema, and no record, does not suit the columns
                    break
                assert bool(outcome.values) != bool((outcome.reason or "").strip()), outcome
    text = chance.choice(["", "AAAA", "!", "é", "CgN4eXo=" * chance.randint(1, 50)])
    proto, registry = Protobuf("id string"), Answering(text)
    read = MessageDecoder(Pipeline("p", "t", proto, Append("public.p")), proto, registry)  # type: ignore[arg-type]
    with watch.reading(text.encode()), suppress(Refusal):  # .proto text blames the registry
        read(None, HEAD + chance.randbytes(30), None)


def definitions(chance: random.Random, watch: Watch) -> None:
    """Checks that columns and limits of a definition are a definition, or are refused in one line."""
    decimals = ("decimal(12,2)", "decimal(999999999,2)", "decimal(38,-1)", "decimal(1e9,2)")
    types, names = ("string", "int", "bigint", *decimals, "x" * 999, ""), ("a", "b", "ü", "_x", "")
    makers: list[Any] = [Json, Avro, Protobuf, lambda columns: Debezium(columns, key=("a0",))]
    for _ in range(20):
        some = range(chance.randint(0, 5))
        columns = ", ".join(f"{chance.choice(names)}{number} {chance.choice(types)}" for number in some)
        with watch.reading(columns.encode()):
            said = ""
            try:
                Pipeline("p", "t", chance.choice(makers)(columns), Append("public.p"))
            except Refusal as refused:
                said = str(refused)
            assert "\n" not in said


def hostile(watch: Watch, seed: int) -> None:
    """Runs one round of each fuzzer from a seed."""
    for fuzzer in (changes, answers, definitions):
        watch.round(fuzzer.__name__, seed)
        fuzzer(random.Random(seed), watch)  # noqa: S311 - spread, not secrecy
