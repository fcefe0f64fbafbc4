"""Draws acts and faults from a seed, runs each in a process, and checks after every few of them."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulation.deployment import CHANGES, TASKS
from simulation.faults import FAULTS
from simulation.liveness import broken, decide, progress
from simulation.timeline import Timeline, swapped_under

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.child import Outcome
    from simulation.world import World

ON_THE_WAY = (
    "plan.locked",
    "plan.ranges_written",
    "plan.committed",
    "stage.session_up",
    "task.read_mid",
    "task.copy_mid",
    "task.copy_end",
    "task.committed",
    "stage.done",
    "validate.after",
    "commit.locked",
    "commit.fence_ok",
    "commit.counts_ok",
    "commit.published",
    "commit.ledger_written",
    "commit.done_unacknowledged",
    "announce.before",
)
IN_RANGES = (
    "range.before_copy",
    "range.copy_mid",
    "range.published",
    "range.before_commit",
    "range.done_unacknowledged",
)
WRITTEN_ONCE = (
    *ON_THE_WAY[:4],
    "land.cleared",
    *IN_RANGES[:2],
    "land.copied",
    "land.before_commit",
    "land.done_unacknowledged",
    *ON_THE_WAY[8:13],
    "commit.shown",
    *ON_THE_WAY[13:],
)
IN_PARTS = tuple("part.copied" if point == "land.cleared" else point for point in WRITTEN_ONCE)
BY_PARTITION = (*ON_THE_WAY[:4], *IN_RANGES, *ON_THE_WAY[8:12], "commit.closed", *ON_THE_WAY[-2:])
REPLAYS_ONLY = ("replay.old_deleted",)
HOLDING_LOCKS = frozenset(
    point
    for point in ON_THE_WAY
    if point.startswith(("plan.l", "plan.r", "commit.l", "commit.f", "commit.c", "commit.p"))
)
DEPLOYMENTS = 0.05  # of all acts, where they are switched on
SWAPS = 0.05  # of all acts, once after each look, where they are switched on
NEW_PROCESSES = 0.2  # of the acts without a fault. A worker that lives on does the others.
RESTARTS = 0.02  # of all acts, where the server may be restarted
AFTER_THE_COMMIT = frozenset({"commit.done_unacknowledged", "announce.before"})


@dataclass
class Figures:
    """The events: how often each fault struck each act, and which batches were struck on their way.

    The others are known when the storm is over: how many of these batches are committed, and how often a log was cut.
    """

    strikes: Counter[tuple[str, str]] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    struck: set[int] = field(default_factory=set)
    committed: int = 0
    truncations: int = 0
    violations: list[str] = field(default_factory=list)

    def points(self) -> set[str]:
        """Returns the fault points that were reached."""
        return {point for point, _ in self.strikes} - {"server"}


class Storm:
    """A generator of events from one seed, `until` so many committed batches were struck, or the first violation."""

    points = ON_THE_WAY + REPLAYS_ONLY

    def __init__(
        self, world: World, seed: int, points: tuple[str, ...] | None = None, *, superuser: str | None = None
    ) -> None:
        self.points = points or self.points  # type: ignore[assignment]
        self.world = world
        self.rng = random.Random(seed)  # noqa: S311 - a seed that can be told is the point
        self.figures = Figures()
        self.truncations = 1  # of 40 things that happen, where they are switched on
        # The function that swaps the ledger's database, if wanted. Only a superuser may.
        self.timeline = Timeline(superuser, world.dsn) if superuser and "timeline" in FAULTS else None
        self.positions_kept: dict[int, int] = {}

    def rage(self, commits: int, until: float = float("inf"), look_every: int = 60) -> Figures:
        """Rages until so many committed batches were struck, until a moment of the monotonic clock, or a violation."""
        self.world.log.produce(0, 1)
        self.world.run()  # what this process imports and looks up once, no child has to
        self.world.stay()
        rounds = 0
        while len(self.committed_and_struck()) < commits and not self.figures.violations and time.monotonic() < until:
            rounds += 1
            self.something_happens()
            self.somebody_acts()
            if rounds % look_every == 0:
                self.look()
        self.look()
        if self.timeline:
            self.timeline.end()
        self.figures.committed = len(self.committed_and_struck())
        self.figures.truncations = self.world.log.truncations
        return self.figures

    def committed_and_struck(self) -> set[int]:
        return self.figures.struck & self._committed

    def something_happens(self) -> None:
        """Does something to the log, or in time. What was read until now stays remembered."""
        self.world.remember()
        log, rng = self.world.log, self.rng
        partition = rng.randrange(len(log.parts))
        kind = rng.choices(["data", "garbage", "deletion", "committed", "aborted", "open"], [60, 5, 10, 10, 8, 1])[0]
        log.produce(partition, rng.randint(1, 12), kind=kind)
        match rng.randrange(40):
            case 0:
                log.close_transactions(partition)
            case 1:
                self._compaction(partition)
            case 2:
                self._retention(partition, self.world.positions().get(partition, 0) + rng.choice([-10, 0, 3]))
            case 3 if len(log.parts) < 6:
                log.grow(1)
            case 4 if rng.random() < 0.3:
                log.recreate()
            case n if 5 <= n < 5 + self.truncations and {"truncation", "regrowth"} & FAULTS:
                self._truncation(partition)
        if rng.random() < 0.2:
            self.world.leases_run_out()
        if rng.random() < 0.1:
            self.world.factor = rng.randint(1, 9)

    def _compaction(self, partition: int) -> None:
        """Compacts records that are not read yet, in today's ledger and in the copy that a swap would bring back.

        Where the log was cut below the copy's position, no record would be left to detect the cut (docs/traps.md, K31).
        """
        read = max(positions.get(partition, 0) for positions in (self.world.positions(), self.positions_kept))
        self.world.log.compact(partition, read)

    def _retention(self, partition: int, until: int) -> None:
        """Trims the log, but not past a cut that no plan has seen.

        Nothing would be left to detect the cut, and Lockstep only warns there.
        """
        log, part = self.world.log, self.world.log.parts[partition]
        streams = self.world.ask(
            "select stream_id from lockstep.stream where partition = %s and retired_at is null", partition
        )
        is_seen = part.before is None or all(self.world.parts.get(stream, part) is part for (stream,) in streams)
        log.trim(partition, until if is_seen else min(until, part.cut))

    def _truncation(self, partition: int) -> None:
        """Cuts the log below the position and lets it grow again.

        A plan sees the cut on its way (truncation) or does not (regrowth).
        """
        world, part = self.world, self.world.log.parts[partition]
        position = world.positions().get(partition, 0)
        if part.log_start >= position:
            return
        world.remember()
        world.log.truncate(partition, self.rng.randint(part.log_start, position - 1))
        if "regrowth" not in FAULTS or ("truncation" in FAULTS and self.rng.random() < 0.5):
            self._decide(self._without_fault("once", take_over=True))
        world.remember()
        world.log.produce(partition, self.rng.randint(20, 60))
        self.figures.acts["truncation"] += 1

    def somebody_acts(self) -> None:
        act, arguments = self._act()
        self.figures.acts[act] += 1
        if self.timeline and self.timeline.is_kept and self.rng.random() < SWAPS:
            point = self.rng.choice([p for p in self.points if p not in REPLAYS_ONLY])
            found = swapped_under(self.world, self.timeline, point, is_committed=point in AFTER_THE_COMMIT)
            self.figures.violations += [what for what in found if "never reached" not in what]
            self.figures.struck &= self._committed
            self.figures.acts["swap"] += 1
            return
        if self.world.restart and self.rng.random() < RESTARTS:
            self._restarted(act, arguments)
            return
        points = [point for point in self.points if point not in REPLAYS_ONLY]
        if act == "redo":  # the only act that reaches these
            points += [point for point in self.points if point in REPLAYS_ONLY] * 3
        point = self.rng.choice(points)
        kind = self.rng.choices(["kill", "raise", "stop"], [80, 15, 5])[0]
        if kind == "stop" and point in HOLDING_LOCKS and self.rng.random() < 0.8:
            kind = "kill"  # a process stopped there blocks others until Postgres ends its session, after some seconds
        if kind == "stop":
            outcome = self._zombie(act, arguments, point)
        else:
            outcome = self.world.dying(act, *arguments, fault=f"{point}={kind}")
        if outcome.told.pop("reached"):
            self.figures.strikes[point, kind] += 1
            self.figures.struck |= self._under_way()
            if point in AFTER_THE_COMMIT:
                self.figures.struck |= self._newest()
            if self.rng.random() < 0.7:
                self._judge("once", self._without_fault("once", take_over=True))
        self.world.remember()
        self._judge(act, outcome)
        if act == "deployed" and outcome.told.get("committed"):
            self.figures.violations.append(f"another folder was deployed before {arguments}, and it committed")
        self._decide(outcome)

    def look(self) -> None:
        """Pauses the faults, demands progress, and lets the checker compare enough rows."""
        world = self.world
        stuck = progress(world, self._without_fault)
        self._without_fault("abandon")
        self._without_fault("reap")
        least = world.least_rows(len(self.committed_and_struck()))
        found = stuck + world.violations(rest=True, least=least) + world.drained()
        self.figures.violations += found + world.violations(rest=False)
        if self.timeline:
            self.positions_kept = world.positions()
            world.close()
            self.timeline.keep()

    def _act(self) -> tuple[str, tuple]:
        rng, positions = self.rng, self.world.positions()
        act = rng.choices(["run", "replay", "fill", "skip", "preview", "abandon"], [68, 20, 5, 2, 3, 2])[0]
        if "deployment" in FAULTS and rng.random() < DEPLOYMENTS:
            return "deployed", (rng.choice(TASKS), rng.choice(CHANGES))
        if not positions or act == "run":
            return "once", ()
        chosen = rng.sample(sorted(positions), rng.randint(1, len(positions)))
        begin = {p: rng.randint(0, positions[p]) for p in chosen}
        end = {p: begin[p] + rng.randint(1, 60) for p in chosen}
        match act:
            case "replay" | "fill":
                return "redo", (act, begin, end)
            case "skip":
                stable = {p: self.world.log.parts[p].stable_end for p in chosen if p < len(self.world.log.parts)}
                goal = {p: rng.randint(positions[p], max(positions[p], s)) for p, s in stable.items()}
                return ("skip", (goal,)) if goal else ("once", ())
            case "preview":
                return "preview", (begin,)
            case _:
                return "abandon", ()

    def _restarted(self, act: str, arguments: tuple) -> None:
        """Stops Postgres at once somewhere on the act's way, and starts it again."""
        outcome = self.world.interrupted(act, *arguments, after=self.rng.random() * 0.1)
        self.figures.strikes["server", "restart"] += 1
        self.figures.struck |= self._under_way()
        self.world.remember()
        self._judge(act, outcome)

    def _zombie(self, act: str, arguments: tuple, point: str) -> Outcome:
        """Stops a process at the point, lets another overtake it, and then lets it continue."""
        child = self.world.start(act, *arguments, fault=f"{point}=stop")
        if child.stopped():
            self._without_fault("once", take_over=True)
            child.go_on()
        return child.wait()

    def _decide(self, said: Outcome) -> None:
        self.figures.violations += broken(decide(self.world, said, self._without_fault))

    def _without_fault(self, act: str, *arguments: Any, **named: Any) -> Outcome:
        """Acts in a process that lives on, and now and then in a new one."""
        if self.rng.random() < NEW_PROCESSES:
            return self.world.dying(act, *arguments, **named)
        return self.world.living_on(act, *arguments, **named)

    def _judge(self, act: str, outcome: Outcome) -> None:
        """Checks that answers are honest.

        Work that was reported as committed has its commit row. Every failure is a refusal.
        """
        if outcome.kind == "broken" and "InjectedFault" not in outcome.told["error"]:
            self.figures.violations.append(f"{act}: {outcome.told['error']}")
        untrue = set(outcome.told.get("committed") or []) - self._committed
        if untrue:
            self.figures.violations.append(
                f"{act} was told that batches {sorted(untrue)} are committed, and they are not"
            )

    @property
    def _committed(self) -> set[int]:
        return {b for (b,) in self.world.ask("select distinct batch_id from lockstep.commit")}

    def _under_way(self) -> set[int]:
        return {b for (b,) in self.world.ask("select batch_id from lockstep.batch where state = 'planned'")}

    def _newest(self) -> set[int]:
        return {b for (b,) in self.world.ask("select max(batch_id) from lockstep.commit") if b}


def storm(world: Callable[[], World], seed: int, *, commits: int, **how: Any) -> Figures:
    """Lets a storm rage over this world, which is made where the storm is."""
    return Storm(world(), seed, **how).rage(commits=commits)
