"""Tests that the way from `lockstep run` to COMMIT stays short, and that the page about it names what exists."""

from __future__ import annotations

import ast

from support.oracles.way_page import ENGINE, MOST_FILES, MOST_LINES, beside, functions, lines_of, rows, way


def test_the_way_is_read_in_few_files_and_lines():
    named = way()

    lines = {file: sum(lines_of(functions(file)[name]) for name in names) for file, names in named.items()}

    assert len(named) == len(rows("The way")) <= MOST_FILES
    assert 0 < sum(lines.values()) <= MOST_LINES, lines


def test_each_file_beside_the_way_exists_once_and_has_a_reason():
    names = beside()

    assert [name for name in names if not (ENGINE / name).exists()] == []
    assert len(set(names)) == len(names)
    assert [name for name in names if name in way()] == []
    assert all(reason for _, reason in rows("Beside the way"))


def test_the_transaction_of_the_guarantee_stands_without_modes_and_fault_points():
    """The block is prose: one `with`, no fault point in it, and no word of another guarantee in its file."""
    block = functions("steps/batch/commit_batch.py")["commit_batch"]
    called = [ast.unparse(each.func) for each in ast.walk(block) if isinstance(each, ast.Call)]
    others = ("PerPartition", "Idempotent", "AtLeastOnce", "AtMostOnce", "CommitUnit", "effect is None")
    text = (ENGINE / "steps/batch/commit_batch.py").read_text(encoding="utf-8")

    assert [type(each).__name__ for each in block.body[1:]] == ["With"]
    assert "reach" not in called
    assert called[0] == "transaction"
    assert called.index("attempts.lock_batch") < called.index("require_fence") < called.index("_move_results")
    assert called.index("_move_results") < called.index("_move_offsets")
    assert [word for word in others if word in text] == []
