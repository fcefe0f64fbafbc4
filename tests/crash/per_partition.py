"""The drill under the guarantee `PerPartition`, and what is asked of its ledger."""

from __future__ import annotations

from contextlib import closing

from lockstep.adapters.folders import load
from lockstep.adapters.postgres import connect
from lockstep.ledger.migrate import migrate_target


def by_partition(drill) -> None:
    """From now on the drill's tasks commit each range by themselves."""
    file = drill.home / "drill" / "__init__.py"
    text = file.read_text().replace("Pipeline\n", "PerPartition, Pipeline\n", 1)
    file.write_text(text.replace("limits=", "guarantee=PerPartition(), limits=", 1))
    with closing(connect(drill.dsn)) as conn:
        migrate_target(conn, load("drill"))


def committed_ranges(drill) -> dict[int, int]:
    """Stream → the token that committed its range, over all batches."""
    return dict(drill.ask("select stream_id, token from lockstep.commit order by 1"))


def states(drill) -> list[str]:
    """What became of the batches, oldest first."""
    return [state for (state,) in drill.ask("select state from lockstep.batch order by batch_id")]
