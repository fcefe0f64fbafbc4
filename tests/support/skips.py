"""Lists at the end of a session what was skipped, so that a green one does not hide what it left out."""

from __future__ import annotations

from collections import Counter


def pytest_terminal_summary(terminalreporter):
    """Prints one line per reason and file, with the number of tests, before pytest's closing line."""
    skips = Counter((_reason(report), report.nodeid.partition("::")[0]) for report in _skipped(terminalreporter))
    if not skips:
        return
    terminalreporter.write_sep("=", "skipped")
    for (reason, file), number in sorted(skips.items()):
        terminalreporter.write_line(f"skipped: {number} x {reason} ({file})")


def _skipped(terminalreporter) -> list:
    return terminalreporter.stats.get("skipped", [])


def _reason(report) -> str:
    *_, said = report.longrepr
    return str(said).removeprefix("Skipped: ")
