"""Runs a broker that lets in clients with a token that its issuer has signed. It looks the issuer's keys up itself."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockstep.adapters import java
from lockstep.dev.servers import kafka as embedded
from lockstep.dev.servers import ports
from lockstep.dev.setup import jars
from support.fakes.issuer import AUDIENCE, CLIENT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.fakes.issuer import Issuer

WORDS = "org.apache.kafka.common.security.oauthbearer"
LISTENER = "listener.name.sasl_plaintext.oauthbearer"
ONE_HOUR_MS = 3_600_000


@dataclass
class TokenBroker:
    """A broker with an open listener for the test, and one that asks for a token."""

    plain: str
    address: str
    issuer: Issuer

    def options(self, **others: str) -> dict[str, str]:
        """Returns the client's options. `others` replace some, their dots written as underscores."""
        given = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": self.issuer.secret,
            "sasl.oauthbearer.token.endpoint.url": f"{self.issuer.url}/token",
        }
        return given | {name.replace("_", "."): value for name, value in others.items()}

    def throttle(self, bytes_per_second: int) -> None:
        """Lets each client read so many bytes a second from now on."""
        command = [
            str(java.find_java()),
            "-cp",
            f"{jars.broker_jars()}/*",
            "kafka.admin.ConfigCommand",
            "--alter",
        ]
        command += ["--bootstrap-server", self.plain, "--entity-type", "clients", "--entity-default"]
        command += ["--add-config", f"consumer_byte_rate={bytes_per_second}"]
        subprocess.run(command, check=True, capture_output=True, timeout=60)


@contextmanager
def token_broker(home: Path, issuer: Issuer) -> Iterator[TokenBroker]:
    """Runs the broker. It ends a connection whose token has ended, unless the client has sent a new one."""
    port = ports.choose(home)
    door = ports.choose(home, taken=[port])
    keys = f"{issuer.url}/keys"
    more = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{LISTENER}.sasl.jaas.config": f"{WORDS}.OAuthBearerLoginModule required;",
        f"{LISTENER}.sasl.server.callback.handler.class": f"{WORDS}.OAuthBearerValidatorCallbackHandler",
        f"{LISTENER}.connections.max.reauth.ms": str(ONE_HOUR_MS),  # or the token's own end
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": "tests",
        "sasl.oauthbearer.clock.skew.seconds": "0",
    }
    os.environ["JDK_JAVA_OPTIONS"] = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"
    try:
        broker = embedded.start(home, port, doors={"SASL_PLAINTEXT": door}, more=more)
    finally:
        del os.environ["JDK_JAVA_OPTIONS"]
    try:
        yield TokenBroker(broker.bootstrap, f"127.0.0.1:{door}", issuer)
    finally:
        embedded.stop(broker)
