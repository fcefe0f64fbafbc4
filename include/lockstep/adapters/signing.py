"""Reads Ed25519 keys from PEM files, signs certificates and verifies them. `openssl` makes and reads the same files."""

from __future__ import annotations

import base64
import binascii
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

ALGORITHM = "Ed25519"
MAKE = "openssl genpkey -algorithm ed25519 -out signing.pem"
MAKE_PUBLIC = "openssl pkey -in signing.pem -pubout -out public.pem"


def private_key(path: str) -> Ed25519PrivateKey:
    """Returns the private key of a PEM file. Raises `Refusal` if it holds none."""
    key = _read(path, lambda content: load_pem_private_key(content, None), MAKE)
    if not isinstance(key, Ed25519PrivateKey):
        raise Refusal(f"{path} holds a key of another kind than {ALGORITHM}", next_command=MAKE)
    return key


def public_key(path: str) -> Ed25519PublicKey:
    """Returns the public key of a PEM file. Raises `Refusal` if it holds none."""
    key = _read(path, load_pem_public_key, MAKE_PUBLIC)
    if not isinstance(key, Ed25519PublicKey):
        raise Refusal(f"{path} holds a key of another kind than {ALGORITHM}", next_command=MAKE_PUBLIC)
    return key


def key_name(key: Ed25519PublicKey) -> str:
    """Returns the name that a certificate gives its key: the SHA-256 of the public key in DER, hexadecimal."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def sign(key: Ed25519PrivateKey, payload: bytes) -> str:
    """Returns the signature of the payload, in base64."""
    return base64.b64encode(key.sign(payload)).decode()


def proves(key: Ed25519PublicKey, payload: bytes, signature: str) -> bool:
    """Returns True if the private key of this public key signed these bytes."""
    try:
        key.verify(base64.b64decode(signature, validate=True), payload)
    except (InvalidSignature, binascii.Error):
        return False
    return True


def _read(path: str, load: Callable[[bytes], object], next_command: str) -> object:
    try:
        return load(Path(path).read_bytes())
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}", next_command=next_command) from None
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        why = str(error).split(".", maxsplit=1)[0]
        raise Refusal(f"{path} holds no such key in PEM: {why}", next_command=next_command) from None
