"""Promotes a transform: from exact offsets on, no other one is committed. Withdraws that again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, transaction
from lockstep.core.changes.promotion import transform_digest
from lockstep.core.errors import Refusal
from lockstep.ledger.batch.streams import open_streams
from lockstep.ledger.changes import decisions, promotions
from lockstep.steps.changes.decisions import deciding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg2.extensions import connection

    from lockstep.core.changes.person import Person
    from lockstep.core.changes.promotion import Promotion
    from lockstep.core.pipeline.folder import PipelineFolder


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """The decision that withdraws a promotion, and the offsets from which on any transform may commit."""

    decision: int
    promotion: Promotion
    starts: tuple[Mapping[str, Any], ...]


def promote(
    conn: connection, folder: PipelineFolder, person: Person, canary: Mapping[str, Any] | None = None
) -> tuple[Promotion, bool]:
    """Records that the folder's transform makes every offset that is not committed yet. Returns False if it did already.

    Waits for a commit under way. An attempt of another transform ends at its next step, and its batch is read again.
    Raises `Refusal` before the first plan, because nothing begins anywhere then.
    """
    name, transform = folder.pipeline.name, transform_digest(folder.transform or "")
    with deciding(conn, name) as cur:
        earlier = promotions.promotion_in_force(cur, name)
        if earlier and earlier.transform == transform:
            return earlier, False
        if not open_streams(cur, name):
            raise Refusal(
                f"{name}: no plan has read its topic yet, so no offset separates one transform from another: "
                f"put {folder.transform_file} into its folder as transform.py",
                next_command=f"lockstep run {name}",
            )
        detail: dict[str, Any] = {"transform": transform, "file": folder.transform_file.name}
        detail["definition"] = folder.content_hash()
        decisions.record(cur, name, "promote", person, detail | ({"canary": canary} if canary else {}))
        made = promotions.promotion_in_force(cur, name)
    if made is None:
        raise LookupError(f"{name}: the promotion that was recorded is not in force")
    return made, True


def withdraw_promotion(conn: connection, name: str, person: Person) -> Withdrawn | None:
    """Lets any transform commit again. Returns None if none is promoted. Committed rows stay as they are."""
    with deciding(conn, name) as cur:
        earlier = promotions.promotion_in_force(cur, name)
        if earlier is None:
            return None
        decision = decisions.record(cur, name, "withdraw", person)
        return Withdrawn(decision, earlier, promotions.starts(cur, decision))


def promoted(conn: connection, name: str) -> Promotion | None:
    """Returns the promotion in force."""
    with transaction(conn, READER) as cur:
        return promotions.promotion_in_force(cur, name)
