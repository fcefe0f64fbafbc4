"""The second half of every storm: all faults are healed, a person decides where only a person may, and progress is demanded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from house.child import Outcome
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from house.world import World

    Act = Callable[..., Outcome]

ROUNDS_TO_THE_END = 20


def here(world: World) -> Act:
    """Acts in this process, with the outcome that a process of its own would have."""

    def act(name: str, *arguments: object, **named: object) -> Outcome:
        try:
            return Outcome("ok", getattr(world, name)(*arguments, **named))
        except Refusal as refusal:
            return Outcome("refused", {"error": str(refusal)})

    return act


def decide(world: World, said: Outcome, act: Act) -> None:
    """Decides as a person does, by the command that is named: accepts the loss of records that are gone, retires a log."""
    command = said.told.get("next") or said.told.get("error") or ""
    if "lockstep accept-loss" in command:
        act("accept_losses")
    elif "lockstep retire" in command:
        world.remember()
        act("retire")
    elif said.told.get("decision") == "Idle":
        end_transactions(world)


def end_transactions(world: World) -> None:
    """Commits what is open in every partition."""
    for partition in range(len(world.log.parts)):
        world.log.close_transactions(partition)


def progress(world: World, act: Act) -> list[str]:
    """Runs until each position is at its log's end; names those that are not after a few rounds without any fault."""
    end_transactions(world)
    said = []
    for _ in range(ROUNDS_TO_THE_END):
        world.leases_run_out()
        said.append(act("run", take_over=True))
        if said[-1].told.get("decision") == "Idle" and not world.behind():
            return []
        decide(world, said[-1], act)
        world.remember()
    return [f"no progress in {ROUNDS_TO_THE_END} rounds without faults: {world.behind()}, told was {said[-1]}"]
