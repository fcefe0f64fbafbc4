"""Tests that `watch` shows the speed of incoming and committed offsets, and the remaining time."""

from __future__ import annotations

from rich.console import Console

from lockstep.cli.looks.watching import picture, rates


def look(position: int, end: int | None) -> dict:
    stream = {"topic": "t", "partition": 0, "position": position, "log_start": 0, "stable_end": end}
    lag = None if end is None else end - position
    return {
        "pipeline": "orders",
        "health": "behind",
        "conditions": [{"state": "behind", "message": "the oldest record that waits is 38 min old", "next": None}],
        "unfinished": [6, 7],
        "under_way": [7],
        "interrupted": [6],
        "streams": [stream | {"lag_records": lag}],
    }


def shown(document: dict, speed: dict) -> str:
    console = Console(width=80)
    with console.capture() as text:
        console.print(picture(document, speed))
    return text.get()


def test_speed_is_what_moved_between_two_looks():
    assert rates(look(100, 1_000), look(300, 1_100), seconds=2) == {"t-0": (100, 50)}
    assert rates(look(100, 1_000), look(50, None), seconds=2) == {"t-0": (0, 0)}, "a log that was made again"


def test_a_line_says_lag_speed_and_how_long_it_will_take_on_eighty_columns():
    text = shown(look(300, 1_100), {"t-0": (100.0, 50.0)})
    assert "orders behind, batch 7 under way, 800 waiting, 100/s" in text
    assert "800" in text
    assert "16 s" in text, "800 behind, 50 a second more go than come"
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_title_is_no_markup_and_says_nothing_to_the_terminal():
    said = "x@y promoted a[v2].py[/red] \x1b[2J\u202eb"
    text = shown(look(300, 1_100) | {"conditions": [{"message": said}]}, {})
    assert r"x@y promoted a[v2].py[/red] \x1b[2J\u202eb" in " ".join(text.split())
    assert "\x1b[2J" not in text


def test_a_log_that_is_not_the_same_is_said_in_its_line():
    assert "not the same log" in shown(look(300, None), {})


def test_where_there_is_no_terminal_it_is_one_look(lockstep, drill):
    lockstep.environ(LOCKSTEP_DSN=drill.dsn, LOCKSTEP_KAFKA=drill.kafka, LOCKSTEP_PIPELINES=str(drill.home))
    watched, asked = (lockstep(command, "drill", "--json").document for command in ("watch", "status"))
    assert watched.pop("oldest_waiting_seconds") < asked.pop("oldest_waiting_seconds"), "records wait, and time goes on"
    assert watched == asked
    assert "drill" in lockstep("watch", "drill").out
