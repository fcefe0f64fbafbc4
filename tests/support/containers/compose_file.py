"""Reads docker-compose.yaml as Compose does: variables, merged mappings, conditions and health checks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:[-?])([^}]*))?\})")
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Health:
    """A health check: its command, and its times in seconds."""

    command: tuple[str, ...]
    interval: float
    timeout: float
    retries: int
    start_period: float


@dataclass(frozen=True, slots=True)
class Service:
    """One service. `image` is the target of the Dockerfile, or the name of an image without its tag."""

    name: str
    image: str
    environment: Mapping[str, str] = field(repr=False)
    entrypoint: tuple[str, ...] | None
    command: tuple[str, ...]
    hostname: str | None
    depends_on: Mapping[str, str]
    volumes: tuple[str, ...]
    ports: tuple[str, ...]
    health: Health | None
    replicas: int
    profiles: tuple[str, ...]


def read_services(file: Path, variables: Mapping[str, str]) -> dict[str, Service]:
    """Returns the services of the file by name, with the variables of `.env` in their places."""
    described = _filled(yaml.safe_load(file.read_text()), variables)
    return {name: _service(name, one) for name, one in described["services"].items()}


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _filled(one, variables) for name, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, variables) for one in value]
    return VARIABLE.sub(lambda found: _value(found, variables), value) if isinstance(value, str) else value


def _value(found: re.Match[str], variables: Mapping[str, str]) -> str:
    dollar, name, kind, rest = found.groups()
    if dollar:
        return "$"
    given = variables.get(name, "")
    assert given or kind != ":?", f"{name}: {rest}"
    return given or (rest if kind == ":-" else "")


def _service(name: str, one: Mapping[str, Any]) -> Service:
    health = one.get("healthcheck", {})
    entrypoint = one.get("entrypoint")
    return Service(
        name,
        one["build"]["target"] if "build" in one else one["image"].partition(":")[0],
        {key: _text(given) for key, given in one.get("environment", {}).items()},
        tuple(entrypoint) if entrypoint else None,
        tuple(one.get("command", ())),
        one.get("hostname"),
        {other: how["condition"] for other, how in one.get("depends_on", {}).items()},
        tuple(one.get("volumes", ())),
        tuple(one.get("ports", ())),
        None if not health or health.get("disable") else _health(health),
        one.get("deploy", {}).get("replicas", 1),
        tuple(one.get("profiles", ())),
    )


def _text(given: Any) -> str:
    assert isinstance(given, str), f"{given!r} in an environment is not a text"
    return given


def _health(described: Mapping[str, Any]) -> Health:
    kind, *command = described["test"]
    return Health(
        ("/bin/sh", "-c", *command) if kind == "CMD-SHELL" else tuple(command),
        _seconds(described["interval"]),
        _seconds(described["timeout"]),
        described["retries"],
        _seconds(described.get("start_period", "0s")),
    )


def _seconds(text: str) -> float:
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h)", text).groups()
    return int(number) * UNITS[unit]
