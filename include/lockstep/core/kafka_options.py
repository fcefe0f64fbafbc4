"""Checks Kafka client options in the words of both client libraries, and translates them."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from lockstep.core.errors import BadDefinition
from lockstep.core.login import mechanisms as logins

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# librdkafka's name to Java's, where the values are the same.
SAME = {
    "client.id": "client.id",
    "client.rack": "client.rack",
    "client.dns.lookup": "client.dns.lookup",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "fetch.max.bytes": "fetch.max.bytes",
    "max.partition.fetch.bytes": "max.partition.fetch.bytes",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "retry.backoff.ms": "retry.backoff.ms",
    "sasl.kerberos.service.name": "sasl.kerberos.service.name",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.oauthbearer.sub.claim.name": "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
    "security.protocol": "security.protocol",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.key.password": "ssl.key.password",
}
OF_JAVA = {java: ours for ours, java in SAME.items()}
METHOD, CLIENT_CREDENTIALS = "sasl.oauthbearer.method", "oidc"  # librdkafka's name of the one way that is taken
KAFKA_WORD_OPTIONS = {
    "security.protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "sasl.mechanism": tuple(logins.MECHANISMS),
    "ssl.endpoint.identification.algorithm": ("none", "https"),  # none is empty in Java
}
KAFKA_FILE_OPTIONS = {
    "https.ca.location": "https.ca.pem",
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}
ALIASES = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "ssl.truststore.location": "ssl.ca.location",
}
SECRET = frozenset({"sasl.oauthbearer.client.secret", "sasl.password", "ssl.key.pem", "ssl.key.password"})
OURS = {
    "acks": "a relay waits for all replicas in sync",
    "allow.auto.create.topics": "a topic that is gone must not come back empty",
    "auto.offset.reset": "offsets come from the ledger",
    "bootstrap.servers": "it stands in LOCKSTEP_KAFKA, or in the connection's extra",
    "enable.auto.commit": "offsets are committed in Postgres",
    "group.id": "offsets are assigned, no group hands them out",
    "group.instance.id": "offsets are assigned, no group hands them out",
    "heartbeat.interval.ms": "offsets are assigned, no group hands them out",
    "interceptor.classes": "nothing may change records on their way",
    "isolation.level": "only what was committed is read",
    "key.deserializer": "decoding is the pipeline's format",
    "max.poll.interval.ms": "offsets are assigned, no group hands them out",
    "session.timeout.ms": "offsets are assigned, no group hands them out",
    "transactional.id": "a relay has one of its own",
    "value.deserializer": "decoding is the pipeline's format",
}
# Options in a connection for Airflow's own consumers and producers. They make no difference to us.
FOR_OTHERS = frozenset(
    {"acks", "auto.offset.reset", "enable.auto.commit", "group.id", "group.instance.id", "heartbeat.interval.ms"}
    | {"isolation.level", "max.poll.interval.ms", "session.timeout.ms"}
)
LOGINS_PAGE = "docs/kafka.md says which logins there are"
PEM_ONLY = "PEM"


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """Client options that have passed the allowlist, in librdkafka's names. `repr` shows names alone."""

    values: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(name for name, _ in self.values))

    @property
    def mechanism(self) -> str | None:
        """Returns how the client logs in, or None if it has no login, or a certificate."""
        return dict(self.values).get("sasl.mechanism")

    def for_librdkafka(self) -> dict[str, str]:
        """Returns the options as confluent-kafka takes them. A login at MSK also needs a callback."""
        ours = dict(self.values)
        if self.mechanism == logins.OAUTHBEARER:
            ours[METHOD] = CLIENT_CREDENTIALS
        elif self.mechanism == logins.MSK_IAM:  # it takes that login's tokens by this name, too
            ours["sasl.mechanism"] = logins.OAUTHBEARER
            del ours["aws.region"]
        return ours

    def hidden(self, text: str) -> str:
        """Returns a foreign text in one line, without this login's secrets. A server may repeat what it was sent."""
        for secret in (value for name, value in self.values if name in SECRET and value):
            text = text.replace(secret, "***")
        return " ".join(line.strip() for line in text.splitlines())

    def inlined(self, read: Callable[[str], str]) -> KafkaOptions:
        """Returns the options with each file's content in place of its path. Their receiver then needs no file."""
        return KafkaOptions(
            tuple(
                sorted(
                    (KAFKA_FILE_OPTIONS[name], read(value)) if name in KAFKA_FILE_OPTIONS else (name, value)
                    for name, value in self.values
                )
            )
        )


