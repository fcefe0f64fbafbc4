"""Lists every contender by its name in the table, and the sessions that they run in."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from peers.available_now import BY_COPY, AvailableNow
from peers.contender import APPEND, BARE, KEYED_LIMIT, LIMIT, OURS, PEER, UNKEYED, UPSERT, Contender, cores
from peers.flink import Flink
from peers.kafka_connect import KafkaConnect
from peers.limits import BareConsume, BareCopy
from peers.ours import Ours
from peers.plain import Plain
from peers.python_copy import PythonCopy
from peers.records import AT_LEAST_ONCE, BY_BATCH, VIEWED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from peers.contender import Options, Session

WARM, SERVER, STREAMING, PLAIN, COPY, CONSUME = "lockstep", "lockstep server", "streaming", "plain", "copy", "consume"
CONNECT, FLINK = "Kafka Connect", "Flink"
PROCESSES = tuple(sorted({1, 2, 4, cores()}))
PYTHON_COPIES = {number: f"Python copies by {number}" for number in PROCESSES}

SOME_CORES = tuple(number for number in (1, 2, 4, 8) if number <= cores())
SESSIONS: Mapping[str, Callable[[], Session]] = {
    WARM: Ours,
    SERVER: partial(Ours, by_server=True),
    STREAMING: AvailableNow,
    CONNECT: KafkaConnect,
    FLINK: Flink,
    PLAIN: Plain,
    COPY: BareCopy,
    CONSUME: BareConsume,
    **{name: partial(PythonCopy, number) for number, name in PYTHON_COPIES.items()},
    **{f"{WARM} local[{k}]": partial(Ours, master=f"local[{k}]") for k in SOME_CORES},
    **{f"{STREAMING} local[{k}]": partial(AvailableNow, master=f"local[{k}]") for k in SOME_CORES},
}
# Which jars a session cannot do without.
NEEDS = {STREAMING: "spark", CONNECT: "connect", FLINK: "flink"}
# Sessions without a JVM: they are as fast in their first run as in their last.
NO_JVM = frozenset({PLAIN, COPY, CONSUME, *PYTHON_COPIES.values()})
# Peers that are a program of an engineer's own, and not a product.
HAND_WRITTEN = frozenset({PLAIN, *PYTHON_COPIES.values()})

ONCE, LEAST, MOST = "each record once", "at least once", "at most once"
WITH_OFFSETS, REPEATED = "effect once, with the offsets", "effect once, by repeating"
BATCH, PARTITION = (("guarantee", "PerBatch"),), (("guarantee", "PerPartition"),)
JDBC: tuple[Options, ...] = tuple(
    (("batchsize", size), ("numPartitions", str(parts))) for size, parts in (("1000", cores()), ("10000", cores()))
)
BATCHES: tuple[Options, ...] = tuple((("batch.size", size),) for size in ("500", "3000"))
TASKS: tuple[Options, ...] = tuple((BY_COPY, ("tasks", str(tasks))) for tasks in sorted({cores(), 2 * cores()}))
ROWS: tuple[Options, ...] = ((("rows", "50000"),),)  # a commit costs nothing beside so many
BUFFERS: tuple[Options, ...] = tuple((("max-rows", rows),) for rows in ("1000", "5000", "20000"))


def _counted(number: int) -> str:
    return f"{number} process{'es' * (number > 1)}"


PER_BATCH = Contender("Lockstep PerBatch", OURS, WARM, APPEND, ONCE, (BATCH,), makes_table=True)
ATTACHED = Contender(
    "Lockstep PerBatch, table by batch",
    OURS,
    WARM,
    APPEND,
    ONCE,
    ((*BATCH, BY_BATCH),),
    makes_table=True,
    has_runs=False,
)
ONCE_WRITTEN = Contender(
    "Lockstep PerBatch, behind a view",
    OURS,
    WARM,
    APPEND,
    ONCE,
    ((*BATCH, VIEWED),),
    makes_table=True,
    has_runs=False,
)
PER_PARTITION = Contender("Lockstep PerPartition", OURS, WARM, APPEND, ONCE, (PARTITION,), makes_table=True)
OUR_UPSERT = Contender("Lockstep PerBatch, upsert", OURS, WARM, UPSERT, WITH_OFFSETS, (BATCH,), makes_table=True)
OUR_UPSERT_BY_PARTITION = Contender(
    "Lockstep PerPartition, upsert",
    OURS,
    WARM,
    UPSERT,
    WITH_OFFSETS,
    (PARTITION,),
    makes_table=True,
    has_runs=False,
)
BY_SERVER = Contender("Lockstep PerBatch, Connect server", OURS, SERVER, APPEND, ONCE, (BATCH,), makes_table=True)
AVAILABLE_NOW = Contender("AvailableNow, JDBC", PEER, STREAMING, APPEND, LEAST, JDBC)
FLINK_APPEND = Contender("Flink SQL, JDBC", PEER, FLINK, APPEND, LEAST, BUFFERS, resumes=False)
AVAILABLE_NOW_UPSERT = Contender("AvailableNow, JDBC and on conflict", PEER, STREAMING, UPSERT, REPEATED, JDBC)
PYTHON_COPY = tuple(
    Contender(
        f"Python, msgspec and COPY, {_counted(number)}", PEER, session, APPEND, ONCE, ROWS, has_runs=number == cores()
    )
    for number, session in PYTHON_COPIES.items()
)
PYTHON_COPY_UPSERT = tuple(
    Contender(f"Python, msgspec, COPY and on conflict, {_counted(number)}", PEER, session, UPSERT, WITH_OFFSETS, ROWS)
    for number, session in PYTHON_COPIES.items()
)
ALL_CORES = PROCESSES.index(cores())
BINARY_4 = Contender(
    "COPY binary, 4 connections", BARE, COPY, LIMIT, "", ((("format", "binary"), ("connections", "4")),)
)
KEYED_COPY = tuple(
    Contender(
        f"COPY binary into the same table, {number} connections",
        BARE,
        COPY,
        KEYED_LIMIT,
        "",
        ((("format", "binary"), ("connections", str(number))),),
    )
    for number in (2, 4)
)
CONTENDERS = (
    PER_BATCH,
    ATTACHED,
    ONCE_WRITTEN,
    PER_PARTITION,
    BY_SERVER,
    Contender(
        "Lockstep PerPartition, Connect server",
        OURS,
        SERVER,
        APPEND,
        ONCE,
        (PARTITION,),
        makes_table=True,
        has_runs=False,
    ),
    *(
        Contender(
            f"Lockstep {name}", OURS, WARM, APPEND, promise, ((("guarantee", name),),), makes_table=True, has_runs=False
        )
        for name, promise in (("Idempotent", REPEATED), (AT_LEAST_ONCE[1], LEAST), ("AtMostOnce", MOST))
    ),
    AVAILABLE_NOW,
    Contender("AvailableNow, JDBC, bare table", PEER, STREAMING, UNKEYED, LEAST, JDBC, has_runs=False),
    Contender("Kafka Connect, Debezium insert", PEER, CONNECT, APPEND, LEAST, BATCHES, resumes=False),
    FLINK_APPEND,
    Contender("Flink SQL, JDBC, bare table", PEER, FLINK, UNKEYED, LEAST, BUFFERS, resumes=False, has_runs=False),
    Contender("AvailableNow, COPY by foreachPartition", PEER, STREAMING, APPEND, LEAST, TASKS, has_runs=False),
    Contender("Python, execute_values", PEER, PLAIN, APPEND, LEAST, at_most=1_000_000),
    *PYTHON_COPY,
    OUR_UPSERT,
    OUR_UPSERT_BY_PARTITION,
    Contender(
        "Lockstep PerBatch, upsert, Connect server", OURS, SERVER, UPSERT, WITH_OFFSETS, (BATCH,), makes_table=True
    ),
    AVAILABLE_NOW_UPSERT,
    Contender("AvailableNow, COPY and on conflict", PEER, STREAMING, UPSERT, REPEATED, TASKS),
    *PYTHON_COPY_UPSERT,
    Contender("Kafka Connect, Debezium upsert", PEER, CONNECT, UPSERT, REPEATED, BATCHES, resumes=False),
    Contender("Flink SQL, JDBC upsert", PEER, FLINK, UPSERT, REPEATED, BUFFERS, resumes=False),
    *(
        Contender(f"COPY {form}, {many}", BARE, COPY, LIMIT, "", ((("format", form), ("connections", many[0])),))
        for form in ("text", "binary")
        for many in ("1 connection", "4 connections")
    ),
    *KEYED_COPY,
    Contender("bare consume", BARE, CONSUME, LIMIT, "", checked=False),
    Contender("Spark reads, no sink", BARE, STREAMING, LIMIT, "", checked=False),
)


def on_cores(number: int) -> tuple[Contender, ...]:
    """Returns the contenders that are measured on several numbers of cores.

    Their sessions run so many tasks side by side.
    """
    return tuple(
        replace(each, session=f"{each.session} local[{number}]")
        for each in (PER_BATCH, ONCE_WRITTEN, PER_PARTITION, AVAILABLE_NOW)
    )
