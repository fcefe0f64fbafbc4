"""Reads versions of packages, Java, cores and memory of this machine, without starting any of them."""

from __future__ import annotations

import os
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.adapters import java
from lockstep.core.errors import Refusal
from lockstep.core.health.machine_findings import CLIENT, FITTING, MachineFacts
from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOCAL = re.compile(r"^local(?:\[(\*|\d+)(?:,\s*\d+)?\])?\Z")
_SIZE = re.compile(r"^(\d+)([kmgt]?)b?\Z", re.IGNORECASE)
_UNITS = {"": 2**20, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}  # without a unit Spark takes mebibytes
_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def machine_facts(environ: Mapping[str, str] = ENVIRONMENT) -> MachineFacts:
    """Returns the machine's facts for a run. Omits cores and memory of a Spark cluster, which are not visible here."""
    local = _LOCAL.match(environ.get("SPARK_MASTER", "local[*]"))
    return MachineFacts(
        versions={name: _version(name) for name in (*map(str, FITTING), CLIENT)},
        java=_flaw_of_java(environ),
        cores=_cores(local[1]) if local else None,
        spark_memory=_bytes(environ.get("LOCKSTEP_SPARK_MEMORY", "2g")) if local else None,
        memory=_memory(),
    )


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _flaw_of_java(environ: Mapping[str, str]) -> str | None:
    try:
        java.find_java(environ)
    except Refusal as refusal:
        return refusal.message
    return None


def _cores(given: str | None) -> int:
    if given == "*":
        return len(os.sched_getaffinity(0))
    return int(given or 1)


def _bytes(text: str) -> int | None:
    found = _SIZE.match(text.strip())
    return int(found[1]) * _UNITS[found[2].lower()] if found else None


def _memory() -> int:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(whole, int(_CONTAINER.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit
        return whole