def kafka_options(given: Mapping[str, Any]) -> KafkaOptions:
    """Checks a client's options, in the words of either library.

    Raises `BadDefinition` that names what may not be set.
    """
    found: dict[str, str] = {}
    for name, value in given.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        for ours, translated in _translated(ALIASES.get(name, name), text).items():
            if found.setdefault(ours, translated) != translated:
                raise BadDefinition(f"Kafka option {name}: it says something else than {ours} does")
    _require_whole(found)
    return KafkaOptions(tuple(sorted(found.items())))


def from_extra(extra: Mapping[str, Any]) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    """Splits an Airflow connection's extra into bootstrap servers, our options, and names that it leaves out.

    Those names are options for Airflow's own consumers and producers alone.
    """
    options = dict(extra)
    bootstrap = options.pop("bootstrap.servers", None)
    if not bootstrap:
        raise BadDefinition("the Kafka connection's extra has no bootstrap.servers")
    left_out = tuple(sorted(options.keys() & FOR_OTHERS))
    return str(bootstrap), {name: value for name, value in options.items() if name not in FOR_OTHERS}, left_out


def _translated(name: str, value: str) -> dict[str, str]:
    """Returns one option in librdkafka's names. Refuses an unknown option, and one that only Lockstep sets."""
    if name in OURS:
        raise BadDefinition(f"Kafka option {name} is not yours to set: {OURS[name]}")
    if name in SPECIAL:
        return SPECIAL[name](name, value)
    if name in KAFKA_WORD_OPTIONS:
        return {name: _one_of(name, value, KAFKA_WORD_OPTIONS[name], LOGINS_PAGE if name == "sasl.mechanism" else "")}
    if name in SAME or name in KAFKA_FILE_OPTIONS or name in logins.LOGIN_OPTIONS:
        return {name: value}
    if name in OF_JAVA:
        return {OF_JAVA[name]: value}
    raise _unknown(name)


def _unknown(name: str) -> BadDefinition:
    known = [*SAME, *OF_JAVA, *KAFKA_WORD_OPTIONS, *logins.LOGIN_OPTIONS, *KAFKA_FILE_OPTIONS, *ALIASES, *SPECIAL]
    near = get_close_matches(name, known, 1)
    return BadDefinition(f"Kafka option {name} is not on the list" + (f"; did you mean {near[0]}?" if near else ""))


def _one_of(name: str, value: str, allowed: tuple[str, ...], more: str) -> str:
    said = value or "none"
    for word in allowed:
        if word.lower() == said.lower():
            return word
    raise BadDefinition(
        f"Kafka option {name}: {value} is not one of {', '.join(allowed)}" + (f"; {more}" if more else "")
    )


def _require_whole(found: Mapping[str, str]) -> None:
    for file, text in KAFKA_FILE_OPTIONS.items():
        if file in found and text in found:
            raise BadDefinition(f"Kafka options {file} and {text} say the same thing twice")
    chain, key = ({"ssl.certificate.pem", "ssl.certificate.location"}, {"ssl.key.pem", "ssl.key.location"})
    if bool(chain & found.keys()) != bool(key & found.keys()):
        raise BadDefinition("Kafka options: a client's certificate and its key go together")
    _require_legal(found)
    logins.require_whole_login(found)


def _require_legal(found: Mapping[str, str]) -> None:
    for name, value in found.items():
        if name.endswith((".ms", ".bytes")) and not value.isdecimal():
            raise BadDefinition(f"Kafka option {name}: {value} is no number")


def _only_client_credentials(name: str, value: str) -> dict[str, str]:
    _one_of(name, value, (CLIENT_CREDENTIALS,), LOGINS_PAGE)
    return {}


def _only_pem(name: str, value: str) -> dict[str, str]:
    if value.upper() != PEM_ONLY:
        raise BadDefinition(f"Kafka option {name}: {value} is not read; convert it to PEM")
    return {}


SPECIAL = {
    "sasl.jaas.config": logins.login_of_jaas,
    "ssl.truststore.type": _only_pem,
    "ssl.keystore.type": _only_pem,
    METHOD: _only_client_credentials,
    **dict.fromkeys(logins.CALLBACK_OPTIONS, logins.require_callback),
}
