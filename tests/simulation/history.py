"""Runs several processes at once, logs each operation with its outcome, and checks the log afterwards."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simulation.storm import ON_THE_WAY

if TYPE_CHECKING:
    from simulation.child import Child, Outcome
    from simulation.world import World

STRIKES = ("kill", "stop", "raise")
ENOUGH_DEAD = 4


@dataclass(frozen=True)
class Operation:
    """An operation of a process, and its outcome: `ok`, `fail`, or `unknown` if nothing could report it."""

    number: int
    act: str
    outcome: str
    told: dict


@dataclass
class History:
    """A generator of operations from a seed, which keeps `width` of them under way.

    Some die. Some are stopped, and continue later.
    """

    world: World
    seed: int
    width: int
    log: list[Operation] = field(default_factory=list)
    zombies: list[tuple[int, str, Child]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311 - a seed that can be told is the point
        self.begun = 0

    def play(self, rounds: int) -> list[str]:
        """Plays so many rounds, and more until some processes have died. Returns the violations."""
        running: list[tuple[int, str, Child]] = []
        try:
            for played in range(5 * rounds):
                if played >= rounds and self.died >= ENOUGH_DEAD:
                    break
                self._log_grows()
                running += [self._begin() for _ in range(self.width - len(running) - len(self.zombies))]
                running = self._proceed(running)
            for number, act, child in self.zombies:
                child.go_on()
                running.append((number, act, child))
            self.zombies = []
            for number, act, child in running:
                if child.stopped():  # one that came to its point only now
                    child.go_on()
                self._note(number, act, child.wait())
            return self._judge()
        finally:
            for _, _, child in running + self.zombies:
                child.kill()

    @property
    def died(self) -> int:
        return sum(operation.outcome == "unknown" for operation in self.log)

    def _log_grows(self) -> None:
        kinds = ["data", "garbage", "deletion", "committed", "aborted"]
        for partition in range(len(self.world.log.parts)):
            self.world.log.produce(partition, self.random.randint(1, 12), kind=self.random.choice(kinds))
        self.world.factor = self.random.randint(1, 9)
        if self.random.random() < 0.4:
            self.world.leases_run_out()

    def _begin(self) -> tuple[int, str, Child]:
        self.begun += 1
        act = self.random.choices(["run", "once", "replay", "fill", "skip", "reap"], [30, 25, 25, 10, 4, 6])[0]
        fault = None
        if self.random.random() < 0.5:
            fault = f"{self.random.choice(ON_THE_WAY)}={self.random.choice(STRIKES)}"
        how = {"take_over": True} if self.random.random() < 0.3 else {}
        positions = self.world.positions()
        if not positions or act in {"run", "once"}:
            return self.begun, act, self.world.start("once" if not positions else act, fault=fault, **how)
        if act == "reap":
            return self.begun, act, self.world.start("reap", fault=fault)
        if act == "skip":
            goal = {p: self.random.randint(at, self.world.log.parts[p].stable_end) for p, at in positions.items()}
            return self.begun, act, self.world.start("skip", goal, fault=fault)
        chosen = self.random.sample(sorted(positions), self.random.randint(1, len(positions)))
        begin = {p: self.random.randint(0, positions[p]) for p in chosen}
        end = {p: begin[p] + self.random.randint(1, 60) for p in chosen}
        return self.begun, act, self.world.start("redo", act, begin, end, fault=fault, **how)

    def _proceed(self, running: list[tuple[int, str, Child]]) -> list[tuple[int, str, Child]]:
        """Sets a stopped process aside for a while, lets one continue that was aside long enough, and waits for one."""
        going = []
        for number, act, child in running:
            (self.zombies if child.stands() else going).append((number, act, child))
        if len(self.zombies) > self.width // 2:
            number, act, child = self.zombies.pop(self.random.randrange(len(self.zombies)))
            child.go_on()
            going.append((number, act, child))
        for _ in range(min(2, len(going))):
            number, act, child = going.pop(0)
            if child.stopped():
                self.zombies.append((number, act, child))
            else:
                self._note(number, act, child.wait())
        return going

    def _note(self, number: int, act: str, outcome: Outcome) -> None:
        struck = outcome.kind == "killed" or "InjectedFault" in outcome.told.get("error", "")
        unknown = "unknown" if struck else "broken"
        said = {"ok": "ok", "refused": "fail"}.get(outcome.kind, unknown)
        self.log.append(Operation(number, act, said, outcome.told))

    def _judge(self) -> list[str]:
        """Compares the outcomes with the ledger.

        An operation told committed has a commit row. The attempt of one told failed has none. The checker must also
        find nothing.
        """
        world = self.world
        found = [f"{operation}" for operation in self.log if operation.outcome == "broken"]
        known = {batch for (batch,) in world.ask("select distinct batch_id from lockstep.commit")}
        for operation in self.log:
            untrue = set(operation.told.get("committed") or ()) - known
            found += [f"{operation}: {sorted(untrue)} have no commit row"] if untrue else []
        found += [
            f"attempt {token} of batch {batch} was told {state} and has a commit row"
            for batch, token, state in world.ask(
                "select distinct batch_id, token, a.state from lockstep.attempt a "
                "join lockstep.commit c using (batch_id, token) where a.state <> 'committed'"
            )
        ]
        found += [
            f"attempt {token} of batch {batch} is committed and has no commit row"
            for batch, token in world.ask(
                "select a.batch_id, a.token from lockstep.attempt a left join lockstep.commit c using (batch_id, token) "
                "where a.state = 'committed' and c.token is null"
            )
        ]
        world.leases_run_out()
        world.dying("run", take_over=True)
        world.dying("abandon")
        world.dying("reap")
        return found + world.violations(rest=True) + world.drained()
