"""Tests lines of a file as records: byte for byte, and checked before the first is sent."""

from __future__ import annotations

import io
import os
import sys
from threading import Thread
from types import SimpleNamespace

import pytest

from lockstep.core.errors import Refusal
from lockstep.dev.records import lines
from lockstep.dev.records.sending import MESSAGE_BYTES


def records(file, key=None):
    with lines.open_lines(str(file), key, lambda _count: None) as found:
        return found.count, list(found.records())


@pytest.fixture
def file(tmp_path):
    """Returns `file(content)`, which makes a file with these bytes."""

    def make(content: bytes):
        place = tmp_path / "sample.jsonl"
        place.write_bytes(content)
        return place

    return make


def test_a_line_is_a_value_byte_for_byte(file):
    content = b' {"a": 1.50}\r\n\n\xff\x00no text\n\xe2\x80\xa8\x0b\x0cone line\nthe last'
    values = [b' {"a": 1.50}\r', b"", b"\xff\x00no text", b"\xe2\x80\xa8\x0b\x0cone line", b"the last"]
    assert records(file(content)) == (5, [(None, value) for value in values])


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ('"r-1"', b"r-1"),
        ('""', b""),
        ('"Z\\u00fcrich"', "Zürich".encode()),
        ("17", b"17"),
        ("-0", b"-0"),
        ("1.50", b"1.50"),
        ("1e400", b"1e400"),
        ("9" * 5_000, b"9" * 5_000),
        ("true", b"true"),
        ("false", b"false"),
    ],
    ids=lambda case: str(case)[:12],
)
def test_a_key_is_the_columns_value_as_it_is_written(file, value, key):
    line = f'{{"id": {value}, "n": 1}}'
    assert records(file(line.encode() + b"\n"), "id") == (1, [(key, line.encode())])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"nonsense", "no JSON object"),
        (b"", "no JSON object"),
        (b"[1]", "no JSON object"),
        (b'"id"', "no JSON object"),
        (b'{"id": NaN}', "no JSON object"),
        (b'{"id": "a"} {"id": "b"}', "no JSON object"),
        (b'{"id": "\xff"}', "no JSON object"),
        (b"\xef\xbb\xbf" + b'{"id": "a"}', "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
        (b'{"nr": 1, "n": 2}', "column 'id' is missing or null; there are: 'nr', 'n'"),
        (b"{}", "column 'id' is missing or null; there are: none"),
        (b'{"id": null}', "column 'id' is missing or null"),
        (b'{"id": [1]}', "column 'id' is an array"),
        (b'{"id": {"a": 1}}', "column 'id' is an object"),
        (b'{"id": "\\ud800"}', "column 'id' is no text that UTF-8 can hold"),
    ],
    ids=lambda case: str(case)[:24],
)
def test_a_line_without_its_key_is_refused_by_its_number_before_any_record_is_given(file, line, words):
    content = b'{"id": "first"}\n' + line + b'\n{"id": "last"}\n'
    with pytest.raises(Refusal) as caught, lines.open_lines(str(file(content)), "id", lambda _count: None):
        pytest.fail("it was opened")
    assert f"sample.jsonl:2: {words}" in caught.value.message
    assert caught.value.message.endswith("nothing was sent")
    assert "\n" not in str(caught.value)


def test_the_same_lines_are_records_without_a_key(file):
    assert records(file(b"nonsense\n[1]\n"))[0] == 2


def test_a_line_that_no_record_can_hold_is_refused_by_its_number(file):
    assert records(file(b"x" * MESSAGE_BYTES + b"\n"))[0] == 1
    with pytest.raises(Refusal, match=rf":2: {MESSAGE_BYTES + 1} bytes, and one record holds {MESSAGE_BYTES} at most"):
        records(file(b"ok\n" + b"x" * (MESSAGE_BYTES + 1) + b"\n"))


@pytest.mark.parametrize(
    ("name", "words"),
    [("nowhere.jsonl", "No such file"), (".", "Is a directory"), ("empty", "it holds no line")],
)
def test_what_is_no_file_of_lines_is_refused(tmp_path, monkeypatch, name, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").touch()
    with pytest.raises(Refusal, match=f"^{name}: .*{words}.*; nothing was sent  Next: "):
        records(name)


def test_a_pipe_is_looked_at_first_too(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_bytes, args=(b'{"id": 1}\n{"id": 2}\n',), daemon=True)
    writer.start()
    assert records(pipe, "id") == (2, [(b"1", b'{"id": 1}'), (b"2", b'{"id": 2}')])
    writer.join()


def test_a_dash_is_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'{"id": 1}\nno\n')))
    assert records("-") == (2, [(None, b'{"id": 1}'), (None, b"no")])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b'{"id": 1}\nno\n')))
    with pytest.raises(Refusal, match=r"^standard input:2: no JSON object"):
        records("-", "id")


def test_lines_that_come_while_it_is_sent_are_left_out_and_changed_ones_are_named(file):
    place = file(b'{"id": 1}\n' * 10_000)  # more than one buffer
    with lines.open_lines(str(place), "id", lambda _count: None) as found:
        with place.open("ab") as more:
            more.write(b"added later\n")
        assert list(found.records()) == [(b"1", b'{"id": 1}')] * 10_000
        place.write_bytes(b"nonsense\n")
        with pytest.raises(Refusal, match=r":1: it changed while it was sent"):
            list(found.records())


def test_progress_is_told_for_long_files(file):
    told = []
    with lines.open_lines(str(file((b"x" * 99_999 + b"\n") * 25)), None, told.append) as found:
        assert found.count == 25
    assert sum(told) >= 2 * lines.LOOK_BYTES
