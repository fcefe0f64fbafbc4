"""Tests Avro that is small and costly: no bytes kill, block or fill the process that decodes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.definition import Append, Avro, Pipeline, RecordLimits
from lockstep.core.registry import registry as registry_of
from lockstep.formats.avro.decoder import Decoder
from lockstep.formats.avro.schemas import Schemas
from support.fakes.registry import a_record, a_registry

NEST = {"type": "record", "name": "n", "fields": [{"name": "next", "type": ["null", "n"]}]}
LIST = {"type": "record", "name": "l", "fields": [{"name": "next", "type": {"type": "array", "items": "l"}}]}
MAP = {"type": "record", "name": "m", "fields": [{"name": "next", "type": {"type": "map", "values": "m"}}]}
NULLS = a_record(("next", {"type": "array", "items": "null"}))
EMPTY = {"type": "record", "name": "E", "fields": []}
EMPTIES = a_record(("next", {"type": "array", "items": EMPTY}))
WIDE = {"type": "record", "name": "W", "fields": [{"name": f"f{n}", "type": "null"} for n in range(500)]}
WIDES = a_record(("next", {"type": "array", "items": ["int", WIDE]}))
# Each named type holds the one before it twice: 2**40 values of no bytes.
LAUGHS = [{"type": "record", "name": "r0", "fields": [{"name": "a", "type": "null"}]}] + [
    {"type": "record", "name": f"r{n}", "fields": [{"name": x, "type": f"r{n - 1}"} for x in "ab"]}
    for n in range(1, 41)
]
LAUGH = a_record(("next", ["null", *LAUGHS]))
# Each named type holds the one before it once: as deep as a recursive one, and its JSON is flat.
CHAIN = a_record(
    (
        "next",
        [
            {"type": "record", "name": "c0", "fields": [{"name": "a", "type": "null"}]},
            *(
                {"type": "record", "name": f"c{n}", "fields": [{"name": "a", "type": f"c{n - 1}"}]}
                for n in range(1, 20_000)
            ),
        ],
    )
)
CHILD = """
import json, sys, time
from pathlib import Path
from lockstep.core.pipeline.definition import Append, Avro, Pipeline
from lockstep.core.registry import registry
from lockstep.formats.avro.decoder import Decoder
from lockstep.formats.avro.schemas import Schemas
format_ = Avro("id string", rest="extra")
schemas = Schemas(registry(sys.argv[1], {"max.retries": 0}, str))
decode = Decoder(Pipeline("p", "t", format_, Append("public.p")), format_, schemas)
for line in sys.stdin:
    begun = time.process_time()
    outcome = decode(None, bytes.fromhex(line), None)
    used = time.process_time() - begun
    # Not ru_maxrss: that begins with what the parent has.
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps([outcome.reason, used, int(peak.split()[1]) // 1024]))
    sys.stdout.flush()
"""


def number(value: int) -> bytes:
    """Returns Avro's zigzag number."""
    value, out = value << 1, b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


@pytest.fixture
def registry():
    with a_registry() as made:
        yield made


def decoder(registry, columns="id string", limits=None, **more: Any):
    format_ = Avro(columns, **more)
    pipeline = Pipeline("p", "t", format_, Append("public.p"), record_limits=limits or RecordLimits())
    return Decoder(pipeline, format_, Schemas(registry_of(registry.url, {"max.retries": 0, "timeout": 5}, str)))


def judged(registry, records: list[bytes]) -> list[list]:
    """Returns reason, CPU seconds and megabytes of each record.

    Each is decoded in a separate process, so that a crash is a missing answer.
    """
    done = subprocess.run(
        [sys.executable, "-c", CHILD, registry.url],
        input="".join(record.hex() + "\n" for record in records),
        capture_output=True,
        text=True,
        timeout=240,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2] / "include")},
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (done.returncode, len(answers), done.stderr[-500:])
    return answers


def test_a_record_nested_too_deep_is_a_reject_and_one_at_the_limit_is_a_row(registry):
    records, reasons = [], []
    for schema, level, end in ((NEST, b"\x02", b"\x00"), (LIST, b"\x02", b"\x00"), (MAP, b"\x02\x02k", b"\x00")):
        head = b"\x00" + registry.register("t-value", schema).to_bytes(4, "big")
        whole = 100 if schema is NEST else 50  # the record and its array are a level each
        for depth in (1, whole - 1, whole, 900, 5_000, 20_000, 100_000):
            inside = depth - 1
            closing = end if schema is NEST else end * (inside + 1)
            records.append(head + level * inside + closing)
            reasons.append(None if depth <= whole else "is nested deeper than 100, which is the limit")
    for (said, seconds, _), reason in zip(judged(registry, records), reasons, strict=True):
        assert (said is None) if reason is None else (reason in said), (said, reason)
        assert seconds < 30


def test_values_that_take_no_bytes_are_counted_before_they_are_made(registry):
    few = registry.register("t-value", NULLS)
    records = [b"\x00" + few.to_bytes(4, "big") + number(3) + b"\x00"]
    for schema, body in (
        (NULLS, number(20_000_000) + b"\x00"),
        (NULLS, number(2**60) + b"\x00"),
        (EMPTIES, number(20_000_000) + b"\x00"),
        (WIDES, number(100_000) + b"\x02" * 100_000 + b"\x00"),
        (LAUGH, number(41)),
    ):
        records.append(b"\x00" + registry.register("t-value", schema).to_bytes(4, "big") + body)
    (first, *others) = judged(registry, records)
    assert first[0] is None
    for reason, seconds, megabytes in others:
        assert "holds more than 1000000 values" in reason or "nested deeper" in reason, reason
        assert seconds < 60
        assert megabytes < 400


