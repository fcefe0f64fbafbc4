"""Takes a table's older snapshots out of pyiceberg's way. It copies all of them a dozen times for each new one."""

from __future__ import annotations

from typing import Any


def without_history(metadata: Any) -> Any:
    """Returns the metadata with the snapshots that a branch or a tag leads to, and no log of those before."""
    led_to = {ref.snapshot_id for ref in metadata.refs.values()} | {metadata.current_snapshot_id}
    heads = [each for each in metadata.snapshots if each.snapshot_id in led_to]
    return metadata.model_copy(update={"snapshots": heads, "snapshot_log": []})


def with_history(changed: Any, whole: Any) -> Any:
    """Returns changed metadata with the snapshots and the log of the whole, and what was added to both."""
    known = {each.snapshot_id for each in whole.snapshots}
    added = [each for each in changed.snapshots if each.snapshot_id not in known]
    return changed.model_copy(
        update={
            "snapshots": [*whole.snapshots, *added],
            "snapshot_log": [*whole.snapshot_log, *changed.snapshot_log],
        }
    )
