"""Provides an issuer of tokens: client credentials over real HTTP, RS256, a JWKS, and a switch for its faults."""

from __future__ import annotations

import base64
import json
import ssl
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from joserfc import jwt
from joserfc.jwk import RSAKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.servers.certificates import Identity

AUDIENCE, CLIENT = "kafka", "lockstep"


class Issuer(ThreadingHTTPServer):
    """Gives a token of `seconds` to whoever knows `secret`. `trouble` answers (status, body) instead.

    `given` holds each token's time, program and scope. `forged` signs by a key that the JWKS does not have. `fixed` is a
    token for a server that compares it.
    """

    daemon_threads = True

    def __init__(self, secret: str, identity: Identity | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Door)
        self.secret, self.seconds = secret, 3600.0
        self.trouble: tuple[int, bytes] | None = None
        self.forged, self.fixed = False, ""
        self.given: list[tuple[float, str, str]] = []
        self._key, self._other = (RSAKey.generate_key(2048, {"kid": "ours", "use": "sig"}) for _ in range(2))
        self._scheme = "https" if identity else "http"
        if identity:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(identity.chain, identity.key)
            self.socket = context.wrap_socket(self.socket, server_side=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server_port}"

    @property
    def login(self) -> str:
        """Returns the header of whoever knows the secret."""
        return f"Basic {base64.b64encode(f'{CLIENT}:{self.secret}'.encode()).decode()}"

    def sign_as(self, other: Issuer) -> None:
        """Signs with the other's key from now on."""
        self._key = other._key

    def keys(self) -> bytes:
        return json.dumps({"keys": [self._key.as_dict(private=False)]}).encode()

    def token(self, program: str = "", scope: str = "") -> str:
        now = time.time()
        claims = {"iss": "tests", "aud": AUDIENCE, "sub": CLIENT, "iat": int(now), "exp": int(now + self.seconds)}
        self.given.append((now, program, scope))
        key = self._other if self.forged else self._key
        return self.fixed or jwt.encode({"alg": "RS256", "kid": "ours"}, claims | {"scope": scope or "read"}, key)

    def handle_error(self, *_: object) -> None:
        """Says nothing of a client that went away, or that does not trust us."""


class Door(BaseHTTPRequestHandler):
    """The JWKS at /keys, tokens at /token."""

    server: Issuer

    def do_GET(self) -> None:
        self._answer(200, self.server.keys())

    def do_POST(self) -> None:
        asked = parse_qs(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
        if self.server.trouble:
            self._answer(*self.server.trouble)
        elif self.headers.get("Authorization") != self.server.login or asked.get("grant_type") != [
            "client_credentials"
        ]:
            # It repeats the secret, which no message of ours may show.
            given = base64.b64decode(self.headers.get("Authorization", "").partition(" ")[2]).decode()
            self._answer(
                401, json.dumps({"error": "invalid_client", "error_description": f"no\nlogin {given}"}).encode()
            )
        else:
            token = self.server.token(self.headers.get("User-Agent", ""), asked.get("scope", [""])[0])
            answer = {"access_token": token, "token_type": "Bearer", "expires_in": int(self.server.seconds)}
            self._answer(200, json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def serving(issuer: Issuer) -> Iterator[Issuer]:
    """Answers while the block runs."""
    Thread(target=issuer.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield issuer
    finally:
        issuer.shutdown()
        issuer.server_close()
