"""Runs every contender once in each round, on the same topic, so that drift of the machine hits all of them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from peers import records
from peers.contender import OURS, Task
from peers.field import NO_JVM, SESSIONS
from peers.found import SIZES, Found, Run, WarmUp, median
from peers.orders import ORDERS
from peers.telling import say
from peers.worker import Failed, Worker

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from peers.contender import Contender, Options, Place
    from peers.workload import Workload

FEWEST = 1_000  # behind a run of so many, another one finds nothing new
TUNING, WARMING = "tuning", "warming"
LEAST_WARM_UPS, MOST_WARM_UPS = 4, 8  # two of the first runs may differ by little while a JVM still compiles
WARM = 0.05  # two runs that differ by less show a JVM that compiles no more


@dataclass(slots=True)
class Ring:
    """The contenders' sessions, started when first needed and ended with the block.

    A contender that fails is out, and reported.
    """

    place: Place
    found: Found
    _workers: dict[str, Worker] = field(default_factory=dict)
    _topics: set[str] = field(default_factory=set)
    _best: dict[str, Options] = field(default_factory=dict)
    _tables: int = 0

    def topic(self, number: int, partitions: int, workload: Workload = ORDERS) -> str:
        """Returns a topic of so many records, produced when first requested."""
        name = f"bench_{workload.topic}_{number}_{partitions}"
        if name not in self._topics:
            say(f"producing {number:,} records ({workload.topic}) into {partitions} partitions")
            records.produce(self.place, workload, name, number, partitions)
            self._topics.add(name)
        return name

    def warm(
        self, contenders: Iterable[Contender], number: int, partitions: int, most: int = MOST_WARM_UPS, *, at: int
    ) -> None:
        """Runs each at this size, four times or more, until the last two differ by less than 5 %. Once without a JVM."""
        for contender in contenders:
            is_jvm, seconds = contender.session not in NO_JVM, list[float]()
            bound = most if is_jvm else 1
            while len(seconds) < bound and (len(seconds) < LEAST_WARM_UPS or not is_steady(seconds)):
                runs = self._turn(WARMING, contender, number, partitions, 0, at)
                if not runs:
                    break
                self.found.tries += runs
                seconds.append(runs[0].seconds)
            if is_jvm and seconds:
                self.found.warm_ups.append(WarmUp(contender.name, at, tuple(seconds), is_steady(seconds)))

    def tune(self, contenders: Iterable[Contender], number: int, partitions: int) -> None:
        """Finds each peer's fastest tuning: tries each of its tunings twice, forth and back."""
        for contender in contenders:
            seconds: dict[Options, list[float]] = {}
            is_known = len(contender.tunings) == 1 or contender.name in self._best
            for options in () if is_known else (*contender.tunings, *reversed(contender.tunings)):
                self._best[contender.name] = options
                for run in self._turn(TUNING, contender, number, partitions, 0, number):
                    self.found.tries.append(run)
                    seconds.setdefault(options, []).append(run.seconds)
            if seconds:
                self._best[contender.name] = min(seconds, key=lambda options: median(seconds[options]) or 0.0)
                self.found.tuned[contender.name] = _told(self._best[contender.name], seconds)

    def rounds(
        self, part: str, contenders: Iterable[Contender], number: int, partitions: int, rounds: int, *, at: int
    ) -> None:
        """Runs so many rounds, each in the opposite order of the one before."""
        self.rounds_of_parts([(part, contender) for contender in contenders], number, partitions, rounds, at=at)

    def rounds_of_parts(
        self, order: Sequence[tuple[str, Contender]], number: int, partitions: int, rounds: int, *, at: int
    ) -> None:
        """Runs so many rounds over several parts, so that a ratio of two parts is one of the same rounds."""
        for turn in range(1, rounds + 1):
            for part, contender in order if turn % 2 else reversed(order):
                self.found.runs += self._turn(part, contender, number, partitions, turn, at)

    def memory(self, part: str, contender: Contender, number: int, partitions: int, runs: int) -> None:
        """Measures the memory of so many runs of a session that has done nothing before. The session then ends."""
        self.end(contender.session)
        for turn in range(1, runs + 1):
            self.found.runs += self._turn(part, contender, number, partitions, turn, number, by_pss=True)
        self.end(contender.session)

    def end(self, session: str = "") -> None:
        """Ends one session, or all."""
        for name in [session] if session else list(self._workers):
            if worker := self._workers.pop(name, None):
                worker.end()

    def _turn(
        self,
        part: str,
        contender: Contender,
        number: int,
        partitions: int,
        turn: int,
        at: int,
        *,
        by_pss: bool = False,
    ) -> list[Run]:
        if contender.name in self.found.missing or number > contender.at_most:
            return []
        self._tables += 1
        options = self._best.get(contender.name, contender.tunings[0])
        topic = self.topic(number, partitions, contender.workload)
        task = Task(topic, f"t{self._tables}", number, partitions, contender.kind, options, contender.workload)
        try:
            return list(self._measured(part, contender, task, turn, at, by_pss=by_pss))
        except Failed as failure:
            if contender.family == OURS:
                raise SystemExit(f"{contender.name}: {failure}") from None
            say(f"{contender.name} is out: {failure}")
            self.found.missing[contender.name] = f"{part} of {number:,} in {partitions} partitions: {failure}"
            self.end(contender.session)
            return []
        finally:
            records.drop_table(self.place, task)

    def _measured(
        self, part: str, contender: Contender, task: Task, turn: int, at: int, *, by_pss: bool
    ) -> Iterator[Run]:
        worker = self._worker(contender.session)
        if not contender.makes_table:
            records.make_table(self.place, task)
        worker.prepare(task)
        records.settle(self.place)
        facts = (part, contender.name, contender.family, contender.kind, turn)
        seconds, steps, meter = worker.run(task, by_pss=by_pss)
        compared = records.count if part in {WARMING, TUNING} else records.compare
        found = compared(self.place, task) if contender.checked else records.Comparison(None, None)
        is_ours, workload = contender.family == OURS, task.workload
        run = Run(*facts, at, task.records, seconds, steps, meter.cpu, meter.peak, found.lost, found.doubled)
        run = replace(
            run,
            workload=workload.name,
            engine=records.way(self.place, task) if is_ours else contender.engine,
            rejects=records.rejects(self.place, task, by_lockstep=is_ours) if workload.bad_in else None,
            bad=workload.rejects(task.records),
        )
        said = f"{part:<11}{turn:>2}  {contender.name:<44}{run.rate:>10,.0f} rows/s {seconds:>8.3f} s"
        say(f"{said}  {run.lost or 0} lost{f', {run.rejects} rejects' if run.bad else ''}")
        yield run
        if part == SIZES and contender.resumes and task.records == FEWEST:
            seconds, steps, meter = worker.run(task)
            yield Run(*facts, 0, 0, seconds, steps, meter.cpu, meter.peak)
        worker.finish()

    def _worker(self, session: str) -> Worker:
        if session not in self._workers:
            worker = Worker(session, SESSIONS[session], self.place)
            self._workers[session] = worker
            worker.start()
        return self._workers[session]


@contextmanager
def ring(place: Place, found: Found) -> Iterator[Ring]:
    """Ends every session behind the block."""
    made = Ring(place, found)
    try:
        yield made
    finally:
        made.end()


def is_steady(seconds: Sequence[float]) -> bool:
    """Returns True if the last two runs differ by less than 5 % of the longer one."""
    *_, before, last = (0.0, 0.0, *seconds)
    return len(seconds) > 1 and abs(before - last) < WARM * max(before, last)


def _told(best: Options, seconds: dict[Options, list[float]]) -> str:
    words = ", ".join(f"{name} {value}" for name, value in best)
    tried = "; ".join(
        f"{'/'.join(value for _, value in options)}: {' and '.join(f'{each:.1f}' for each in took)} s"
        for options, took in seconds.items()
    )
    return f"{words} (tried {tried})"
