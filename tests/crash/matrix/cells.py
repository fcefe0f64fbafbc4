"""Defines the crash matrix: every named fault point, in every lane that passes it, times every kind of fault."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulation.child import Child, Outcome
    from simulation.world import World

PRODUCT = Path(__file__).parents[3] / "include" / "lockstep"
KINDS = ("raise", "kill", "term", "stop")
PLAN = ("plan.locked", "plan.ranges_written", "plan.committed")
STAGE = ("stage.session_up", "task.read_mid", "task.copy_mid", "task.copy_end", "task.committed", "stage.done")
VALIDATE = ("validate.after",)
COMMIT = (
    *("commit.locked", "commit.fence_ok", "commit.counts_ok", "commit.published", "commit.ledger_written"),
    *("commit.done_unacknowledged", "announce.before"),
)
RANGE = ("range.before_copy", "range.copy_mid", "range.published", "range.before_commit", "range.done_unacknowledged")
LAND = ("land.copied", "land.before_commit", "land.done_unacknowledged")
TO_VALIDATE = PLAN + STAGE + VALIDATE
LANES = {
    "live": TO_VALIDATE + COMMIT,
    "fill": TO_VALIDATE + COMMIT,
    "replay": (*TO_VALIDATE, *COMMIT, "replay.old_deleted"),
    "preview": (*TO_VALIDATE, "replay.old_deleted", "preview.compared"),
    "upkeep": ("upkeep.merged",),
    "erase": ("erase.rows_gone", "erase.images_blank", "erase.decided", "erase.committed"),
    "apart": ("deliver.taken", "deliver.written", "deliver.done"),  # the live lane of an idempotent pipeline
    "partition": (
        *PLAN,
        "stage.session_up",
        *RANGE,
        "stage.done",
        *VALIDATE,
        *COMMIT[:2],
        "commit.closed",
        *COMMIT[-2:],
    ),
}
LANES |= {
    "partition_fill": LANES["partition"],
    "partition_replay": LANES["partition"],
    "apart_fill": LANES["apart"],
    "apart_replay": LANES["apart"],
    "least_live": LANES["apart"],  # at least once
    "most_live": LANES["apart"],  # at most once
    "once_live": (  # of a table behind a view
        *("stage.session_up", "range.before_copy", "range.copy_mid", *LAND, "stage.done", *VALIDATE),
        *(*COMMIT[:3], "commit.shown", *COMMIT[3:]),
    ),
    "once_fill": (*LAND, "commit.shown"),
    "once_upkeep": ("reap.cleared",),  # of a batch that was abandoned with rows
    "once_again": ("land.cleared", *LAND, "commit.shown"),  # behind an attempt that has copied and died
    "parts_live": (  # of a table by batch
        *("stage.session_up", "range.before_copy", "range.copy_mid", "part.copied", *LAND, "stage.done", *VALIDATE),
        *(*COMMIT[:3], "commit.shown", *COMMIT[3:]),
    ),
    "parts_fill": ("part.copied", *LAND, "commit.shown"),
    "parts_replay": ("commit.published", "replay.old_deleted"),
    "parts_again": ("part.copied", *LAND, "commit.shown"),
    "parts_upkeep": ("upkeep.parts_copied",),
    "two_live": ("commit.published", "commit.between_targets"),  # of two targets
    "two_fill": ("commit.published", "commit.between_targets"),
    "two_replay": ("commit.published", "replay.old_deleted", "commit.between_targets"),
    "told_live": ("changes.opened", "changes.numbered"),  # of a target with a feed
    "told_fill": ("changes.opened", "changes.numbered"),
    "told_replay": ("changes.opened", "changes.netted", "changes.numbered"),
    "each_partition": ("changes.opened", "changes.numbered"),  # of such a target, per partition
}
BEHIND_ANOTHER: dict[str, Callable[[World], str]] = {
    "once_again": lambda _: "once",
    "parts_again": lambda _: "once",
    "once_upkeep": lambda world: "reap" if world.dying("abandon") else "",
}
NEW = ("partition_fill", "partition_replay", "apart_fill", "apart_replay", "least_live", "most_live")
NEW += ("two_live", "two_fill", "two_replay", "told_fill", "each_partition")  # type: ignore[assignment]
# Struck by a test of its own: rejects that are emptied are not what the oracle expects of them.
RELAY_POINTS = (
    *("fenced", "cursor", "intent", "begun", "mid", "flushed", "offsets", "committed", "confirmed"),
    *("restarted", "decided"),
)
ARCHIVE_POINTS = ("file_closed", "read_back", "row_written", "drop_decided")
LAKE_POINTS = (
    *("prefix_made", "file_closed", "looked_back", "registered", "prepared_row", "one_metadata_written"),
    *("all_metadata_written", "one_pointer_moved"),
)
KEYED_POINTS = ("rest_written", "rehearsed", "keys_written", "account_kept")
UPKEEP_POINTS = ("begun", "merged", "swept", "prepared", "moved", "swapped")
EMIT_POINTS = ("read", "raised", "written", "numbered", "unacknowledged")
ELSEWHERE = {
    "upkeep.rejects_emptied": "tests/ledger/test_reject_retention.py",
    "upkeep.feed_trimmed": "tests/feed/test_trimming.py",
    "upkeep.folded": "tests/windows/test_folding.py",
    "windows.judged": "tests/windows/test_judging.py",
    "land.put_aside": "tests/kafka/test_quarantine.py",
    **{f"archive.{point}": "tests/cli/test_archive.py" for point in ARCHIVE_POINTS},
    **{f"lake.{point}": "tests/lake/test_commit.py" for point in LAKE_POINTS},
    "lake.file_open": "tests/lake/test_of_tasks.py",  # by the task that writes the file
    "lake.sweep_mid": "tests/lake/test_sweep.py",
    **{f"lake.{point}": "tests/lake/keyed/both.py" for point in KEYED_POINTS},
    **{f"lake.upkeep_{point}": "tests/lake/test_upkeep_kills.py" for point in UPKEEP_POINTS},
    "lake.expired_mid_delete": "tests/lake/test_upkeep_kills.py",
    "deliver.files_written": "tests/elsewhere/test_once.py",
    "deliver.prepared": "tests/elsewhere/test_once.py",
    **{f"emit.{point}": "tests/windows/test_emit.py" for point in EMIT_POINTS},
    **{f"relay.{point}": "tests/feed/test_relay_crashes.py" for point in RELAY_POINTS},
}
AFTER_THE_COMMIT = {"commit.done_unacknowledged", "announce.before"}
ENDS = {"raise": "InjectedFault", "kill": "SIGKILL", "term": "SIGTERM"}

CELLS = [(lane, point, kind) for lane, points in LANES.items() for point in points for kind in KINDS]
OTHERS = ("fill", "replay", "preview", "upkeep", "erase", "apart", "partition")


def _in_ci(lane: str, point: str, kind: str) -> bool:
    """Returns True for the cells that CI runs.

    Each point meets each kind once, in the live lane if that passes it. One other lane and kind come in turn.
    """
    n, m = sum(map(ord, point)), KINDS.index(kind)
    if lane in NEW:  # the points that only this way has, each with one kind
        if (lane, point) == ("two_live", "commit.between_targets"):
            return True
        return (
            point.startswith(("range.", "deliver.", "commit.between", "replay.", "changes."))
            and m == (n + len(lane)) % 4
        )
    if lane.startswith("once_"):
        return point in {"land.cleared", "reap.cleared"} or (
            lane == "once_live" and point.startswith(("land.", "commit.shown"))
        )
    if lane.startswith("parts_"):
        return point == "upkeep.parts_copied" or (lane, point) == ("parts_live", "part.copied")
    if lane.startswith("told_"):
        return lane == ("told_replay" if point == "changes.netted" else "told_live")
    ways = [other for other in OTHERS if point in LANES[other]]
    return (
        lane == "live" or (point not in LANES["live"] and lane == ways[0]) or (lane, m) == (ways[n % len(ways)], n % 4)
    )


ONCE = [cell for cell in CELLS if _in_ci(*cell)]


def act_of(lane: str) -> str:
    """Returns the act of a lane, whatever the guarantee and the targets."""
    return lane.rpartition("_")[2]


def points_in(*files: Path) -> set[str]:
    """Returns the fault points that these files name."""
    return {point for file in files for point in re.findall(r'\breach\("([^"]+)"\)', file.read_text())}


def strike(world: World, lane: str, point: str, kind: str) -> list[str]:
    """Runs one cell, and returns the violations, one line each.

    A lane's act is struck at the point, and others finish it.
    """
    act, arguments = _prepare(world, lane)
    rows = rows_of(world)
    child = world.start(act, *arguments, fault=f"{point}={kind}")
    try:
        found = _overtaken(world, lane, child, act, arguments, point) if kind == "stop" else _died(child, kind)
    except BaseException:
        child.kill()
        raise
    if found:
        return [f"{lane}, {point}, {kind}: {what}" for what in found]
    _finish(world, act, arguments)
    what = act_of(lane)
    if what == "preview":
        found += ["the preview has changed the target"] if rows_of(world) != rows else []
    elif what == "replay":
        newest = "select max(_batch) from public.house group by _stream"
        old = world.ask(f"select 1 from public.house where _batch in ({newest}) and factor <> %s", world.factor)
        found += [f"{len(old)} rows are still of the old code"] if old else []
    elif what == "fill" and world.ask("select 1 from lockstep.coverage where kind = 'skipped'"):
        found.append("something is still skipped")
    elif what == "erase":
        decided = world.ask("select count(*) from lockstep.decision where kind = 'erase' group by detail ->> 'key'")
        found += [] if decided and set(decided) == {(1,)} else [f"the key's decisions are {decided}, not one"]
    world.dying("reap")
    unfinished = world.ask("select batch_id from lockstep.batch where state = 'planned'")
    found += [f"batch {batch} was never finished" for (batch,) in unfinished]
    found += world.violations(rest=True) + world.drained()
    return [f"{lane}, {point}, {kind}: {what}" for what in found]


def rows_of(world: World) -> list[tuple]:
    """Returns the target's current rows."""
    order = "_stream, _offset, _ordinal"
    return [row for table in world.tables for row in world.ask(f"select * from {table} order by {order}")]


