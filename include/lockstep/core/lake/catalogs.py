"""Defines a catalog elsewhere: an Iceberg REST catalog that is not in the ledger's database, and its settings."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lockstep.core.errors import Refusal
from lockstep.core.lake.iceberg import refuse_bad_catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

CATALOG_PREFIX = "LOCKSTEP_CATALOG_"
CATALOG_PATIENCE_SECONDS = 60.0  # for one answer of a catalog, and for the outcome of a commit without an answer
ALLOWED_OPTIONS = frozenset({"type", "uri", "warehouse", "credential", "token", "scope", "audience", "resource"})
ALLOWED_OPTIONS |= {"oauth2-server-uri", "patience"}
OF_STORES = ("s3.", "gcs.", "adls.")  # options of the file systems that tables lie in, by pyiceberg's names
_SECRET = re.compile(r"token|secret|credential|password|access-key|account-key|sas|signature", re.IGNORECASE)
MIN_SECRET_SIZE = 4  # characters. A shorter one would blacken every line


@dataclass(frozen=True, slots=True)
class Catalog:
    """The catalog that `Iceberg(..., catalog=NAME)` names.

    Its settings stand in `LOCKSTEP_CATALOG_NAME`, or in the Airflow connection `lockstep_catalog_name`.
    """

    name: str

    def __post_init__(self) -> None:
        refuse_bad_catalog(self.name)

    @property
    def variable(self) -> str:
        """Returns the environment variable that holds the settings."""
        return f"{CATALOG_PREFIX}{self.name}"

    def __str__(self) -> str:
        return f"catalog {self.name}"


@dataclass(frozen=True, slots=True)
class CatalogSettings:
    """The settings of a catalog, as pyiceberg takes them. `patience` is in seconds."""

    name: str
    properties: Mapping[str, str] = field(repr=False)
    patience: float = CATALOG_PATIENCE_SECONDS

    @property
    def variable(self) -> str:
        """Returns the environment variable that holds the settings."""
        return f"{CATALOG_PREFIX}{self.name}"

    def without_secrets(self, text: str) -> str:
        """Returns the first line of a text, shortened, and without any secret of these settings."""
        values = [value for name, value in self.properties.items() if _SECRET.search(name)]
        values += [part for value in values for part in value.split(":")]
        line = " ".join(text.split())
        for value in sorted(values, key=len, reverse=True):
            if len(value) >= MIN_SECRET_SIZE:
                line = line.replace(value, "***")
        return line[:300]


def catalog_settings(catalog: Catalog, options: Mapping[str, object]) -> CatalogSettings:
    """Returns the settings of these options. Raises `Refusal` for an option that is not allowed. Repeats no value."""

    def bad(why: str) -> Refusal:
        return Refusal(f"{catalog.variable}: {why}", next_command=f"correct {catalog.variable}, then lockstep doctor")

    for name in options:
        if name not in ALLOWED_OPTIONS and not name.startswith(OF_STORES):
            known = ", ".join([*sorted(ALLOWED_OPTIONS), *(f"{each}*" for each in OF_STORES)])
            raise bad(f"the option {name!r} is not taken; these are: {known}")
    given = {name: str(value) for name, value in options.items()}
    if given.pop("type", "rest") != "rest":
        raise bad("type must be rest: no other catalog is spoken to")
    try:
        patience = float(given.pop("patience", CATALOG_PATIENCE_SECONDS))
        address = urlsplit(given.get("uri", ""))
        holds_login = address.username is not None or address.password is not None
    except ValueError:
        raise bad("uri must be http://HOST or https://HOST, and patience a number of seconds") from None
    if address.scheme not in {"http", "https"} or not address.hostname or not 0 < patience < float("inf"):
        raise bad("uri must be http://HOST or https://HOST, and patience a number of seconds")
    if holds_login or address.query:
        raise bad("uri holds a login or a query: say credential or token instead")
    return CatalogSettings(catalog.name, given, patience)
