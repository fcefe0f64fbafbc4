"""Tests that only their owner can read the embedded servers' files, even those that an earlier version left open."""

from __future__ import annotations

import stat

from lockstep.dev.private import private_folder, write_privately


def test_a_folder_is_closed_to_others_whether_it_is_new_or_was_open(tmp_path):
    was_open = tmp_path / "open"
    was_open.mkdir()
    was_open.chmod(0o755)
    for folder in (was_open, tmp_path / "new" / "below"):
        private_folder(folder)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    private_folder(was_open, 0o711)
    assert stat.S_IMODE(was_open.stat().st_mode) == 0o711


def test_a_secret_is_never_readable_by_others(tmp_path):
    file = tmp_path / "secret"
    file.write_text("old")
    file.chmod(0o644)
    write_privately(file, "new")
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("new", 0o600)
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]
