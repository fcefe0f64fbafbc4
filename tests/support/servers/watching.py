"""Runs a real Prometheus with the alert rules of docs/monitoring."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FOLDER = Path(__file__).parents[3] / "docs" / "monitoring"
RULES = FOLDER / "alerts.yml"
NEEDED = pytest.mark.skipif(
    not (shutil.which("prometheus") and shutil.which("promtool")),
    reason="no Prometheus on this machine: apt-get install prometheus",
)


@dataclass(frozen=True)
class Target:
    """An address that is scraped, as docs/monitoring/README.md writes it. `token` is a file with a login's token."""

    address: str
    path: str = "/metrics"
    token: Path | None = None

    def config(self) -> dict:
        secret = {"authorization": {"credentials_file": str(self.token)}} if self.token else {}
        return {"metrics_path": self.path, "static_configs": [{"targets": [self.address]}], **secret}


class NotReadyError(httpx.TransportError):
    """A Prometheus that listens, and has not begun."""


def hurried_rules(home: Path, wait: str) -> Path:
    """Writes the rules with another `for:`, and nothing else changed. Returns the file."""
    text, changed = re.subn(r"^( +for: )\w+$", rf"\g<1>{wait}", RULES.read_text(), flags=re.MULTILINE)
    assert changed == text.count("- alert: ")
    (home / RULES.name).write_text(text)
    return home / RULES.name


class Watching:
    """A Prometheus that scrapes some targets, with the rules of the folder.

    A busy machine takes its time: one scrape that came too late would leave no values.
    """

    def __init__(self, home: Path, targets: Sequence[Target], rules: Path = RULES) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.address = f"http://127.0.0.1:{server.getsockname()[1]}"
        jobs = [
            {"job_name": "lockstep" if i == 0 else f"lockstep-{i}", **each.config()} for i, each in enumerate(targets)
        ]
        config = {
            "global": {"scrape_interval": "10s", "scrape_timeout": "10s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": jobs,
        }
        (home / "prometheus.yml").write_text(json.dumps(config))
        command = [
            "prometheus",
            f"--config.file={home}/prometheus.yml",
            f"--storage.tsdb.path={home}/data",
            f"--web.listen-address={self.address.removeprefix('http://')}",
        ]
        self.log = home / "prometheus.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]})

    def ask(self, path: str, **parameters: str) -> dict:
        answer = httpx.get(f"{self.address}/api/v1/{path}", params=parameters, timeout=20)
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:  # until it has read its own log
            raise NotReadyError(answer.text)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def query(self, expression: str) -> list[dict]:
        return self.ask("query", query=expression)["result"]

    def alerts(self, state: str | None = None) -> list[dict]:
        """Returns the alerts whose expression holds: all of them, or only those in a state, pending or firing."""
        return [each for each in self.ask("alerts")["alerts"] if state in {None, each["state"]}]

    def until(self, found: Callable, seconds: float = 90.0):
        end = time.monotonic() + seconds
        while True:
            try:
                if answer := found():
                    return answer
            except httpx.TransportError:
                assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.3)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
