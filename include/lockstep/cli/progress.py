"""Shows the step and how far it is, on a terminal only, and answers Ctrl-C anywhere."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

from lockstep.cli.interrupt import answered
from lockstep.core.errors import Refusal
from lockstep.core.planning.activity import READING, Activity, interrupted_answer
from lockstep.core.text import printable_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import Console
    from rich.progress import Progress, Task, TaskID
    from rich.text import Text

    from lockstep.cli.interrupt import Interrupts
    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.steps.attempt.advance import Counter
    from lockstep.steps.context import Context

COUNT_SECONDS = 0.5  # between two looks at how far the read is


class Telling:
    """The receiver of a run's steps. `prefix` is put in front of each on a terminal."""

    def __init__(self, first: str, again: str | None) -> None:
        self.step = first
        self.again = again
        self.prefix: Callable[[], str] = str
        self.interrupts: Interrupts | None = None
        self.show: Callable[[str], None] = lambda _: None

    def __call__(self, step: str) -> None:
        """Takes the next step. Raises `KeyboardInterrupt` if one was lost on its way."""
        if self.interrupts and self.interrupts.came:
            raise KeyboardInterrupt
        self.step = step
        self.show(f"{self.prefix()}{step}")

    def left(self) -> str:
        """Returns the answer to Ctrl-C now."""
        return printable_line(interrupted_answer(self.step, self.again))


@contextmanager
def shown_progress(
    first: str = "planning",
    *,
    again: str | None = None,
    cancel: Callable[[], None] = lambda: None,
    counter: Counter | None = None,
    console: Console | None = None,
) -> Iterator[Telling]:
    """Shows the current step on a terminal, and the count of records while a batch is read.

    `again` is the command that continues after an interrupt. `cancel` ends what a step waits for.
    """
    from rich.console import Console

    console = console or Console(stderr=True)
    telling = Telling(first, again)
    with answered(telling.left, cancel) as telling.interrupts:
        if not console.is_terminal:
            yield telling
            return
        with _bar(console) as bar:
            task = bar.add_task(first, total=None)
            telling.show = lambda line: _show(bar, task, line)
            with _counted(telling, counter, bar, task):
                yield telling


def counter_of(at: Context, folder: PipelineFolder) -> Counter:
    """Returns the counter of a pipeline's reads. Connects when a read is to be shown."""
    from lockstep.steps.attempt.advance import Counter

    return Counter(at.dsn, counts_records=folder.transform is None and len(folder.pipeline.targets) == 1)


def _bar(console: Console) -> Progress:
    from rich.progress import Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn

    class Records(ProgressColumn):
        """The records so far, their rate, and the time that the rest will take."""

        def render(self, task: Task) -> Text:
            from rich.text import Text

            return Text(records_line(int(task.completed), task.total, task.speed, task.time_remaining))

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), Records(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True)


def records_line(read: int, of: float | None, speed: float | None, remaining: float | None) -> str:
    """Returns the records read, of how many, the rate, and the time left, as far as they are known."""
    if not read:
        return ""
    parts = [f"{read:,} rows" if of is None else f"{read:,} of {int(of):,} records"]
    if speed:
        parts.append(f"{speed:,.0f}/s")
    if of is not None and remaining is not None:
        minutes, seconds = divmod(int(remaining), 60)
        parts.append(f"{minutes}:{seconds:02} left")
    return ", ".join(parts)


def _show(bar: Progress, task: TaskID, line: str) -> None:
    bar.reset(task, description=line, total=None, completed=0)


@contextmanager
def _counted(telling: Telling, counter: Counter | None, bar: Progress, task: TaskID) -> Iterator[None]:
    """Counts in a thread while the block runs."""
    if counter is None:
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_count, args=(telling, counter, bar, task, over), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(COUNT_SECONDS)


def _count(telling: Telling, counter: Counter, bar: Progress, task: TaskID, over: threading.Event) -> None:
    """Looks again and again how far the read is. Gives up without a word, because the run needs none of it."""
    with closing(counter), suppress(Refusal):
        while not over.wait(COUNT_SECONDS):
            step = telling.step
            if isinstance(step, Activity) and step.step == READING:
                found = counter.look(step.batch_id)
                if telling.step is step:
                    bar.update(task, completed=found.read, total=found.of)
