"""Defines the second half of every storm.

All faults are healed, persons decide where only they may, and progress is due.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import Refusal
from simulation.child import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.world import World

    Act = Callable[..., Outcome]

ROUNDS_TO_THE_END = 20
COMMANDS_IN_A_ROW = 4  # the most that one answer leads to, each named by the refusal of the one before
DECISION = re.compile(
    r"lockstep (?P<act>accept-loss|retire) \S+(?: --partition (?P<partition>\d+))?"
    r"(?: --from (?P<begin>\d+) --until (?P<end>\d+))?(?: --reason \.\.\.)?(?: --from (?P<start>log-start))?"
)


def here(world: World) -> Act:
    """Acts in this process, with the outcome that a separate process would have."""

    def act(name: str, *arguments: Any, **named: Any) -> Outcome:
        try:
            return Outcome("ok", getattr(world, name)(*arguments, **named))
        except Refusal as refusal:
            return Outcome("refused", {"error": str(refusal), "next": refusal.next_command})

    return act


def decide(world: World, said: Outcome, act: Act) -> list[tuple[str, Outcome]]:
    """Decides as a person does, and returns the answers.

    Gives the command that is named, and the one that its refusal names.
    """
    answers: list[tuple[str, Outcome]] = []
    while len(answers) < COMMANDS_IN_A_ROW and (named := DECISION.search(said.told.get("next") or "")):
        world.remember()
        partition = None if named["partition"] is None else int(named["partition"])
        if named["act"] == "accept-loss":
            said = act("accept_loss", partition, int(named["begin"]), int(named["end"]))
        else:
            said = act("retire", partition, named["start"] or "truncation")
        answers.append((named[0], said))
        if said.kind == "ok":
            break
    if not answers and said.told.get("decision") == "Idle":
        end_transactions(world)
    return answers


def broken(answers: list[tuple[str, Outcome]]) -> list[str]:
    """Returns the decisions whose answer was neither a success nor a refusal."""
    return [f"{command}: {said}" for command, said in answers if said.kind not in {"ok", "refused"}]


def end_transactions(world: World) -> None:
    """Commits every open transaction in every partition."""
    for partition in range(len(world.log.parts)):
        world.log.close_transactions(partition)


def progress(world: World, act: Act) -> list[str]:
    """Runs until each position is at its log's end.

    Names those that are not after a few rounds without any fault.
    """
    end_transactions(world)
    decided: list[tuple[str, Outcome]] = []
    said = Outcome("ok")
    for _ in range(ROUNDS_TO_THE_END):
        world.leases_run_out()
        said = act("run", take_over=True)
        if said.told.get("decision") == "Idle" and not world.behind():
            return broken(decided)
        decided += decide(world, said, act)
        world.remember()
    last = [f"{command} was answered {answer}" for command, answer in decided[-COMMANDS_IN_A_ROW:]]
    where = f"no progress in {ROUNDS_TO_THE_END} rounds without faults: {world.behind()}"
    return [*broken(decided)[:1], f"{where}, told was {said}; decided was {last}"]
