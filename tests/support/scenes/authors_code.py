"""A definition that writes down what it can reach of the process that has it evaluated, and what it may have reached."""

from __future__ import annotations

import ctypes
import json
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Above are the processes from its own parent up to the first of the machine. Others are those that it may look into.
CANARY = """
import json as _json, os as _os
def _read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError as error:
        return type(error).__name__
def _points(descriptor):
    try:
        return _os.readlink(f"/proc/self/fd/{{descriptor}}")
    except OSError:
        return None
_above, _pid = [], _os.getppid()
while _pid > 1:
    _above.append(_read(f"/proc/{{_pid}}/environ"))
    _stat = _read(f"/proc/{{_pid}}/stat")
    _pid = int(_stat.rpartition(")")[2].split()[1])
_all = [pid for pid in _os.listdir("/proc") if pid.isdigit() and int(pid) != _os.getpid()]
with open({seen!r}, "a") as _file:
    _file.write(_json.dumps({{
        "pid": _os.getpid(), "parent": _os.getppid(), "environ": dict(_os.environ), "above": _above,
        "others": [pid for pid in _all if "=" in _read(f"/proc/{{pid}}/environ")],
        "open": {{d: at for d in range(64) if (at := _points(d))}},
        "stdin": _read("/dev/stdin") if _points(0) else None,
    }}) + "\\n")
"""
SECRETS = {
    "LOCKSTEP_SIGNING_KEY": "signing.pem",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "postgresql://secret-of-airflow",
    "AIRFLOW__CORE__FERNET_KEY": "secret-of-airflow",
    "AIRFLOW__API_AUTH__JWT_SECRET": "secret-of-airflow",
    "AIRFLOW_CONN_OTHER": "secret-of-airflow",
    "AWS_SECRET_ACCESS_KEY": "secret-of-a-store",
    "A_NAME_THAT_NOBODY_KNOWS": "secret-of-somebody",
}
GIVEN = re.compile("PATH|HOME|LANG|LC_[A-Z]+|TZ|TMPDIR|LD_LIBRARY_PATH|LOCKSTEP_PIPELINES")


def sights(seen: Path) -> list[dict]:
    """Returns what the canary has seen since the last look."""
    text = seen.read_text() if seen.exists() else ""
    seen.unlink(missing_ok=True)
    return [json.loads(line) for line in text.splitlines()]


def assert_sees_nothing(sight: dict, seen: Path, what: str) -> None:
    """Asserts that a sight holds no variable but those that are given, no descriptor, and no other process."""
    assert sight["pid"] != os.getpid(), what
    assert {name for name in sight["environ"] if not GIVEN.fullmatch(name)} == set(), what
    kinds = {at.partition(":")[0] for at in sight["open"].values()}
    assert kinds <= {"/dev/null", "pipe", str(seen)}, (what, sight["open"])
    assert sum(at.startswith("pipe") for at in sight["open"].values()) == 1, "the one that its answer goes by"
    assert not sight["stdin"], what
    assert [above for above in sight["above"] if "secret-of" in above] == [], f"{what}: a process above is readable"
    assert sight["others"] == [] or not has_landlock(), f"{what}: it looks into other processes"


def has_landlock() -> bool:
    """Returns whether this kernel can keep a process from looking into others of its user."""
    return ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) > 0
