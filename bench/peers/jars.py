"""Resolves the peers' jars with pyspark's Ivy into .lockstep/bench/jars, when the bench runs and not before."""

from __future__ import annotations

import hashlib
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

from lockstep.adapters import java
from lockstep.dev.servers import processes
from lockstep.dev.setup import trust
from lockstep.installed import CHECKOUT

IVY = Path(__file__).with_name("ivy.xml")
FOLDER = CHECKOUT / ".lockstep" / "bench" / "jars"


def missing(configurations: tuple[str, ...]) -> list[str]:
    """Resolves missing jars. Returns the configurations that failed, each with its log's last line."""
    return [said for each in configurations if (said := _ensured(each))]


def _ensured(configuration: str) -> str:
    spark = version("pyspark")
    whole = FOLDER / configuration / hashlib.sha256(IVY.read_bytes() + spark.encode()).hexdigest()[:12]
    if whole.exists():
        return ""
    FOLDER.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(FOLDER / configuration, ignore_errors=True)
    sys.stderr.write(f"jars: resolving {configuration} for the bench (about a minute, once)\n")
    log, cache = FOLDER / f"{configuration}.log", FOLDER.with_name("cache")
    cache.mkdir(exist_ok=True)
    options = [f"-Dpeers.spark={spark}", *([] if java.java_on_machine() else trust.options(cache / "trust.p12"))]
    ivy = next(java.pyspark_jars().glob("ivy-*.jar"))
    pattern = str(FOLDER / "[conf]" / "[artifact]-[revision].[ext]")
    command = [str(java.find_java()), *options, "-jar", str(ivy), "-ivy", str(IVY), "-cache", str(cache)]
    log.unlink(missing_ok=True)
    if not processes.run_program(
        [*command, "-confs", configuration, "-types", "jar", "bundle", "-retrieve", pattern], log=log
    ):
        return f"{configuration}: Ivy could not resolve its jars, {log} says why"
    whole.touch()
    return ""
