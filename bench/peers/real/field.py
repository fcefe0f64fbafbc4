"""Lists who runs which variant of the second workload, and the parts of a run in their order."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

from peers import field
from peers.quick import tuned
from peers.real.workloads import (
    BAD_RECORDS,
    CLEAN_RECORDS,
    ESCAPED_PAIRS,
    NESTED_TEXT,
    REST,
    TRANSFORMED,
)

if TYPE_CHECKING:
    from peers.contender import Contender
    from peers.workload import Workload

CLEAN, BAD, PAIRS, NESTED, REST_COLUMN, TRANSFORM = "clean", "bad", "pairs", "nested", "rest", "transform"
VARIANTS = (CLEAN, BAD, PAIRS, NESTED, REST_COLUMN, TRANSFORM)
TWO = field.PROCESSES.index(2)
SPARK, PYTHON, COPY = (
    f"Spark {version('pyspark')}, Structured Streaming",
    f"Python, msgspec {version('msgspec')}",
    "Postgres, COPY",
)
VIEW = field.ONCE_WRITTEN
WAYS = (VIEW, field.PER_BATCH, field.ATTACHED, field.PER_PARTITION, field.OUR_UPSERT)  # each into a table of its kind
PLAIN_PYTHON = replace(field.PYTHON_COPY[TWO], engine=PYTHON)
AVAILABLE_NOW = replace(tuned(field.AVAILABLE_NOW), engine=SPARK)
BINARY_COPY = replace(field.KEYED_COPY[0], engine=COPY)
PEERS = (PLAIN_PYTHON, AVAILABLE_NOW)
# The first contender of a variant is ours, whose ratios are asked for. A view stands before one target, never before two.
FIELD: dict[str, tuple[Workload, tuple[Contender, ...]]] = {
    CLEAN: (CLEAN_RECORDS, (*WAYS, *PEERS, BINARY_COPY)),
    BAD: (BAD_RECORDS, (*WAYS, *PEERS)),
    PAIRS: (ESCAPED_PAIRS, (VIEW, *PEERS)),
    NESTED: (NESTED_TEXT, (VIEW,)),
    REST_COLUMN: (REST, (VIEW,)),
    **{
        f"{TRANSFORM}: {name}": (made, (VIEW if len(made.outputs) == 1 else field.PER_BATCH, AVAILABLE_NOW))
        for name, made in TRANSFORMED.items()
    },
}
REMEMBERED = (CLEAN, BAD)  # the variants whose memory is compared
WITH_MEMORY = (VIEW, *PEERS)


def parts(variants: tuple[str, ...] = VARIANTS, words: tuple[str, ...] = ()) -> list[tuple[str, Contender]]:
    """Returns each part with its contenders, for these variants. Words choose contenders by their names."""
    return [
        (part, replace(contender, workload=workload))
        for part, (workload, contenders) in FIELD.items()
        if part.partition(":")[0] in variants
        for contender in contenders
        if not words or any(word in contender.name for word in words)
    ]


def memory_part(part: str) -> str:
    """Returns the name of the part that measures the memory of this one."""
    return f"memory, {part}"
