"""Decides if one person may approve the request of another (four eyes)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadDefinition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Approver:
    """The user that Airflow recorded for a response: its id at the auth manager, and its name."""

    id: str
    name: str

    def document(self) -> dict[str, str]:
        """Returns the user as plain JSON, for the ledger."""
        return {"id": self.id, "name": self.name}


def approver_of(response: Mapping[str, Any]) -> Approver | None:
    """Returns the user of Airflow's response, or None if it names none, as for a response that timed out."""
    user = response.get("responded_by_user") or {}
    if not user.get("id"):
        return None
    return Approver(str(user["id"]), str(user.get("name") or user["id"]))


def checked_approvers(named: Sequence[str]) -> tuple[str, ...]:
    """Returns the users that a pipeline names. Raises `BadDefinition` unless they are a tuple of user ids."""
    if isinstance(named, str) or not all(isinstance(each, str) and each.strip() for each in named):
        raise BadDefinition(f"history.approvers is {named!r}: it must be a tuple of user ids, such as ('alice',)")
    return tuple(named)


def refusal(asker: str | None, approver: Approver | None, named: Sequence[str]) -> str | None:
    """Returns the reason why this approval does not count, or None if it counts."""
    if approver is None:
        return "Airflow has no record of a user who approved"
    if not asker:
        return "Airflow does not say who asked, so the approver may be the asker"
    if asker.casefold() in {approver.id.casefold(), approver.name.casefold()}:
        return f"{asker} asked for it, and another person must approve"
    if named and approver.id not in named:
        return f"{approver.name} is not among the approvers of the pipeline: {', '.join(named)}"
    return None
