"""Gives the wheel's Java the certificate authorities that this machine trusts, a company's own among them."""

from __future__ import annotations

import re
import ssl
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, serialize_java_truststore
from cryptography.utils import CryptographyDeprecationWarning

from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Mapping

_USUAL = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
# Java asks for a password even where nothing is secret, and this is the one that it expects.
_WORD = "changeit"


def options(file: Path, environ: Mapping[str, str] = ENVIRONMENT) -> list[str]:
    """Writes the machine's authorities to the file. Returns Java's options to trust them, or none without a list."""
    if (bundle := _bundle(environ)) is None or not (trusted := _certificates(bundle)):
        return []
    named = [PKCS12Certificate(one, str(place).encode()) for place, one in enumerate(trusted)]
    file.write_bytes(serialize_java_truststore(named, BestAvailableEncryption(_WORD.encode())))
    settings = {"trustStore": str(file), "trustStoreType": "PKCS12", "trustStorePassword": _WORD}
    return [f"-Djavax.net.ssl.{name}={value}" for name, value in settings.items()]


def _bundle(environ: Mapping[str, str]) -> Path | None:
    places = (environ.get("SSL_CERT_FILE"), ssl.get_default_verify_paths().cafile, *_USUAL)
    return next((Path(place) for place in places if place and Path(place).is_file()), None)


def _certificates(bundle: Path) -> list[x509.Certificate]:
    found: list[x509.Certificate] = []
    # Bundles hold some that are older than today's rules: one of them must not cost the rest, nor a line on the screen.
    for pem in _PEM.findall(bundle.read_bytes()):
        with suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            found.append(x509.load_pem_x509_certificate(pem))
    return found
