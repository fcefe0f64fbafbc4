"""Runs a state machine of users' acts, logs and crashes, in any order, with the checker after every few steps."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from lockstep.core.errors import Refusal
from lockstep.core.pipeline.guarantees import Guarantee, PerBatch
from simulation.liveness import here, progress
from simulation.storm import IN_RANGES, ON_THE_WAY, REPLAYS_ONLY
from simulation.world import World

PER_BATCH = PerBatch()
STEPS_BETWEEN_LOOKS = 6
RECORDS_AT_FIRST = 8  # of each of three partitions. A keyed target has seven keys of each.
LEAST_ROWS = 1  # deletions may leave one key
PARTITION = st.integers(0, 5)
KIND = st.sampled_from(["data", "data", "data", "garbage", "deletion", "committed", "aborted", "open"])
SHARE = st.floats(0, 1)
LANE = st.sampled_from(["replay", "fill"])
POINT = st.sampled_from(ON_THE_WAY + REPLAYS_ONLY + IN_RANGES)


# A log may be in the way of a fill or replay. A definition that refuses each of them would look well by doing nothing.
REQUESTS = ("redo", "preview")
BY_THE_LOG = re.compile(r"log was truncated|log is not the same|below the log's start|nothing was planned")


def refuse_another_refusal(refused: Refusal) -> None:
    """Requires that a fill or a replay was refused by what became of the log, and by nothing else."""
    assert BY_THE_LOG.search(refused.message), refused


class Machine(RuleBasedStateMachine):
    """A state machine in which every rule is one event.

    A refusal is an answer, for a fill or a replay one about the log. Any other exception is our fault.
    """

    kind = "appended"
    guarantee: Guarantee = PER_BATCH
    dsn = ""
    made: type[World] = World

    @initialize()
    def begin(self) -> None:
        self.world = self.made(
            self.dsn, Path(tempfile.mkdtemp()), kind=self.kind, guarantee=self.guarantee, records=25, anew=True
        )
        self.steps = 0
        for partition in range(len(self.world.log.parts)):  # no look is at an empty table
            self.world.log.produce(partition, RECORDS_AT_FIRST)
        self.world.stay()
        self.world.run()
        self._look()

    @rule(partition=PARTITION, n=st.integers(1, 15), kind=KIND)
    def produce(self, partition: int, n: int, kind: str) -> None:
        self.world.log.produce(self._partition(partition), n, kind=kind)

    @rule(partition=PARTITION)
    def transactions_end(self, partition: int) -> None:
        self.world.log.close_transactions(self._partition(partition))

    @rule(partition=PARTITION)
    def compaction(self, partition: int) -> None:
        partition = self._partition(partition)
        self.world.log.compact(partition, self.world.positions().get(partition, 0))

    @rule(partition=PARTITION, beyond=st.integers(-20, 5))
    def retention(self, partition: int, beyond: int) -> None:
        partition = self._partition(partition)
        self.world.log.trim(partition, max(0, self.world.positions().get(partition, 0) + beyond))

    @precondition(lambda self: len(self.world.log.parts) < 5)
    @rule()
    def growth(self) -> None:
        self.world.log.grow(1)

    @rule(share=SHARE, partition=PARTITION)
    def truncation(self, share: float, partition: int) -> None:
        """Cuts the log below the position, while nobody reads.

        A plan sees it before the log grows past the position again (docs/decisions/0011).
        """
        self._try("abandon")
        partition = self._partition(partition)
        position, part = self.world.positions().get(partition, 0), self.world.log.parts[partition]
        if part.log_start < position:
            self.world.log.truncate(partition, max(part.log_start, int(share * (position - 1))))
            assert self.world.once(take_over=True)["decision"] == "Blocked"
            self._try("retire")

    @rule()
    def recreation(self) -> None:
        self.world.remember()
        self.world.log.recreate()

    @rule()
    def time_passes(self) -> None:
        self.world.leases_run_out()

    @rule(factor=st.integers(1, 5))
    def the_code_changes(self, factor: int) -> None:
        self.world.factor = factor

    @rule()
    def run(self) -> None:
        self._try("once", owner="somebody")

    @rule()
    def drain(self) -> None:
        self._try("run", take_over=True)

    @rule(point=POINT)
    def die_running(self, point: str) -> None:
        self._die("once", fault=f"{point}=kill", take_over=True)

    @rule(point=POINT)
    def fail_running(self, point: str) -> None:
        self._die("once", fault=f"{point}=raise", take_over=True)

    @rule(lane=LANE, partition=PARTITION, share=SHARE, span=st.integers(1, 60))
    def redo(self, lane: str, partition: int, share: float, span: int) -> None:
        if bounds := self._bounds(partition, share, span):
            self._try("redo", lane, *bounds, take_over=True)

    @rule(lane=LANE, partition=PARTITION, share=SHARE, span=st.integers(1, 60), point=POINT)
    def die_redoing(self, lane: str, partition: int, share: float, span: int, point: str) -> None:
        if bounds := self._bounds(partition, share, span):
            self._die("redo", lane, *bounds, fault=f"{point}=kill")

    @rule(partition=PARTITION, share=SHARE)
    def preview(self, partition: int, share: float) -> None:
        if bounds := self._bounds(partition, share, 1):
            before = self.world.ask("select * from public.house order by _stream, _offset")
            self._try("preview", bounds[0])
            assert self.world.ask("select * from public.house order by _stream, _offset") == before

    @rule(partition=PARTITION, share=SHARE)
    def skip(self, partition: int, share: float) -> None:
        positions = self.world.positions()
        partition = self._partition(partition)
        if partition in positions:
            end = self.world.log.parts[partition].stable_end
            self._try("skip", {partition: positions[partition] + int(share * max(0, end - positions[partition]))})

    @rule()
    def abandon(self) -> None:
        self._try("abandon")

    @rule()
    def accept_losses(self) -> None:
        self._try("accept_losses")

    @rule()
    def retire(self) -> None:
        self.world.remember()
        self._try("retire")

    @rule()
    def reap(self) -> None:
        self._try("reap")

    @rule()
    def die_reaping(self) -> None:
        self._die("reap", fault="upkeep.merged=kill")

    def teardown(self) -> None:
        if hasattr(self, "world"):
            assert progress(self.world, here(self.world)) == []
            self._look()
            self.world.close()

    def _try(self, act: str, *arguments: Any, **named: Any) -> None:
        try:
            getattr(self.world, act)(*arguments, **named)
        except Refusal as refused:
            if act in REQUESTS:
                refuse_another_refusal(refused)
        self._after()

    def _die(self, act: str, *arguments: Any, **named: Any) -> None:
        outcome = self.world.dying(act, *arguments, **named)
        assert outcome.kind != "broken" or "InjectedFault" in outcome.told["error"], outcome
        self._after()

    def _after(self) -> None:
        self.world.remember()
        self.steps += 1
        if self.steps % STEPS_BETWEEN_LOOKS == 0:
            self._look()

    def _look(self) -> None:
        assert self.world.violations(least=LEAST_ROWS) == []

    def _partition(self, wanted: int) -> int:
        return wanted % len(self.world.log.parts)

    def _bounds(self, partition: int, share: float, span: int) -> tuple[dict[int, int], dict[int, int]] | None:
        positions = self.world.positions()
        partition = self._partition(partition)
        if partition not in positions:
            return None
        begin = int(share * positions[partition])
        return {partition: begin}, {partition: begin + span}


def run(
    database: str,
    *,
    examples: int,
    steps: int,
    kind: str,
    guarantee: Guarantee = PER_BATCH,
    base: type[Machine] = Machine,
) -> None:
    """Runs so many examples of so many steps. The first broken promise fails, with the shortest way to it."""
    machine = type("Machine", (base,), {"kind": kind, "guarantee": guarantee, "dsn": database})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
