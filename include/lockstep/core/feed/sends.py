"""Names the table behind a topic that rows are sent to, and refuses sends that no commit could keep."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from lockstep.core.errors import BadDefinition
from lockstep.core.pipeline.guarantees import PerBatch

if TYPE_CHECKING:
    from lockstep.core.pipeline.guarantees import Guarantee
    from lockstep.core.pipeline.stores import Store

SEND_SCHEMA = "lockstep_send"
LONGEST_SEND = 44  # letters of a table's name there: its feed's name has the schema before it
TOPIC_DIGEST_LETTERS = 8


def table_of_topic(topic: str) -> str:
    """Returns the table that keeps a topic's rows until its feed is trimmed: `lockstep_send.clicks_clean_v1`."""
    plain = re.sub(r"[.-]", "_", topic)
    name = re.sub(r"^(?=[^a-z_])", "t_", plain.lower())
    if name != plain or len(name) > LONGEST_SEND:
        digest = hashlib.sha256(topic.encode()).hexdigest()[:TOPIC_DIGEST_LETTERS]
        name = f"{name[: LONGEST_SEND - TOPIC_DIGEST_LETTERS - 1]}_{digest}"
    return f"{SEND_SCHEMA}.{name}"


def refuse_odd_send(topic: str, guarantee: Guarantee, store: Store | None) -> None:
    """Refuses to send rows that do not move in one transaction with the offsets of their batch."""
    if store is None and isinstance(guarantee, PerBatch):
        return
    where = f"in {store}" if store is not None else f"under {type(guarantee).__name__}()"
    raise BadDefinition(
        f"target: Send(Topic({topic!r})): results {where} do not move in one transaction with their batch's offsets, so a "
        "record could be sent twice: leave store out, and say guarantee=PerBatch()"
    )
