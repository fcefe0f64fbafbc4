"""Tests hostile schemas and options: each is a reject's reason or one line, never a crash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.core.errors import BadDefinition
from lockstep.core.kafka_options import kafka_options
from support.inputs import hostile

TESTS = Path(__file__).parents[1]
CHILD = """
import json, sys, time
from support.inputs import hostile
from lockstep.core.pipeline.limits import RecordLimits
from lockstep.formats.avro.writers import parsed
from lockstep.formats.avro.schemas import UnknownSchema
for text in hostile.schemas():
    begun, said = time.process_time(), []
    try:
        writer = parsed(1, text, {}, RecordLimits())
    except UnknownSchema as unknown:
        said.append(str(unknown))
    else:
        for body in (b"", b"\\x00" * 50, b"\\x02" * 5_000, b"\\xff" * 9 + b"\\x01"):
            try:
                writer.read(b"\\x00" * 5 + body)
            except ValueError as error:
                said.append(str(error))
    print(json.dumps([said, time.process_time() - begun]), flush=True)
"""


def test_every_hostile_schema_is_read_or_refused_with_a_reason():
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS.parent / "include"), str(TESTS)])},
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, (done.returncode, hostile.schemas()[len(answers)][:200], done.stderr[-500:])
    assert len(answers) == len(hostile.schemas()) >= 100
    for text, (said, seconds) in zip(hostile.schemas(), answers, strict=True):
        assert all(
            line.startswith(("schema id 1 cannot be read: ", "does not decode by schema id 1: ")) for line in said
        ), text[:99]
        assert seconds < 20, text[:99]
    assert sum(bool(said) for said, _ in answers) > 90


@pytest.mark.parametrize("name", hostile.OPTIONS)
def test_every_hostile_option_is_refused_by_name(name):
    assert len(hostile.OPTIONS) >= 30
    with pytest.raises(BadDefinition) as caught:
        kafka_options({name: hostile.OPTIONS[name]})
    assert "canary" not in str(caught.value)
