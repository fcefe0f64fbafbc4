"""Does what `docker compose up --build --wait`, `run` and `down` do, with the services of docker-compose.yaml."""

from __future__ import annotations

import secrets
import threading
import time
from base64 import urlsafe_b64encode
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from lockstep.dev.servers import ports
from lockstep.installed import CHECKOUT
from support.containers.compose_file import read_services
from support.containers.images import ELSEWHERE, make_images
from support.containers.machine import NETWORK, Container, Machine, Program

if TYPE_CHECKING:
    from pathlib import Path

    from support.containers.compose_file import Health, Service

OFTEN = 5  # health checks come so many times as often as the file says
BUSY = 4  # and have so many times as long, each and all of them, because tests share the machine
RUN_SECONDS = 120.0


class StartError(AssertionError):
    """A service ended, or did not become healthy, and those that wait for it do not start."""


def filled_example(home: Path) -> dict[str, str]:
    """Returns the variables of .env.example, its secrets drawn and its ports free ones."""
    lines = (CHECKOUT / ".env.example").read_text().splitlines()
    given = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    taken: list[int] = []
    for name, value in given.items():
        if name.endswith("_PORT"):
            taken.append(ports.choose(home, taken=taken))
            given[name] = str(taken[-1])
        elif name == "AIRFLOW_FERNET_KEY":
            given[name] = urlsafe_b64encode(secrets.token_bytes(32)).decode()
        elif not value:
            given[name] = secrets.token_hex(16)
    return given


class Stack:
    """The services of the file. `env` is what a user writes into .env."""

    def __init__(self, home: Path, file: Path = CHECKOUT / "docker-compose.yaml") -> None:
        self.home, self.env = home, filled_example(home)
        self.services = read_services(file, self.env)
        self.exits: dict[str, int] = {}
        self._images = make_images(home / "images")
        numbers = iter(range(10, 250))
        self._addresses = {
            name: [f"{NETWORK}.{next(numbers)}" for _ in range(service.replicas)]
            for name, service in self.services.items()
        }
        self._lock = threading.Lock()
        self.machine = Machine(home, self._addresses)

    def up(self) -> None:
        """Starts every service without a profile when those that it waits for are as it wants them, and waits."""
        futures: dict[str, Future[None]] = {}
        started = [service for service in self.services.values() if not service.profiles]
        known = threading.Event()
        with ThreadPoolExecutor(len(started)) as pool:
            for service in started:
                futures[service.name] = pool.submit(self._bring_up, service, futures, known)
            known.set()
            wait(futures.values(), return_when=FIRST_EXCEPTION)
        # The first cause, and not a service that did not start for it.
        causes = [future.exception() for future in futures.values() if future.exception()]
        for cause in sorted(causes, key=lambda cause: isinstance(cause.__cause__, StartError)):
            raise cause

    def run(self, name: str, *command: str) -> str:
        """Runs a service's entrypoint once with this command, as `docker compose run --rm` does, and returns its output."""
        service = self.services[name]
        with self._lock:
            number = sum(container.name.startswith(f"{name}-run") for container in self.machine.containers)
            out = self.home / f"{name}-run{number}.out"
            with out.open("wb") as output:
                made = self._start(service, f"{name}-run{number}", self._addresses[name][0], command, output.fileno())
        code = made.process.wait(RUN_SECONDS)
        assert code == 0, f"{name} {' '.join(command)} ended with {code}:\n{made.last_lines()}\n{out.read_text()}"
        return out.read_text()

    def down(self) -> None:
        """Ends everything."""
        self.machine.end()

    def _bring_up(self, service: Service, futures: dict[str, Future[None]], known: threading.Event) -> None:
        known.wait()
        for other, condition in service.depends_on.items():
            try:
                futures[other].result()
            except StartError as error:
                raise StartError(f"{service.name} is not started: {other} is not {condition}") from error
            ended = other in self.exits
            assert ended == (condition == "service_completed_successfully"), (service.name, other, condition)
        containers = []
        for number, address in enumerate(self._addresses[service.name], 1):
            containers.append(self._start(service, f"{service.name}-{number}", address, service.command))
            for port in service.ports:
                host, _, target = port.rpartition(":")
                self.machine.publish(int(host.rpartition(":")[2]), address, int(target))
        for container in containers:
            if service.health:
                _until_healthy(container, service.health)
            else:
                self.exits[service.name] = code = container.process.wait()
                if code:
                    raise StartError(f"{service.name} ended with {code}:\n{container.last_lines()}")

    def _start(
        self, service: Service, name: str, address: str, command: tuple[str, ...], output: int | None = None
    ) -> Container:
        image = self._images[service.image]
        program = Program(
            image.root,
            (*(service.entrypoint or image.entrypoint), *command),
            {**image.environ, **service.environment},
            service.hostname or secrets.token_hex(6),
            image.workdir,
            tuple(self._mount(volume) for volume in service.volumes),
        )
        return self.machine.start(name, address, program, output)

    def _mount(self, volume: str) -> str:
        source, target, *how = volume.split(":")
        for place, other in ELSEWHERE.items():
            target = target.replace(place, other)
        if source.startswith("."):
            assert (CHECKOUT / source).exists(), source
            return ":".join([str(CHECKOUT / source), target, *how])
        named = self.home / "volumes" / source
        named.mkdir(parents=True, exist_ok=True)
        return ":".join([str(named), target, *how])


def _until_healthy(container: Container, health: Health) -> None:
    until = time.monotonic() + BUSY * (health.start_period + health.retries * health.interval)
    while not container.execute(health.command, BUSY * health.timeout):
        if container.process.poll() is not None:
            raise StartError(f"{container.name} ended with {container.process.returncode}:\n{container.last_lines()}")
        if time.monotonic() > until:
            raise StartError(f"{container.name} is unhealthy:\n{container.last_lines()}")
        time.sleep(health.interval / OFTEN)
