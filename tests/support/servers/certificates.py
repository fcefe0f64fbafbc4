"""Makes certificates for a test: an authority and the identities that it vouches for, as PEM files."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from pathlib import Path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass
class Identity:
    """A certificate with its key."""

    chain: Path
    key: Path

    def both(self) -> Path:
        """Returns one file with the key and the certificate, as Kafka's keystore wants it."""
        file = self.chain.with_suffix(".both")
        file.write_text(self.key.read_text() + self.chain.read_text())
        return file


class Authority:
    """An authority that signs certificates. `ca` is the certificate by which others trust it."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder / name
        self.folder.mkdir()
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._certificate = self._sign(_name(name), self._key.public_key(), is_authority=True)
        self.ca = self.folder / "ca.pem"
        self.ca.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def identity(self, name: str) -> Identity:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        certificate = self._sign(_name(name), key.public_key(), is_authority=False)
        made = Identity(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        made.chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        made.key.write_bytes(key.private_bytes(*form))
        return made

    def _sign(self, subject: x509.Name, public_key, *, is_authority: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        issuer = subject if is_authority else self._certificate.subject
        names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(names, critical=False)
        )
        return builder.sign(self._key, hashes.SHA256())
