"""Makes JSON over which two parsers may differ, and JSON that fits its schema."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

COLUMNS = {
    "id": "string",
    "small": "smallint",
    "n": "int",
    "big": "bigint",
    "share": "double",
    "part": "float",
    "yes": "boolean",
    "amount": "decimal(12,2)",
    "wide": "decimal(30,8)",
    "day": "date",
    "at": "timestamp",
}
NAMES = [*COLUMNS]

_READ = json.loads(Path(__file__).with_suffix(".json").read_text())
STRINGS, MOMENTS = _READ["strings"], _READ["moments"]
NUMBERS = [*_READ["numbers"], "1" + "0" * 400, "0." + "0" * 400 + "1"]
OTHER = [*_READ["other"], "[" * 400 + "]" * 400]
NASTY = [  # in the file each letter is a byte
    None,
    *(record.encode("latin-1") for record in _READ["records"]),
    b'{"z":' + b"[" * 2000 + b"]" * 2000 + b"}",
    b'{"z":' + b'{"a":' * 500 + b"1" + b"}" * 501,
    b'{"z":1' + b"0" * 1200 + b"}",
    b'{"z":0.' + b"01" * 700 + b"e5}",
    b'{"' + b"n" * 60_000 + b'":1}',
    b'{"id":"' + b"long" * 500 + b'"}',
]

EACH = [f'{{"{name}":{value}}}'.encode() for name in NAMES for value in NUMBERS + OTHER]
EACH += [f'{{"{name}":"{text}"}}'.encode() for name in NAMES for text in STRINGS + MOMENTS + NUMBERS]

strings = st.one_of(
    st.sampled_from(STRINGS + MOMENTS + NUMBERS), st.text(max_size=8).map(lambda text: text.replace('"', ""))
)
decimals = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**11), max_value=10**11).map(str)
numbers = st.one_of(st.sampled_from(NUMBERS), st.integers().map(str), st.floats(allow_nan=False).map(repr), decimals)
written = st.one_of(strings.map('"{}"'.format), numbers, st.sampled_from(OTHER))
names = st.one_of(st.sampled_from(NAMES), st.sampled_from(["z", "ID", "\\u0069d", "", "_corrupt", "n ", "日"]))
spaces = st.sampled_from(["", "", "", " ", "\n", "\t ", "\r"])
objects = st.lists(st.tuples(names, written, spaces), max_size=4, unique_by=lambda f: f[0] + f[2]).map(
    lambda fields: "{" + ",".join(f'{gap}"{name}":{gap}{value}' for name, value, gap in fields) + "}"
)
likely = {
    "string": st.text(max_size=8)
    .filter(lambda text: text.isprintable() and not set('"\\') & set(text))
    .map('"{}"'.format),
    "smallint": st.integers(-(2**15), 2**15 - 1).map(str),
    "int": st.integers(-(2**31), 2**31 - 1).map(str),
    "bigint": st.integers(-(2**63), 2**63 - 1).map(str),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(lambda x: repr(x + 0.0)),
    "float": st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda x: repr(x + 0.0)),
    "boolean": st.sampled_from(["true", "false", "null"]),
    "decimal(12,2)": st.integers(-(10**12) + 1, 10**12 - 1).map(lambda n: f'"{n / 100:.2f}"'),
    "decimal(30,8)": st.decimals(-(10**22) + 1, 10**22 - 1, places=8).map(str),
    "date": st.dates().map('"{}"'.format),
    "timestamp": st.datetimes().map(lambda at: f'"{at.isoformat()}Z"'),
}
good = st.fixed_dictionaries({}, optional={name: likely[type_] for name, type_ in COLUMNS.items()}).map(
    lambda fields: "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}"
)


def bent(text: str, at: int, put: bytes, instead_of: int) -> bytes:
    record = text.encode(errors="replace")
    return record[:at] + put + record[at + instead_of :]


broken = st.builds(bent, st.one_of(objects, good), st.integers(0, 200), st.binary(max_size=2), st.integers(0, 2))
values = st.one_of(
    st.sampled_from(NASTY),
    good.map(str.encode),
    objects.map(partial(str.encode, errors="replace")),
    broken,
)


def gathered(strategy, number: int) -> list:
    """Returns many examples of each Hypothesis strategy, for one comparison of all. Spark is then asked only once."""
    found: list = []

    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(strategy, min_size=5, max_size=5, unique=True))
    def gather(examples: list) -> None:
        found.extend(examples)

    gather()
    return found
