"""Checks the options of the lake's object store, in the words of Iceberg's own readers."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lockstep.core.errors import BadDefinition, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ENDPOINT = "s3.endpoint"
KEY_ID, SECRET_KEY, SESSION_TOKEN = "s3.access-key-id", "s3.secret-access-key", "s3.session-token"
ROLE, ROLE_SESSION = "s3.role-arn", "s3.role-session-name"
REGION = "s3.region"
PATH_STYLE = "s3.path-style-access"
CA_FILE, CA_TEXT = "s3.ca.location", "s3.ca.pem"
LAKE_OPTIONS = (
    *(ENDPOINT, REGION, KEY_ID, SECRET_KEY, SESSION_TOKEN, ROLE, ROLE_SESSION),
    *(PATH_STYLE, CA_FILE, CA_TEXT),
)
LAKE_SECRETS = frozenset({KEY_ID, SECRET_KEY, SESSION_TOKEN})


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """Options of a store that have passed the allowlist. `repr` shows names alone.

    Without a key, each machine logs in as its own environment says.
    """

    values: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(name for name, _ in self.values))

    def hidden(self, text: str) -> str:
        """Returns a foreign text in one line, without this login's keys. A store may repeat what it was sent."""
        for secret in sorted((value for name, value in self.values if name in LAKE_SECRETS), key=len, reverse=True):
            text = text.replace(secret, "***")
        return " ".join(text.split())

    def inlined(self, read: Callable[[str], str]) -> LakeOptions:
        """Returns the options with the certificate in place of its file. Their receiver then needs no file."""
        return LakeOptions(
            tuple(sorted((CA_TEXT, read(value)) if name == CA_FILE else (name, value) for name, value in self.values))
        )


def lake_options(given: Mapping[str, Any]) -> LakeOptions:
    """Checks a store's options. Raises `BadDefinition` that names what may not be set, and never repeats a value."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if name not in LAKE_OPTIONS:
            near = get_close_matches(name, LAKE_OPTIONS, 1)
            raise BadDefinition(
                f"lake option {quoted(name)} is not on the list" + (f"; did you mean {near[0]}?" if near else "")
            )
        found[name] = (str(value).lower() if isinstance(value, bool) else str(value)).strip()
        if not found[name]:
            raise BadDefinition(f"lake option {name} is empty")
    _require_whole(found)
    return LakeOptions(tuple(sorted(found.items())))


def _require_whole(found: Mapping[str, str]) -> None:
    if (KEY_ID in found) != (SECRET_KEY in found):
        raise BadDefinition(f"lake options {KEY_ID} and {SECRET_KEY} go together")
    if SESSION_TOKEN in found and KEY_ID not in found:
        raise BadDefinition(f"lake option {SESSION_TOKEN} goes with {KEY_ID}")
    if ROLE in found and KEY_ID in found:
        raise BadDefinition(
            f"lake options {ROLE} and {KEY_ID}: one of the two, for a role is taken by the machine's login"
        )
    if CA_FILE in found and CA_TEXT in found:
        raise BadDefinition(f"lake options {CA_FILE} and {CA_TEXT} say the same thing twice")
    if found.get(PATH_STYLE, "true") not in ("true", "false"):
        raise BadDefinition(f"lake option {PATH_STYLE} is true or false")
    if ENDPOINT in found:
        _require_endpoint(found[ENDPOINT])


def _require_endpoint(address: str) -> None:
    """Refuses an endpoint that is no plain address of a server. It may hold a password, and is not repeated."""
    try:
        parts = urlsplit(address)
        plain = not (parts.query or parts.fragment or parts.username or parts.password) and parts.path in ("", "/")
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        plain = good = False
    if not (plain and good):
        raise BadDefinition(f"lake option {ENDPOINT} is no http://HOST:PORT or https://HOST:PORT")
