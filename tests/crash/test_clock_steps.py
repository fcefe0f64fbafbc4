"""Tests clocks that are stepped by a day in the middle of a batch: the client's, the database's, or both."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from lockstep.adapters.postgres import connect
from lockstep.dev.servers import postgres
from lockstep.ledger.migrate import migrate
from simulation.world import World
from support.scenes.drill import said, wait_stopped
from support.servers.own_clock import WHY_NOT, Clock

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(WHY_NOT), reason=str(WHY_NOT))]
DAY, RECORDS = 86_400, 40
PROGRAM = Path(__file__).with_name("stepped_client.py")
STEPS = pytest.mark.parametrize("step", [DAY, -DAY], ids=["forward", "back"])
WHOSE = pytest.mark.parametrize("whose", ["client", "database", "both"])
# The checker's one law that goes by the ledger's times: a clock that went back has broken their order, and nothing else.
OF_TIMES = "an attempt was opened after its batch was closed"


class Stepped:
    """A world over its own Postgres. A client and the database have a clock each."""

    def __init__(self, world: World, client: Clock, database: Clock) -> None:
        self.world, self.client = world, client
        self.clocks = {"client": [client], "database": [database], "both": [client, database]}
        self.started: list[subprocess.Popen[str]] = []

    def struck(self, point: str) -> subprocess.Popen[str]:
        """Starts a run with the client's clock, which stands still at that point."""
        armed = self.world.home / "armed-first"
        armed.touch()
        arguments = [self.world.dsn, str(self.world.home), self.world.log.topic_id, str(RECORDS)]
        with self.client.of_programs():
            process = subprocess.Popen(
                [sys.executable, str(PROGRAM), *arguments],
                env=os.environ | {"LOCKSTEP_FAULT": f"{point}=stop@{armed}", "PYTHONPATH": os.pathsep.join(sys.path)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        self.started.append(process)
        wait_stopped(process)
        return process

    def step(self, whose: str, seconds: int) -> None:
        """Steps the clocks, and checks that they have moved."""
        before = {name: self.says(name) for name in ("client", "database")}
        for clock in self.clocks[whose]:
            clock.step(seconds)
        days = {name: round((self.says(name) - was) / DAY) for name, was in before.items()}
        assert days == {name: seconds // DAY if whose in {name, "both"} else 0 for name in before}

    def says(self, name: str) -> float:
        """Returns the time of the database there."""
        if name == "database":
            return float(self.world.ask("select extract(epoch from clock_timestamp())")[0][0])
        with self.client.of_programs():
            return float(subprocess.run(["date", "+%s"], capture_output=True, check=True).stdout)

    def goes_on(self, process: subprocess.Popen[str]) -> dict:
        os.kill(process.pid, signal.SIGCONT)
        return said(process)

    def ends_as_it_should(self) -> None:
        """Checks that one attempt has committed one batch, with every record once.

        The checker must find nothing.
        """
        assert self.world.ask("select count(distinct (batch_id, token)) from lockstep.commit") == [(1,)]
        assert [each for each in self.world.violations(least=RECORDS) if not each.startswith(OF_TIMES)] == []


@pytest.fixture
def stepped(tmp_path, tmp_path_factory):
    home = tmp_path_factory.mktemp("postgres")
    server = postgres.start(home)
    with closing(connect(server.dsn)) as conn:
        migrate(conn)
    postgres.stop(server)
    database = Clock(server.data / "clock")  # where the server's own account can read
    with database.of_programs():
        server = postgres.start(home, server.port)
    world = World(server.dsn, tmp_path)
    world.log.produce(0, RECORDS)
    here = Stepped(world, Clock(tmp_path / "clock"), database)
    yield here
    for process in here.started:
        process.kill()
        process.wait()
    world.close()
    postgres.remove_server(home)


@STEPS
@WHOSE
def test_a_batch_is_taken_over_across_a_step_and_the_first_process_is_told_so(stepped, whose, step):
    """A database that went a day forward has ended the lease. In all other cases a person takes the batch over."""
    first = stepped.struck("validate.after")
    stepped.step(whose, step)
    stepped.world.factor = 10  # whose rows they are can be seen

    by_itself = stepped.world.once(owner="second")
    if whose == "client" or step < 0:
        assert by_itself["decision"] == "Busy"
        by_itself = stepped.world.once(owner="second", take_over=True)
    told = stepped.goes_on(first)

    assert (by_itself["decision"], len(by_itself["committed"])) == ("Resume", 1)
    assert told["superseded"], told
    stepped.ends_as_it_should()


@STEPS
@WHOSE
@pytest.mark.parametrize("point", ["stage.done", "commit.ledger_written"])
def test_a_batch_goes_on_across_a_step(stepped, point, whose, step):
    process = stepped.struck(point)
    stepped.step(whose, step)

    told = stepped.goes_on(process)

    assert (told["decision"], told["superseded"], len(told["committed"])) == ("Start", None, 1), told
    stepped.ends_as_it_should()
