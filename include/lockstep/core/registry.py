"""Checks the address of the schema registry, and the options that its client may be given."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lockstep.core.errors import BadDefinition
from lockstep.core.login.mechanisms import OAUTHBEARER, TOKEN_URL

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockstep.core.kafka_options import KafkaOptions

NAME_REGISTRY = "export LOCKSTEP_REGISTRY=http://HOST:PORT"  # what to type where it is missing or wrong
REGISTRY_ISSUER = "bearer.auth.issuer.endpoint.url"
TEXTS = frozenset(
    {
        "basic.auth.user.info",
        "bearer.auth.credentials.source",
        "bearer.auth.token",
        "bearer.auth.logical.cluster",
        "bearer.auth.identity.pool.id",
        "bearer.auth.client.id",
        "bearer.auth.client.secret",
        "bearer.auth.scope",
        REGISTRY_ISSUER,
        "proxy",
        "ssl.key.password",
    }
)
LOGIN_SOURCE, AS_KAFKA = (
    "bearer.auth.credentials.source",
    "SASL_OAUTHBEARER_INHERIT",
)  # Java's word for Kafka's own login
OF_KAFKA = {
    "bearer.auth.client.id": "sasl.oauthbearer.client.id",
    "bearer.auth.client.secret": "sasl.oauthbearer.client.secret",
    "bearer.auth.scope": "sasl.oauthbearer.scope",
    REGISTRY_ISSUER: TOKEN_URL,
}
REGISTRY_FILE_OPTIONS = frozenset({"ssl.ca.location", "ssl.certificate.location", "ssl.key.location"})
REGISTRY_NUMBER_OPTIONS = frozenset({"timeout", "max.retries", "retries.wait.ms", "retries.max.wait.ms"})
KNOWN_REGISTRY_OPTIONS = sorted(TEXTS | REGISTRY_FILE_OPTIONS | REGISTRY_NUMBER_OPTIONS)
# The client's own wait has no end, and a task that waits holds its batch.
REGISTRY_PATIENCE = {"timeout": 10, "max.retries": 3, "retries.wait.ms": 300, "retries.max.wait.ms": 2_000}


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry's address and its client's options, which have passed the allowlist. `repr` shows neither.

    `files` holds the content of the files that options name, so that its receiver needs none.
    """

    url: str = field(repr=False)
    options: tuple[tuple[str, Any], ...] = field(default=(), repr=False)
    files: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def shown(self) -> str:
        """Returns the address, or several, without a login."""
        parts = [urlsplit(each.strip()) for each in self.url.split(",")]
        return ",".join(f"{one.scheme}://{one.netloc.rpartition('@')[2]}{one.path}" for one in parts)


def registry(
    url: str, given: Mapping[str, Any], read: Callable[[str], str], kafka: KafkaOptions | None = None
) -> Registry:
    """Returns the registry of an address and options. They may say that it is asked by the login at Kafka.

    Raises `BadDefinition` that names what may not be set, never its value.
    """
    for each in url.split(","):
        _require_legal(each.strip())
    options: dict[str, Any] = dict(REGISTRY_PATIENCE)
    files: dict[str, str] = {}
    for name, value in given.items():
        if name in REGISTRY_FILE_OPTIONS:
            files[name] = read(str(value))
        elif name in REGISTRY_NUMBER_OPTIONS:
            options[name] = _number(name, value)
        elif name in TEXTS:
            options[name] = str(value)
        else:
            near = get_close_matches(name, KNOWN_REGISTRY_OPTIONS, 1)
            raise BadDefinition(
                f"Registry option {name} is not on the list" + (f"; did you mean {near[0]}?" if near else "")
            )
    if options.get(LOGIN_SOURCE) == AS_KAFKA:
        options = _as_kafka(options, kafka)
    _require_whole(url, options, files)
    return Registry(url, tuple(sorted(options.items())), tuple(sorted(files.items())))


def _as_kafka(options: Mapping[str, Any], kafka: KafkaOptions | None) -> dict[str, Any]:
    """Returns the options with those of the login at Kafka in the client's words."""
    if kafka is None or kafka.mechanism != OAUTHBEARER:
        raise BadDefinition(f"Registry option {LOGIN_SOURCE}: {AS_KAFKA} needs Kafka's sasl.mechanism {OAUTHBEARER}")
    login = dict(kafka.values)
    needed = {"bearer.auth.scope": "", "bearer.auth.logical.cluster": ""}  # the client does without neither
    found = {name: login[theirs] for name, theirs in OF_KAFKA.items() if theirs in login}
    return needed | found | dict(options) | {LOGIN_SOURCE: OAUTHBEARER}


def _require_legal(url: str) -> None:
    try:
        parts = urlsplit(url)
        whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        whole = False
    if not whole:
        raise BadDefinition(
            "LOCKSTEP_REGISTRY is no address such as http://host:8081",
            next_command=NAME_REGISTRY,
        )


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise BadDefinition(f"Registry option {name}: {value!r} is no number of 0 or more")
    return value


def _require_whole(url: str, options: Mapping[str, Any], files: Mapping[str, str]) -> None:
    if "ssl.key.location" in files and "ssl.certificate.location" not in files:
        raise BadDefinition("Registry option ssl.key.location goes with ssl.certificate.location")
    if "basic.auth.user.info" in options:
        if ":" not in options["basic.auth.user.info"]:
            raise BadDefinition("Registry option basic.auth.user.info: it must be USER:PASSWORD")
        if urlsplit(url).username:
            raise BadDefinition("Registry option basic.auth.user.info: the address has a login, too")
    if any(name.startswith("bearer.") for name in options) and LOGIN_SOURCE not in options:
        raise BadDefinition(f"Registry option {LOGIN_SOURCE} is missing: STATIC_TOKEN, OAUTHBEARER or {AS_KAFKA}")