def _prepare(world: World, lane: str) -> tuple[str, tuple]:
    """Makes work for this lane, and nothing else."""
    what = act_of(lane)
    world.factor = 1 + world.factor % 9 if what in {"replay", "preview"} else world.factor
    for partition in range(len(world.log.parts)):
        world.log.produce(partition, 4)
    world.log.produce(0, 1, kind="garbage")
    world.log.produce(1, 2, kind="aborted")
    if what in {"live", "apart", "partition"}:
        return "once", ()
    if lane in BEHIND_ANOTHER:
        world.dying("once", fault="stage.done=kill")  # its rows are there, and nobody sees them
        return BEHIND_ANOTHER[lane](world), ()
    if what == "fill":
        world.skip(None)
        return "redo", ("fill", None, None)
    begin = world.positions() or None
    world.run()
    if what == "erase":  # a key that no record holds, so that what the oracle expects stays the same
        return "erase", (f"nobody-{world.seed}",)
    if what == "upkeep":  # the first two of each stream's three newest segments cannot be read any more
        for _ in range(2):
            last = world.positions()
            for partition in last:
                world.log.produce(partition, 4)
            world.run()
        for partition, position in last.items():
            world.log.trim(partition, position)
        return "reap", ()
    return ("redo", ("replay", begin, None)) if what == "replay" else ("preview", (begin,))


