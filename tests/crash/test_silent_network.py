"""Tests a network that falls silent in both directions around a COMMIT, with network namespaces and a real Postgres."""

from __future__ import annotations

import copy
import re
import time
from contextlib import closing

import psycopg2
import pytest

from lockstep.adapters import postgres as adapter
from lockstep.adapters.postgres import connect
from lockstep.dev.servers import postgres
from lockstep.ledger.migrate import migrate
from simulation.child import Child
from simulation.world import World
from support.servers.own_network import CLIENTS_NETWORK, SERVER, Network, why_not

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(why := why_not()), reason=str(why))]
# COMMIT stands in the server until the test gives the lock back.
HOLD = """
create function public.hold() returns trigger language plpgsql as
    $$ begin perform pg_advisory_xact_lock_shared(77); return null; end $$;
create constraint trigger hold after insert on lockstep.commit deferrable initially deferred
    for each row execute function public.hold();
"""
HELD = "select 1 from pg_locks where locktype = 'advisory' and objid = 77 and not granted"


@pytest.fixture
def network():
    made = Network()
    with made.inside("server"):
        yield made
    made.end()


@pytest.fixture
def world(network, tmp_path_factory):
    """Makes a world over a Postgres that is also reached from the other side of the router.

    40 records wait in its log.
    """
    assert network, "the server starts in the network's own namespace"
    home = tmp_path_factory.mktemp("postgres")
    server = postgres.start(home)
    with closing(connect(server.dsn)) as conn:
        migrate(conn)
    postgres.stop(server)
    with (server.data / "pg_hba.conf").open("a") as access:
        access.write(f"host all all {CLIENTS_NETWORK} scram-sha-256\n")
    with (server.data / "postgresql.conf").open("a") as settings:
        settings.write(f"listen_addresses = '127.0.0.1,{SERVER}'\n")
    server = postgres.start(home, server.port)
    world = World(server.dsn, tmp_path_factory.mktemp("world"))
    world.log.produce(0, 40)
    yield world
    world.close()
    postgres.remove_server(home)


class Far:
    """A run on the other side of the router.

    `patience` is the number of seconds of silence after which its connection is dead.
    """

    def __init__(self, world: World, network: Network, patience: int, fault: str | None = None) -> None:
        far = copy.copy(world)
        far.dsn = re.sub("127.0.0.1", SERVER, world.dsn)

        def run() -> dict:
            network.enter("client")
            adapter.SILENT_SECONDS, adapter.CONNECT_SECONDS = patience, min(patience, adapter.CONNECT_SECONDS)
            return far._alone("once", owner="far")  # noqa: SLF001 - as a world's own processes do

        self.child = Child.fork(world.home / "armed-far", fault, run)

    def told(self) -> dict:
        outcome = self.child.wait()
        assert outcome.kind == "ok", outcome
        return outcome.told


@pytest.fixture(params=[2, 30], ids=["gives up", "waits"])
def patience(request):
    """Returns True if the far end gives its connection up before the network is healed."""
    return request.param


def silent_for(patience: int) -> None:
    """Waits until an impatient end has given up, or for a moment."""
    time.sleep(patience + 4 if patience < 10 else 1)


def committed(world: World) -> list[tuple]:
    """Returns, per batch, the owner of the attempt that committed it."""
    return world.ask(
        "select distinct c.batch_id, a.owner = 'far' from lockstep.commit c join lockstep.attempt a using (batch_id, token)"
        " order by 1"
    )


def test_a_commit_that_is_sent_into_the_void_is_taken_over_and_told_so(world, network, patience):
    far = Far(world, network, patience, fault="commit.ledger_written=stop")
    assert far.child.stopped()

    network.cut()
    far.child.go_on()  # it sends COMMIT, which does not arrive
    world.factor = 10  # whose rows they are can be seen
    taken_over = world.run(take_over=True)
    silent_for(patience)
    network.heal()
    told = far.told()

    assert len(taken_over["committed"]) == 1
    assert told["superseded"], told
    assert committed(world) == [(taken_over["committed"][0], False)]
    assert world.violations(least=40) == []


def test_a_commit_that_is_sent_into_the_void_is_made_again_by_its_own_attempt(world, network, patience):
    far = Far(world, network, patience, fault="commit.ledger_written=stop")
    assert far.child.stopped()

    network.cut()
    far.child.go_on()
    silent_for(patience)
    assert committed(world) == []
    network.heal()
    told = far.told()

    assert (len(told["committed"]), told["superseded"]) == (1, None)
    assert committed(world) == [(told["committed"][0], True)]
    assert world.ask("select state from lockstep.attempt") == [("committed",)]
    assert world.violations(least=40) == []


def test_a_commit_whose_answer_is_lost_in_the_void_is_told_as_committed(world, network, patience):
    with closing(psycopg2.connect(world.dsn)) as holder, holder.cursor() as lock:
        lock.execute("set role lockstep_owner")
        lock.execute(HOLD)
        holder.commit()
        lock.execute("reset role")
        lock.execute("select pg_advisory_xact_lock(77)")
        far = Far(world, network, patience)
        until_so(world, HELD)
        network.cut()
        holder.commit()  # COMMIT goes on, and its answer does not arrive
    until_so(world, "select 1 from lockstep.commit")

    world.log.produce(0, 10)
    others = world.run(take_over=True)
    silent_for(patience)
    network.heal()
    told = far.told()

    assert (len(told["committed"]), told["superseded"]) == (1, None)
    assert committed(world) == [(told["committed"][0], True), (others["committed"][0], False)]
    assert world.violations(least=50) == []


def until_so(world: World, query: str) -> None:
    until = time.monotonic() + 30
    while not world.ask(query):
        assert time.monotonic() < until, query
        time.sleep(0.02)
