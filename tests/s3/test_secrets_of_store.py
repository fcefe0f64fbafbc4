"""Tests that the keys of a store show nowhere: not in what is said, arguments, environments, Spark, ledger or lake."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from lockstep.cli.exits import Exit
from support.oracles.canary import CommandLines, Environments, files_holding, tables_holding

DOOR = str(Path(sys.executable).with_name("lockstep"))


@pytest.mark.long
@pytest.mark.timeout(300)
def test_no_key_of_a_store_shows_by_spark_or_without_it_whether_it_is_right_or_wrong(in_store, store, tmp_path):
    mark = f"LOCKSTEP_CANARIES={secrets.token_hex(8)}"
    logs = tmp_path / "logs"
    (logs / "events").mkdir(parents=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_T")} | {
        "TMPDIR": str(logs),
        "SPARK_MASTER": "local[2]",
        "LOCKSTEP_SPARK_EVENTS": str(logs / "events"),
        "LOCKSTEP_SPARK_LOG": str(logs / "spark.log"),
        mark.partition("=")[0]: mark.partition("=")[2],
    }
    wrong = {name: f"canary{secrets.token_hex(12)}" for name in ("key", "secret", "token")}
    canaries = {"right": store.secret, "id": store.key} | wrong
    said, codes = "", []

    def do(code: int, *command: str, **more: str) -> None:
        nonlocal said
        done = subprocess.run(
            [DOOR, *command], env=environ | more, capture_output=True, text=True, check=False, timeout=200
        )
        said += done.stdout + done.stderr
        codes.append(done.returncode == code or done.stdout + done.stderr)

    with CommandLines() as lines, Environments(mark) as environments:
        do(0, "run", "drill", LOCKSTEP_ENGINE="spark")
        do(0, "run", "drill", "--until-idle")
        do(0, "verify", "drill", "--deep")
        do(0, "doctor", "drill")
        do(0, "batch", "1", "--json")
        do(0, "files", "drill")
        for options in (
            store.options(secret_access_key=wrong["secret"]),
            store.options(access_key_id=wrong["key"]),
            store.options(session_token=wrong["token"]),
        ):
            given = {"LOCKSTEP_LAKE_CONFIG": json.dumps(options)}
            do(Exit.REFUSED, "files", "drill", **given)
            do(1, "doctor", "drill", **given)
        in_store.produce(9)
        do(
            Exit.REFUSED,
            "run",
            "drill",
            LOCKSTEP_LAKE_CONFIG=json.dumps(store.options(secret_access_key=wrong["secret"])),
        )
    assert [code for code in codes if code is not True] == []
    assert len(in_store.rows()) == 60
    children = [command for command in environments.seen if DOOR not in command]
    assert [command for command in children if "java" in command]
    assert [command for command in children if "worker_daemon" in command or "pyspark" in command]
    assert list((logs / "events").iterdir())
    shown = {
        name: [
            *(["what is said"] if secret in said else []),
            *(f"arguments {line!r}" for line in lines.holding(secret)),
            *(f"the environment of {each[:80]}" for each in environments.holding(secret) if DOOR not in each),
            *tables_holding(secret, in_store.drill.dsn, "lockstep", "lockstep_lake", "lockstep_staging", "public"),
            *map(str, files_holding(secret, in_store.drill.home, logs, store.folder)),
        ]
        for name, secret in canaries.items()
    }
    assert {name: places for name, places in shown.items() if places} == {}
