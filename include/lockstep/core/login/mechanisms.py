"""Lists the ways to log in at Kafka: the options of each, and how Java's words name them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from lockstep.core.errors import BadDefinition
from lockstep.core.login.jaas import read_jaas

if TYPE_CHECKING:
    from collections.abc import Mapping

OAUTHBEARER, MSK_IAM, GSSAPI = "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - an option's name
EXTENSIONS, EXTENSION = "sasl.oauthbearer.extensions", "extension_"
HTTPS_CA = "https.ca.pem"
CALLBACK_OPTIONS = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class")
_OF_KAFKA = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One way to log in: what it needs, what it may have, and Java's module for it.

    `jaas` names the module's option for each of ours. `always` are further options of the module, `java` of the client.
    """

    name: str
    needs: tuple[str, ...]
    module: str
    jaas: Mapping[str, str]
    may: tuple[str, ...] = ()
    always: Mapping[str, str] = field(default_factory=dict)
    java: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> tuple[str, ...]:
        """Returns all options that this login may have."""
        return self.needs + self.may


_PASSWORD = {"sasl.username": "username", "sasl.password": "password"}
_SCRAM = f"{_OF_KAFKA}.scram.ScramLoginModule"
_ALL = (
    Mechanism("PLAIN", tuple(_PASSWORD), f"{_OF_KAFKA}.plain.PlainLoginModule", _PASSWORD),
    Mechanism("SCRAM-SHA-256", tuple(_PASSWORD), _SCRAM, _PASSWORD),
    Mechanism("SCRAM-SHA-512", tuple(_PASSWORD), _SCRAM, _PASSWORD),
    Mechanism(
        OAUTHBEARER,
        ("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret", TOKEN_URL),
        f"{_OF_KAFKA}.oauthbearer.OAuthBearerLoginModule",
        {
            "sasl.oauthbearer.client.id": "clientId",
            "sasl.oauthbearer.client.secret": "clientSecret",
            "sasl.oauthbearer.scope": "scope",
            HTTPS_CA: "ssl.truststore.certificates",
        },
        ("sasl.oauthbearer.scope", EXTENSIONS, "sasl.oauthbearer.sub.claim.name", HTTPS_CA, "https.ca.location"),
        java={CALLBACK_OPTIONS[0]: f"{_OF_KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler"},
    ),
    Mechanism(
        MSK_IAM,
        ("aws.region",),
        "software.amazon.msk.auth.iam.IAMLoginModule",
        {},
        java={CALLBACK_OPTIONS[1]: "software.amazon.msk.auth.iam.IAMClientCallbackHandler"},
    ),
    Mechanism(
        GSSAPI,
        ("sasl.kerberos.service.name", "sasl.kerberos.principal", "sasl.kerberos.keytab"),
        "com.sun.security.auth.module.Krb5LoginModule",
        {"sasl.kerberos.principal": "principal", "sasl.kerberos.keytab": "keyTab"},
        always={"useKeyTab": "true", "storeKey": "true"},
    ),
)
MECHANISMS: Mapping[str, Mechanism] = {each.name: each for each in _ALL}
LOGIN_OPTIONS = tuple(sorted({name for each in _ALL for name in each.options}))


def login_of_jaas(_name: str, text: str) -> dict[str, str]:
    """Returns the options of a login in JAAS text, in our words."""
    module, options = read_jaas(text) or ("", {})
    mechanisms = [each for each in _ALL if each.module == module]
    if not mechanisms:
        raise BadDefinition(
            "Kafka option sasl.jaas.config: it names no login module that is taken; docs/kafka.md says which"
        )
    ours = {java: name for name, java in mechanisms[0].jaas.items()}
    found = {"sasl.mechanism": mechanisms[0].name} if len(mechanisms) == 1 else {}
    extensions = {}
    for name, value in options.items():
        if name in ours:
            found[ours[name]] = value
        elif name.startswith(EXTENSION) and module == MECHANISMS[OAUTHBEARER].module:
            extensions[name.removeprefix(EXTENSION)] = value
        elif mechanisms[0].always.get(name) != value and (name, value) != ("ssl.truststore.type", "PEM"):
            known = ", ".join(sorted(ours.values()))
            raise BadDefinition(
                f"Kafka option sasl.jaas.config: {name} is not taken of {module.rpartition('.')[2]}; it has {known}"
            )
    if extensions:
        found[EXTENSIONS] = ",".join(f"{name}={value}" for name, value in extensions.items())
    return found


def require_callback(name: str, value: str) -> dict[str, str]:
    """Refuses every class but the one that a mechanism brings itself. It says nothing more than its mechanism does."""
    known = [each.java[name] for each in _ALL if name in each.java]
    if value.replace(".oauthbearer.secured.", ".oauthbearer.") not in known:
        raise BadDefinition(f"Kafka option {name}: only {', '.join(known)} is taken")
    return {}


def require_whole_login(found: Mapping[str, str]) -> None:
    """Refuses an incomplete login. Without its protocol, a login would go out in the clear."""
    said, given = found.get("sasl.mechanism"), [name for name in found if name in LOGIN_OPTIONS]
    if said is None:
        if given:
            raise _bad(f"{given[0]} is set, and sasl.mechanism is not")
        if found.get("security.protocol", "").startswith("SASL_"):
            raise _bad("sasl.mechanism is not set, and goes with security.protocol SASL_SSL or SASL_PLAINTEXT")
        return
    if not found.get("security.protocol", "").startswith("SASL_"):
        raise _bad("sasl.mechanism goes with security.protocol SASL_SSL or SASL_PLAINTEXT")
    mechanism = MECHANISMS[said]
    if other := next((name for name in given if name not in mechanism.options), None):
        raise _bad(f"{other} is set, and sasl.mechanism {said} does not take it")
    if missing := next((name for name in mechanism.needs if not found.get(name)), None):
        raise _bad(f"{missing} is not set, and sasl.mechanism {said} needs it")
    _require_legal(found, given)


def _require_legal(found: Mapping[str, str], given: list[str]) -> None:
    for name in given:
        if not name.startswith("https.ca.") and not found[name].isprintable():
            raise _bad(f"{name}: it holds a character that cannot be printed")
    _require_legal_url(found.get(TOKEN_URL))
    if EXTENSIONS in found and not all(_extensions(found[EXTENSIONS]).values()):
        raise _bad(f"{EXTENSIONS}: it must be NAME=VALUE,NAME=VALUE with names of letters")


def _require_legal_url(url: str | None) -> None:
    if url is None:
        return
    try:
        parts = urlsplit(url)
        whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise _bad(f"{TOKEN_URL}: it is no address such as https://host/token") from None
    if "@" in parts.netloc:  # it would stand in messages
        raise _bad(f"{TOKEN_URL}: it must hold no login; sasl.oauthbearer.client.id and its secret are that")
    if not whole or parts.fragment or any(each in url for each in ' ,"\\'):
        raise _bad(f"{TOKEN_URL}: it is no address such as https://host/token")


def _extensions(text: str) -> dict[str, str]:
    """Returns the extensions by name. An illegal name has no value."""
    pairs = [each.partition("=") for each in text.split(",") if text]
    return {
        name.strip(): value if name.strip().isalpha() and name.strip().isascii() else "" for name, _, value in pairs
    }


def _bad(what: str) -> BadDefinition:
    return BadDefinition(f"Kafka option {what}")