def test_a_schema_nested_too_deep_is_a_reject(registry):
    deep: Any = "string"
    for _ in range(480):
        deep = {"type": "array", "items": deep}
    arrays = registry.register("t-value", a_record(("next", deep)))
    chain = registry.register("t-value", CHAIN)
    records = [b"\x00" + arrays.to_bytes(4, "big") + b"\x00", b"\x00" + chain.to_bytes(4, "big") + number(19_999)]
    arrays_said, chain_said = judged(registry, records)
    assert "is nested deeper than 100 records, which is the limit" in arrays_said[0]
    assert "nested deeper than 100" in chain_said[0]


def test_the_length_of_a_decimal_is_looked_at_before_its_digits_are_made(registry):
    money = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    head = b"\x00" + registry.register("t-value", a_record(("next", money))).to_bytes(4, "big")
    huge = {"type": "bytes", "logicalType": "decimal", "precision": 900_000, "scale": 0}
    other = b"\x00" + registry.register("t-value", a_record(("n", huge))).to_bytes(4, "big")
    size = 400_000
    ((first, seconds, _), (second, more, _)) = judged(
        registry, [start + number(size) + b"\x7f" * size for start in (head, other)]
    )
    assert f"{size} bytes in a decimal of 9 digits" in first
    assert f"{size} bytes in a decimal of 900000 digits" in second
    assert seconds + more < 20, "to make the digits takes minutes"
    # A writer may fill up in front with the sign, as long as it likes.
    decode = decoder(registry, "next decimal(9,2)")
    for filler, body, value in ((b"\x00", b"\x01", "0.01"), (b"\xff", b"\xfe", "-0.02"), (b"", b"\xff", "-0.01")):
        record = head + number(1000 * len(filler) + 1) + filler * 1000 + body
        assert decode(None, record, None).values == {"next": Decimal(value)}
    for value in (10**9 - 1, 1 - 10**9):  # type: ignore[assignment]
        raw = value.to_bytes(5, "big", signed=True)  # type: ignore[attr-defined]
        assert decode(None, head + number(5) + raw, None).values == {"next": Decimal(value).scaleb(-2)}
    assert "10 digits in a decimal of 9" in decode(None, head + number(5) + (10**9).to_bytes(5, "big"), None).reason


def test_what_the_registry_refuses_is_asked_once_a_task(registry):
    mine = registry.register("mine", a_record(("id", "string")))
    theirs = registry.register("theirs", a_record(("id", "string"), ("n", "int")))
    decode = decoder(registry, subject="mine")
    for _ in range(300):
        assert decode(None, b"\x00" + theirs.to_bytes(4, "big") + b"\x02a\x02", None).reason == (
            f"schema id {theirs} is not one of subject mine"
        )
        assert "is not in the registry" in decode(None, b"\x00\x00\x00\x03\xe7x", None).reason
        assert decode(None, registry.encode(mine, {"id": "a"}), None).values == {"id": "a"}
    assert len(registry.asked) == 4, registry.asked  # two refusals, and the subject and the text of the schema


def test_very_many_unknown_ids_end_the_asking_and_not_the_reading(registry):
    mine = registry.register("mine", a_record(("id", "string")))
    decode = decoder(registry, limits=RecordLimits(schemas=10))
    good = registry.encode(mine, {"id": "a"})
    assert decode(None, good, None).values == {"id": "a"}
    reasons = [decode(None, b"\x00" + n.to_bytes(4, "big") + b"x", None).reason for n in range(1000, 1300)]
    assert len(registry.asked) == 11
    assert "is not in the registry" in reasons[9]
    assert reasons[10] == ("schema id 1010 was not asked for: the registry refused 10 others, which is the limit")
    assert decode(None, good, None).values == {"id": "a"}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bytes": 0}, "record_limits.bytes is 0"),
        ({"depth": True}, "record_limits.depth is True"),
        ({"depth": 201}, "200 is the most"),
        ({"bytes": 2**40}, "is the most"),
        ({"values": 1.5}, "record_limits.values is 1.5"),
        ({"seconds": 0}, "record_limits.seconds is 0"),
        ({"seconds": 86_401}, "86400 is the most"),
    ],
)
def test_limits_that_are_none_are_refused(wrong, said):
    with pytest.raises(BadDefinition, match=said):
        RecordLimits(**wrong)


def test_a_definition_that_says_no_limits_keeps_its_document():
    plain = Pipeline("p", "t", Avro("id string"), Append("public.p"))
    assert "record_limits" not in plain.document()
    other = Pipeline("p", "t", Avro("id string"), Append("public.p"), record_limits=RecordLimits(depth=7))
    assert other.document()["record_limits"] == {"bytes": 64 * 2**20, "depth": 7, "values": 1_000_000, "schemas": 100}
    patient = Pipeline("p", "t", Avro("id string"), Append("public.p"), record_limits=RecordLimits(seconds=7))
    assert patient.document()["record_limits"]["seconds"] == 7
