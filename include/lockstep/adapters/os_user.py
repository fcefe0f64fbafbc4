"""Reads the process's user from the kernel. No environment variable can change it."""

from __future__ import annotations

import os
import pwd
import socket
from functools import cache

OS_USER_SETTING = "lockstep.os_user"  # each session states it, and the ledger keeps it with each decision


@cache
def os_user() -> str:
    """Returns `name@host` of the process's user, or `uid-N@host` if the machine has no name for it."""
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:  # as containers have them
        name = f"uid-{uid}"
    return f"{name}@{socket.gethostname()}"
