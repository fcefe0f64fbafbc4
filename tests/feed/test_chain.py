"""Tests a chain of two pipelines, Kafka to Kafka to Postgres, both killed at random: each accepted record once, by value."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest

from simulation.storm import ON_THE_WAY
from support.fakes.registry import a_registry
from support.scenes.drill import ask

INCLUDE = Path(__file__).parent.parent.parent / "include"
COLUMNS = "id string, n int, price decimal(20,4), at timestamp"
CLEAN = """
from lockstep import Avro, Json, Limits, Pipeline, Send, Topic
P = Pipeline(
    name="clean", topic="{source}", format=Json("{columns}", key="id"), max_reject_share=1.0, limits=Limits(records=40),
    target=Send(Topic("{middle}", partitions=3{value}), key=("id",)),
)
"""
COPY = """
from lockstep import Append, Avro, Json, Limits, Pipeline
P = Pipeline(
    name="copy", topic="{middle}", format={format}, limits=Limits(records=60), target=Append("public.copy"),
)
"""
TABLE = """create table if not exists public.copy (id text, n int, price numeric(20,4), at timestamptz,
    _stream int4 not null, _offset int8 not null, _ordinal int4 not null, _batch int8 not null,
    primary key (_stream, _offset, _ordinal));
"""
RUNNER = Path(__file__).parent / "chained.py"
BY_THE_DOOR = ("migrate", "verify")  # all else is done without Spark, which would take most of the time
OF_THE_RELAY = tuple(
    f"relay.{point}"
    for point in ("fenced", "cursor", "intent", "begun", "mid", "flushed", "offsets", "committed", "confirmed")
)
OF_THE_FIRST = (*ON_THE_WAY, "changes.opened", "changes.numbered", *OF_THE_RELAY)
FIRST_STRUCK = 0.7  # of all calls


@dataclass
class Chain:
    """Two pipelines, one behind the other, as processes of the command line."""

    home: Path
    environ: dict[str, str]
    rng: Random
    accepted: Counter = field(default_factory=Counter)
    made: int = 0
    struck: Counter = field(default_factory=Counter)

    def start(self, *arguments: str, points: tuple[str, ...] = ()) -> tuple[subprocess.Popen[str], Path | None]:
        """Starts a command that dies at one of these points, or at none."""
        environ, armed = dict(self.environ), None
        if points and self.rng.random() < FIRST_STRUCK:
            point = self.rng.choice(points)
            armed = self.home / f"{point}-{self.rng.random()}"
            armed.touch()
            environ["LOCKSTEP_FAULT"] = f"{point}=kill@{armed}"
        door = ["-c", "from lockstep.cli.app import main; main()"] if arguments[0] in BY_THE_DOOR else [str(RUNNER)]
        command = [sys.executable, *door, *arguments]
        process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return process, armed

    def end(self, started: tuple[subprocess.Popen[str], Path | None]) -> str:
        """Waits for a command. Only one that was struck may have died."""
        process, armed = started
        out, err = process.communicate(timeout=180)
        if process.returncode == -signal.SIGKILL:
            assert armed is not None, err
            assert not armed.exists()
            self.struck[armed.name.partition("-")[0]] += 1
        else:
            assert process.returncode == 0, f"{process.args!r}: {out}{err}"
        return out

    def call(self, *arguments: str) -> str:
        return self.end(self.start(*arguments))

    def records(self) -> list[tuple[str, str]]:
        """Returns some new records, one in six of them no record. Counts those that will be accepted."""
        made = []
        for _ in range(self.rng.randint(5, 30)):
            self.made += 1
            key = f"k{self.rng.randint(0, 40)}"
            if self.rng.random() < 1 / 6:
                made.append((key, self.rng.choice(["no json", '{"id": "a", "n": "x"}', "[]"])))
                continue
            price = Decimal(self.rng.randint(-(10**15), 10**15)).scaleb(-4)
            at = f"2026-05-01T12:{self.made // 60 % 60:02}:{self.made % 60:02}.{self.rng.randint(0, 999_999):06}Z"
            made.append(
                (key, json.dumps({"id": key, "n": self.made, "price": None, "at": at}).replace("null", str(price)))
            )
            self.accepted[key, self.made, price, at] += 1
        return made


def write(home: Path, name: str, **files: str) -> None:
    folder = home / "pipelines" / name
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / {"init": "__init__.py", "target": "target.sql"}[file]).write_text(text)


def passed_on(database, kafka, topic, produce, tmp_path, value: str, rounds: int) -> Chain:
    """Lets both pipelines die and go on for some rounds, then to the end. Returns the chain, or fails with its seed."""
    source, seed = topic(partitions=2), int.from_bytes(os.urandom(4))
    middle = f"{source}-clean"
    with a_registry() if value == "avro" else nullcontext() as registry:
        said = ', value=Avro(subject="clean-value")' if registry else ""
        read = f'Avro("{COLUMNS}", key="id", subject="clean-value")' if registry else f'Json("{COLUMNS}", key="id")'
        write(tmp_path, "clean", init=CLEAN.format(source=source, middle=middle, columns=COLUMNS, value=said))
        write(tmp_path, "copy", init=COPY.format(middle=middle, format=read), target=TABLE)
        environ = {name: text for name, text in os.environ.items() if not name.startswith("LOCKSTEP_")}
        environ |= {
            "LOCKSTEP_DSN": database,
            "LOCKSTEP_KAFKA": kafka,
            "LOCKSTEP_PIPELINES": str(tmp_path / "pipelines"),
        }
        environ |= {"PYTHONPATH": os.pathsep.join([str(INCLUDE), str(INCLUDE.parent / "tests")])} | (
            {"LOCKSTEP_REGISTRY": registry.url} if registry else {}
        )
        chain = Chain(tmp_path, environ, Random(seed))  # noqa: S311 - spread, not secrecy
        for name in ("clean", "copy"):
            chain.call("migrate", name)
        for _ in range(rounds):
            produce(source, chain.records())
            both = [chain.start("clean", points=OF_THE_FIRST), chain.start("copy", points=ON_THE_WAY)]
            for each in both:
                chain.end(each)
        for name in ("clean", "clean", "copy"):
            assert '"warnings": []' in chain.call(name, "--until-idle")
        there = Counter(
            (id_, n, price, f"{at:%Y-%m-%dT%H:%M:%S.%fZ}")
            for id_, n, price, at in ask(database, "select id, n, price, at at time zone 'UTC' from public.copy")
        )
        assert there == chain.accepted, f"seed {seed}: {there - chain.accepted} too many, {chain.accepted - there} lost"
        for name in ("clean", "copy"):
            assert "every check holds" in chain.call("verify", name, "--deep"), f"seed {seed}"
    return chain


@pytest.mark.long
@pytest.mark.parametrize("value", ["json", "avro"])
@pytest.mark.timeout(900)
def test_each_accepted_record_is_there_once_behind_two_pipelines_that_die(
    database, kafka, topic, produce, tmp_path, value
):
    chain = passed_on(database, kafka, topic, produce, tmp_path, value, rounds=6)
    assert chain.struck.total(), "no process has died"


@pytest.mark.long
@pytest.mark.parametrize("value", ["json", "avro"])
@pytest.mark.timeout(7200)
def test_a_longer_chain_strikes_every_point_of_the_relay(database, kafka, topic, produce, tmp_path, value):
    chain = passed_on(database, kafka, topic, produce, tmp_path, value, rounds=150)
    assert set(OF_THE_RELAY) <= set(chain.struck), chain.struck
