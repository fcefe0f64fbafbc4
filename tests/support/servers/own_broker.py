"""Runs a broker for one test, whose log files may be cut, moved and left to retention."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from lockstep.dev.servers import kafka
from support.servers.another_kafka import BROKER_JARS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

# The broker does at once what it does every five minutes by default.
HURRIED = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "100",
}


class OwnBroker:
    """One broker below a folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.broker = kafka.start(home, jar_folder=BROKER_JARS, more=HURRIED)

    @property
    def address(self) -> str:
        return self.broker.bootstrap

    def stop(self) -> None:
        kafka.stop(self.broker)

    def start(self) -> None:
        """Starts the broker again after a stop, at the same address."""
        self.broker = kafka.start(self.home, self.broker.port, jar_folder=BROKER_JARS, more=HURRIED)

    def kill(self) -> None:
        """Kills the broker, and starts it again on what it has written."""
        os.kill(self.broker.process.pid, signal.SIGKILL)
        self.start()

    def truncate(self, topic: str) -> None:
        """Empties the log of partition 0, still of the same topic, as after a disk that lost its data."""
        self._while_down(lambda: self._begin_at(topic, 0))

    def cut(self, topic: str, offset: int, partition: int = 0) -> None:
        """Removes the log's records from this offset on, or from the end of its batch, as an unclean election does."""
        self._while_down(lambda: self._cut(topic, offset, partition))

    def move(self, topic: str, offset: int) -> None:
        """Lets the log of partition 0 begin at this offset, as after so many records."""
        self._while_down(lambda: self._begin_at(topic, offset))

    def spoil(self, change: Callable[[bytearray, str], None], topics: Iterable[str]) -> None:
        """Changes the bytes of the log of partition 0 of each topic, as a failing disk does."""

        def spoil() -> None:
            for topic in topics:
                (file,) = (self.home.resolve() / "kafka" / "data" / f"{topic}-0").glob("*.log")
                log = bytearray(file.read_bytes())
                change(log, topic)
                file.write_bytes(log)

        self._while_down(spoil)

    def _while_down(self, change: Callable[[], None]) -> None:
        self.stop()
        change()
        self.start()

    def _begin_at(self, topic: str, offset: int) -> None:
        folder = self._data / f"{topic}-0"
        for file in folder.iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        (folder / f"{offset:020}.log").touch()
        self._forget()

    def _cut(self, topic: str, offset: int, partition: int) -> None:
        folder = self._data / f"{topic}-{partition}"
        for file in folder.iterdir():
            if file.suffix in {".index", ".timeindex", ".snapshot"}:  # found out anew
                file.unlink()
        (segment,) = folder.glob("*.log")
        content, at = segment.read_bytes(), 0
        while at < len(content) and int.from_bytes(content[at : at + 8]) < offset:  # a batch: base offset, length, ...
            at += 12 + int.from_bytes(content[at + 8 : at + 12])
        segment.write_bytes(content[:at])
        self._forget()

    @property
    def _data(self) -> Path:
        return self.home.resolve() / "kafka" / "data"

    def _forget(self) -> None:
        """Makes the broker find out anew what it knows of all its logs."""
        data = self._data
        for checkpoint in data.glob("*-checkpoint"):
            checkpoint.unlink()
        (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
