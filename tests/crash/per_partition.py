"""Runs the drill under the guarantee `PerPartition`, and queries its ledger."""

from __future__ import annotations

from contextlib import closing

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.ledger.migrate import migrate_target


def by_partition(drill) -> None:
    """Lets the drill's tasks commit each range by themselves from now on."""
    file = drill.home / "drill" / "__init__.py"
    text = file.read_text().replace("Pipeline\n", "PerPartition, Pipeline\n", 1)
    file.write_text(text.replace("limits=", "guarantee=PerPartition(), limits=", 1))
    with closing(connect(drill.dsn)) as conn:
        migrate_target(conn, load("drill"))


def committed_ranges(drill) -> dict[int, int]:
    """Returns stream → the token that committed its range, over all batches."""
    return dict(drill.ask("select stream_id, token from lockstep.commit order by 1"))


def states(drill) -> list[str]:
    """Returns the states of the batches, oldest first."""
    return [state for (state,) in drill.ask("select state from lockstep.batch order by batch_id")]
