"""Notes each function below a folder that this process and its children enter, one file for each process.

Python imports it by itself when this folder is on PYTHONPATH. A worker of Spark ends without a word, so each function is
written down when it is entered for the first time.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

BELOW, INTO = os.environ["FOLLOW_BELOW"] + os.sep, Path(os.environ["FOLLOW_INTO"])
SEEN: set[Any] = set()


def note(frame: Any, event: str, _: Any) -> None:
    code, caller = frame.f_code, frame.f_back
    if event != "call" or code in SEEN:
        return
    while caller is not None and caller.f_code.co_name.endswith(
        "comp>"
    ):  # a function called for each item of a constant
        caller = caller.f_back
    is_import = caller is not None and caller.f_code.co_name == "<module>"
    if not is_import and code.co_filename.startswith(BELOW):
        SEEN.add(code)
        with (INTO / str(os.getpid())).open("a") as out:
            out.write(f"{code.co_filename.removeprefix(BELOW)}\t{code.co_qualname}\n")


os.register_at_fork(after_in_child=SEEN.clear)
threading.setprofile(note)
sys.setprofile(note)
