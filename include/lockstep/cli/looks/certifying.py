"""Defines `certificate`, which signs a statement of a batch's or an hour's commits.

`verify --certificate` proves its file.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.cli.history import refuse_unknown
from lockstep.cli.options import BatchOption, Name
from lockstep.cli.output import say, show
from lockstep.context.systems import open_ledger
from lockstep.core.errors import Refusal
from lockstep.core.planning.bounds import moment_of
from lockstep.core.settings import ENVIRONMENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lockstep.core.proof.certificate import CertificateDocument

SIGNING_KEY, PUBLIC_KEY = "LOCKSTEP_SIGNING_KEY", "LOCKSTEP_PUBLIC_KEY"

Hour = Annotated[
    str | None, typer.Option(help="The hour that begins then, an ISO time such as 2026-11-23T05.", show_default=False)
]
SigningKeyOption = Annotated[
    str | None,
    typer.Option(
        help=f"The private key that signs, Ed25519 in PEM; {SIGNING_KEY} without it.",
        metavar="FILE",
        show_default=False,
    ),
]


def certificate_command(name: Name, hour: Hour = None, batch: BatchOption = None, key: SigningKeyOption = None) -> None:
    """Certify the commits of a batch or an hour: one signed JSON document.

    It holds the offsets, counts, digests of contents, code and verdict of each commit. These are links of the
    pipeline's chain, and the chain's newest link is added. `lockstep verify --certificate FILE` proves it without a
    ledger. The ledger never holds the key.
    """
    from lockstep.adapters import signing
    from lockstep.core.proof.certificate import canonical, envelope
    from lockstep.steps.proof import certificate as make

    if (hour is None) == (batch is None):
        raise typer.BadParameter("one of the two, please", param_hint="--hour, --batch")
    until = None if hour is None else _hour(hour)
    refuse_unknown(name)
    private = signing.private_key(_path(key, SIGNING_KEY, "--key", signing.MAKE))
    now = datetime.now(UTC)
    with open_ledger() as conn:
        document = (
            make.of_hour(conn, name, until, now) if until else make.certificate_of_batch(conn, name, batch or 0, now)
        )
    signature = signing.sign(private, canonical(document))
    sys.stdout.write(envelope(document, signing.ALGORITHM, signing.key_name(private.public_key()), signature))


def prove(file: str, key: str | None, name: str | None, as_json: bool) -> None:
    """Proves a certificate: signature, digests, totals, each byte of the file, and with `name` the ledger's chain."""
    from lockstep.adapters import signing

    public = signing.public_key(_path(key, PUBLIC_KEY, "--public-key", signing.MAKE_PUBLIC))
    text, read = _read(file)
    document = read["certificate"]
    wrong = list(_wrong(text, read, public))
    if name is not None and not wrong:
        refuse_unknown(name)
        wrong += _beside_ledger(name, document)
    erased = _erased_since(document) if name is not None and not wrong else []
    proved = {"file": file, "ok": not wrong, "wrong": wrong, "against_ledger": name is not None, "erased": erased}

    def for_people() -> None:
        for each in wrong:
            say(f"NO  {each}")
        beside = "" if name is None else ", and the ledger holds the same chain"
        say(f"{file}: {'NOT proved' if wrong else _conclusion(document) + beside}.")
        for each in erased:
            say(each)

    show(proved, as_json, for_people)
    if wrong:
        raise typer.Exit(1)


def _wrong(text: bytes, read: Mapping[str, Any], public: Any) -> Iterator[str]:
    from lockstep.adapters import signing
    from lockstep.core.proof.certificate import canonical, envelope, mistakes

    document, signature = read["certificate"], read["signature"]
    if signature["key"] != signing.key_name(public):
        yield f"it is signed by key {signature['key']}, and the public key is {signing.key_name(public)}"
    if signature["algorithm"] != signing.ALGORITHM or not signing.proves(
        public, canonical(document), signature["value"]
    ):
        yield "the signature is not of this content"
        return
    if text != envelope(document, signature["algorithm"], signature["key"], signature["value"]).encode():
        yield "the file's bytes are not those that were written"
    yield from mistakes(document)


def _beside_ledger(pipeline: str, document: CertificateDocument) -> list[str]:
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.changes.forgotten import name_now
    from lockstep.steps.proof.certificate import beside_ledger

    with open_ledger() as conn:
        with transaction(conn, READER) as cur:
            its = name_now(cur, document["pipeline"])
        if its != pipeline:
            return [f"it is of pipeline {document['pipeline']}, not of {pipeline}"]
        return list(beside_ledger(conn, document | {"pipeline": its}))


def _erased_since(document: CertificateDocument) -> list[str]:
    """Lists the rows that erasures removed from the certified batches.

    A certificate says what was committed, not what is still there.
    """
    from lockstep.adapters.postgres import READER, transaction
    from lockstep.ledger.changes import erasures

    batches = sorted({json.loads(link["record"])["batch"] for link in document["links"]})
    with open_ledger() as conn, transaction(conn, READER) as cur:
        return [
            f"batch {batch}: decision {row.decision_id} has erased {row.rows or 0} rows and {row.rejects or 0} rejects since"
            for batch in batches
            for row in erasures.erased_of_batch(cur, batch)
        ]


def _conclusion(document: CertificateDocument) -> str:
    of, totals = document["of"], document["totals"]
    what = f"batch {of['batch']}" if of["kind"] == "batch" else f"the hour from {of['from']}"
    counts = ", ".join(f"{totals[count]} {count}" for count in ("delivered", "written", "filtered", "rejected"))
    return f"proved, {what} of {document['pipeline']}: {counts}, link {document['head']['number']} is the chain's head"


def _read(file: str) -> tuple[bytes, dict[str, Any]]:
    """Returns the file's bytes, and the statement in them, which has a certificate's shape."""
    try:
        text = Path(file).read_bytes()
        read = json.loads(text)
        if read["certificate"]["format"].startswith("lockstep-certificate-") and {"key", "value", "algorithm"} <= set(
            read["signature"]
        ):
            return text, read
    except OSError as error:
        raise Refusal(f"{file}: {error.strerror}", next_command="lockstep certificate NAME --batch BATCH") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise Refusal(f"{file} is no certificate", next_command="lockstep certificate NAME --batch BATCH")


def _path(given: str | None, variable: str, option: str, next_command: str) -> str:
    path = given or ENVIRONMENT.get(variable)
    if not path:
        raise Refusal(f"no key: neither {option} nor {variable} names its file", next_command=next_command)
    return path


def _hour(text: str) -> datetime:
    try:
        begin = moment_of(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no ISO 8601 time", param_hint="--hour") from None
    if (begin.minute, begin.second, begin.microsecond) != (0, 0, 0):
        raise typer.BadParameter(f"{text!r} is not the beginning of an hour", param_hint="--hour")
    return begin