def _died(child: Child, kind: str) -> list[str]:
    outcome = child.wait()
    if not outcome.told["reached"]:
        return ["the point was never reached"]
    how = outcome.told.get("by") or outcome.told.get("error", "")
    return [] if ENDS[kind] in how else [f"it ended otherwise: {outcome}"]


def _overtaken(world: World, lane: str, child: Child, act: str, arguments: tuple, point: str) -> list[str]:
    """Stops the act, lets another finish and sweep, and only then lets it continue.

    It may answer anything, and must change nothing.
    """
    if not child.stopped():
        return [f"the point was never reached: {child.wait()}"]
    _finish(world, act, arguments)
    world.dying("reap")
    commits = "select xmin::text, * from lockstep.commit order by batch_id, stream_id"
    before, rows = world.ask(commits), rows_of(world)
    left = world.ask("select tablename from pg_tables where schemaname = 'lockstep_staging'")
    child.go_on()
    outcome = child.wait()
    found = ["the zombie's staging table could not be swept away"] if left else []
    found += [] if outcome.kind in {"ok", "refused"} else [f"the zombie broke: {outcome}"]
    if lane != "preview" and outcome.kind == "ok" and point not in AFTER_THE_COMMIT and outcome.told.get("committed"):
        found += _untrue(world, outcome)
    if lane != "preview" and not world.may and (world.ask(commits), rows_of(world)) != (before, rows):
        found.append("the zombie has changed something")
    return found


def _untrue(world: World, outcome: Outcome) -> list[str]:
    known = {batch for (batch,) in world.ask("select distinct batch_id from lockstep.commit")}
    untrue = set(outcome.told["committed"]) - known
    return [f"told committed, and without a commit row: {sorted(untrue)}"] if untrue else []


def _finish(world: World, act: str, arguments: tuple) -> None:
    """Lets another process do what the struck one was to do."""
    if act in {"reap", "erase"}:
        world.dying(act, *arguments)
    if act == "redo":
        world.dying(act, *arguments, take_over=True)
    if act == "preview":
        world.leases_run_out()
        world.dying("reap")
    world.dying("run", take_over=True)
