"""Does each operation on each kind of target, and compares what the target then holds with one clean pass."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from typing import TYPE_CHECKING, get_args

import pytest

from cli.pairs.kinds import KINDS, PARTITIONS, Record
from cli.pairs.scene import LAST, SECOND, WHY, digest_in, unchanged
from cli.pairs.table import LONG, OPERATIONS, TABLE, TWICE, WORKS, outcome
from lockstep.core.lake.iceberg import Iceberg
from lockstep.core.pipeline.guarantees import Guarantee
from lockstep.core.pipeline.stores import Store
from lockstep.core.pipeline.targets import Target
from support.scenes.command_line import assert_refused
from support.scenes.mirrored import copied_once
from support.scenes.odd_logs import recreate
from support.servers.timelines import copied

if TYPE_CHECKING:
    from cli.pairs.scene import Pair

LATER = (*SECOND, *LAST)
each_kind = pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.long if kind in LONG else ()) for kind in KINDS]
)
RESTART = re.compile(r"lockstep (relay drill --target \S+ --restart-at \d+ --reason) WHY")


def refused(made: Pair, operation: str, kind: str, *arguments: str) -> bool:
    """Returns True if the cell is a refusal, after the command was refused so and has changed nothing."""
    if (words := outcome(kind, operation)) in {WORKS, TWICE}:
        return False
    before = made.in_database()
    assert_refused(made.lockstep(*arguments), words, "Next: ")
    assert made.in_database() == before
    made.assert_verified()
    return True


@each_kind
def test_restored(pair, postgres, kind):
    made = pair(kind)
    made.drain()
    with copied(postgres, made.dsn) as survivor:
        later = made.put(*LATER)
        made.drain()
        made.dsn = survivor
        made.lockstep.environ(LOCKSTEP_DSN=survivor)
        if refused(made, "restored", kind, "restored", "drill", *WHY):
            return

        done = made.say("restored", "drill", *WHY)
        for command in RESTART.findall(done.out):
            made.say(*shlex.split(command), "restored")
        made.drain()

        if outcome(kind, "restored") != TWICE:
            made.assert_whole()
            return
        assert made.rows() == made.expected([*made.sent, *later])
        if made.kind.at == "warehouse":
            assert "which does not own it" in made.lockstep("verify", "drill", "--deep").out
            made.say("replay", "drill", "--from", "0:0,1:0", *WHY)
            made.assert_whole()
        made.assert_verified()


@each_kind
def test_erase(pair, kind):
    made = pair(kind)
    made.drain()
    erase = ("erase", "drill", "--key", "a", "--column", "id", *WHY)
    if refused(made, "erase", kind, *erase):
        return

    made.say(*erase)
    before = made.sent.copy()
    later = made.put(*LATER)
    made.drain()
    whole = [*(each for each in before if each.key != "a"), *later]
    made.assert_whole(whole)
    made.say("replay", "drill", "--from", "0:0,1:0", *WHY)
    made.assert_whole(whole)


@each_kind
def test_move(pair, topic, kafka, kind):
    made, copy = pair(kind), topic(partitions=PARTITIONS)
    made.drain()
    copied_once(kafka, made.topic, copy, PARTITIONS)
    move = ("move", "drill", "--to-topic", copy)
    if refused(made, "move", kind, *move):
        return

    made.say(*move, "--apply", digest_in(made.say(*move).out), *WHY)
    made.topic = copy
    made.define()
    made.put(*LATER)
    made.drain()
    made.assert_whole()


@each_kind
def test_retire(pair, kafka, kind):
    made = pair(kind)
    made.drain()
    recreate(kafka, made.topic, PARTITIONS)
    if refused(made, "retire", kind, "retire", "drill", *WHY):
        return

    made.say("retire", "drill", *WHY)
    made.put(*LATER)
    made.drain()
    made.assert_whole()


def other(value: dict) -> dict | None:
    """Returns other values of a record, and none of another record."""
    return None if value["n"] == 4 else value | {"n": 33 if value["n"] == 3 else value["n"]}


@each_kind
def test_canary(pair, monkeypatch, kind):
    made = pair(kind)
    made.drain()

    def engine_for(folder, at, _registry):
        return made.engine(folder, at, other if folder.transform_file.name == "new.py" else unchanged)

    monkeypatch.setattr("lockstep.dev.canary.local_engine", engine_for)
    (made.lockstep.home / "new.py").write_text("def transform(records):\n    return records\n")
    canary = ("canary", "drill", "--transform", "new.py")
    if refused(made, "canary", kind, *canary):
        return

    before = made.in_database()
    found = list(made.say(*canary, "--json").document["targets"].values())
    counts = {name: sum(each[name] for each in found) for name in ("same", "changed", "only_live", "only_canary")}
    its = made.expected(map(_under_other, [each for each in made.sent if each.n != 4]))
    same = sum((Counter(made.expected()) & Counter(its)).values())
    assert counts == {"same": same, "changed": len(found), "only_live": len(found), "only_canary": 0}
    assert made.in_database() == before


def _under_other(record: Record) -> Record:
    return Record(record.key, 33) if record.n == 3 else record


def refusing(value: dict) -> dict:
    """Refuses two records: a newer one of the first key, and one of a key that is deleted later."""
    if value["n"] in {4, 5}:
        raise ValueError("not today")
    return value


@each_kind
def test_redrive(pair, kind):
    made = pair(kind)
    made.code = refusing
    made.drain()
    made.put(*LATER)
    made.code = unchanged
    made.drain()
    passed = [each for each in made.sent if each.n not in {4, 5}]
    assert made.rows() == made.expected(passed)
    redrive = ("rejects", "drill", "--redrive", *WHY)
    if refused(made, "redrive", kind, *redrive):
        return

    done = made.say(*redrive)
    assert "rejects: 2 of 2 cleared, 0 left" in done.out
    made.drain()  # sends what a topic has not
    made.assert_whole()


def test_each_kind_of_target_guarantee_and_store_has_a_line_of_the_table():
    assert set(TABLE) == set(KINDS)
    assert {len(outcomes) for outcomes in TABLE.values()} == {len(OPERATIONS)}
    text = " ".join(f"{kind.target} {kind.more}" for kind in KINDS.values())
    known = [*get_args(Target), *get_args(Guarantee), *get_args(Store), *_below(get_args(Target)), Iceberg]
    missing = {each.__name__ for each in known if f"{each.__name__}(" not in text}
    assert missing == {"PerBatch", "Catalog"}, "the default, and a store that is written as catalog="


def _below(kinds: tuple[type, ...]) -> list[type]:
    return [below for kind in kinds for below in (*kind.__subclasses__(), *_below(tuple(kind.__subclasses__())))]
