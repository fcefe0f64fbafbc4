"""Builds certificates of a batch or an hour: links of the chain, in a form that needs no ledger."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FORMAT = "lockstep-certificate-2"
FIRST_FORMAT = "lockstep-certificate-1"  # it names no ledger, and counts no ranges
CERTIFIED_COUNTS = ("delivered", "written", "filtered", "rejected", "rows")

# A digest of contents is a sum of 64-bit hashes: whoever may write the table can find other rows with the same sum.
NOT_FORGERS = "The ledger's digests prove contents against accidents, not against a forger"
BY_SHA = "A decision keeps a SHA-256 of the rows of each range"

CertificateDocument = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class Link:
    """One link of a chain. `digest` is the digest of three parts: the previous digest, a line feed and the record."""

    number: int
    previous: str
    record: str
    digest: str


@dataclass(frozen=True, slots=True)
class Head:
    """The newest link of a chain when a certificate was made."""

    number: int
    digest: str


def digest_of(previous: str, record: str) -> str:
    """Returns the digest that a link must have: SHA-256 in hexadecimal."""
    return sha256(f"{previous}\n{record}".encode()).hexdigest()


def certified_statement(
    pipeline: str,
    of: CertificateDocument,
    links: Sequence[Link],
    head: Head,
    ledger: tuple[str, Link],
    issued_at: str,
    hashes: Sequence[Link] = (),
) -> CertificateDocument:
    """Builds the statement to sign. `of` names the batch, or the hour with its offsets and losses.

    `ledger` is the ledger's id, with the link of the same chain that names it. `hashes` are the links of decisions that
    keep a SHA-256 of the batches' rows. Links keep the name that the pipeline had then. `former_names` are those that
    it has no more.
    """
    records = [json.loads(link.record) for link in links]
    former = sorted({record["pipeline"] for record in records} - {pipeline})
    return {
        "format": FORMAT,
        "pipeline": pipeline,
        "ledger": {"id": ledger[0], "link": asdict(ledger[1])},
        **({"former_names": former} if former else {}),
        "of": of,
        "links": [asdict(link) for link in sorted(links)],
        "head": asdict(head),
        "totals": _totals(records),
        "hashes": [asdict(link) for link in sorted(hashes)],
        "contents": _contents(records, [json.loads(link.record) for link in hashes]),
        "issued_at": issued_at,
    }


def canonical(document: CertificateDocument) -> bytes:
    """Returns the bytes to sign: JSON in UTF-8, keys sorted, no spaces (`jq -cSj` prints the same)."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def envelope(document: CertificateDocument, algorithm: str, key: str, signature: str) -> str:
    """Returns the text of a certificate's file. No other text holds this statement and signature."""
    signed = {"certificate": document, "signature": {"algorithm": algorithm, "key": key, "value": signature}}
    return json.dumps(signed, sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def mistakes(document: Mapping[str, Any]) -> Iterator[str]:
    """Yields the contradictions within a certificate: digests, totals, and offsets without a commit.

    Raises `KeyError`, `TypeError` or `ValueError` for a document that is no certificate.
    """
    is_first = document["format"] == FIRST_FORMAT
    if not is_first and document["format"] != FORMAT:
        yield f"its format is {document['format']}, and this version reads {FIRST_FORMAT} and {FORMAT}"
    records = []
    for link in document["links"]:
        record = json.loads(link["record"])
        records.append(record)
        yield from _out_of_chain(link, document["head"])
        if record["pipeline"] not in {document["pipeline"], *document.get("former_names", ())}:
            yield f"link {link['number']} is of pipeline {record['pipeline']}"
    if not is_first:
        yield from _out_of_chain(document["ledger"]["link"], document["head"])
        if json.loads(document["ledger"]["link"]["record"]).get("ledger") != document["ledger"]["id"]:
            yield f"link {document['ledger']['link']['number']} does not name ledger {document['ledger']['id']}"
        yield from _not_hashed(document, records)
        if document["of"]["kind"] == "batch" and document["of"]["ranges"] != len(records):
            yield f"it holds {len(records)} links, and the batch has {document['of']['ranges']} ranges"
    if document["totals"] != _totals(records):
        yield f"the totals are {document['totals']}, the links add up to {_totals(records)}"
    yield from _not_committed(document["of"], records)


def _contents(records: Sequence[Mapping[str, Any]], hashes: Sequence[Mapping[str, Any]]) -> str:
    """Returns what holds the contents: a SHA-256 for each range of each target, or digests alone."""
    hashed = {
        (each["detail"]["target"], segment["batch"], segment["stream"])
        for each in hashes
        for segment in each["detail"]["segments"]
    }
    wanted = {
        (target["target"], record["batch"], record["stream"]) for record in records for target in record["targets"]
    }
    return BY_SHA if wanted and wanted <= hashed else NOT_FORGERS


def _not_hashed(document: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    hashes = []
    for link in document["hashes"]:
        yield from _out_of_chain(link, document["head"])
        record = json.loads(link["record"])
        if record.get("kind") == "hash-rows":
            hashes.append(record)
        else:
            yield f"link {link['number']} keeps no hashes of rows"
    if document["contents"] != (known := _contents(records, hashes)):
        yield f"it says of contents: {document['contents']}; its links say: {known}"


def _out_of_chain(link: Mapping[str, Any], head: Mapping[str, Any]) -> Iterator[str]:
    if link["digest"] != digest_of(link["previous"], link["record"]):
        yield f"link {link['number']} does not fit its record"
    if link["number"] > head["number"]:
        yield f"link {link['number']} lies beyond the head, link {head['number']}"
    if link["number"] == head["number"] and link["digest"] != head["digest"]:
        yield f"link {link['number']} is the head and has another digest"


def _totals(records: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {
        "offsets": sum(record["until_offset"] - record["from_offset"] for record in records),
        **{count: sum(record[count] for record in records) for count in CERTIFIED_COUNTS},
    }


def _not_committed(of: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yields the offsets of the certificate that no link commits, and the links that belong to another batch."""
    if of["kind"] == "batch":
        if strangers := {record["batch"] for record in records} - {of["batch"]}:
            yield f"it is of batch {of['batch']}, and holds links of batches {sorted(strangers)}"
        if not records:
            yield f"it holds no link of batch {of['batch']}"
        return
    if not of["offsets"]:
        yield "it is of an hour, and names no offsets"
    losses = [(loss["topic"], loss["partition"], loss["from_offset"], loss["until_offset"]) for loss in of["losses"]]
    for part in of["offsets"]:
        covered = [
            (record["from_offset"], record["until_offset"])
            for record in records
            if record["stream"] == part["stream_id"]
        ]
        covered += [loss[2:] for loss in losses if loss[:2] == (part["topic"], part["partition"])]
        at = part["from_offset"]
        for low, high in sorted(covered):
            at = max(at, high) if low <= at else at
        if at < part["until_offset"]:
            yield f"{part['topic']}-{part['partition']}: offset {at} belongs to the hour, and no link commits it"
