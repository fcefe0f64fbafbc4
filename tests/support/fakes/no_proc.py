"""Hides /proc from the code of Lockstep, as on a system that has none. psutil and the rest of Python still see it.

A Python that reads this file as its sitecustomize begins with /proc hidden.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import Any

BETWEEN = {"pathlib", "os", "io", "codecs", "contextlib", "glob", "fnmatch"}
LOOKED: list[str] = []  # what Lockstep has looked for


def hide_proc() -> None:
    """Lets each look of Lockstep below /proc fail from now on, in this process."""
    sys.addaudithook(_audit)
    for name in ("stat", "lstat", "readlink", "access"):
        setattr(os, name, _refusing(getattr(os, name)))
    pathlib.Path.is_dir = _refusing(pathlib.Path.is_dir)  # type: ignore[method-assign]


def _audit(event: str, arguments: tuple) -> None:
    if event in {"open", "os.listdir", "os.scandir", "glob.glob", "pathlib.Path.glob"}:
        _refuse(arguments[0])


def _refusing(function):
    def refusing(path, *arguments: Any, **options: Any):
        _refuse(path)
        return function(path, *arguments, **options)

    return refusing


def _refuse(path: object) -> None:
    if not isinstance(path, str | pathlib.Path) or not str(path).startswith("/proc"):
        return
    frame = sys._getframe(1)  # noqa: SLF001 - the caller's name is what decides
    while frame and ((name := str(frame.f_globals.get("__name__"))) == __name__ or name.partition(".")[0] in BETWEEN):
        frame = frame.f_back
    if frame and name.partition(".")[0] == "lockstep":
        LOOKED.append(str(path))
        raise FileNotFoundError(2, "there is no /proc here", str(path))


if __name__ == "sitecustomize":
    hide_proc()
