"""Issues certificates of the commits of a batch or an hour, from a chain that holds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, snapshot
from lockstep.core.errors import Refusal
from lockstep.core.planning.hours import HOUR
from lockstep.core.proof.certificate import CertificateDocument, Head, certified_statement
from lockstep.core.states import BatchState
from lockstep.ledger.proof import chain
from lockstep.ledger.views import hours, reading
from lockstep.steps.batch.seal import seal_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from psycopg2.extensions import connection, cursor


def certificate_of_batch(conn: connection, pipeline: str, batch_id: int, now: datetime) -> CertificateDocument:
    """Returns the certificate of one committed batch. Raises `Refusal` for a batch that is not committed."""
    seal_all(conn, pipeline)
    with snapshot(conn, READER) as cur:
        found = reading.read_batch(cur, batch_id)
        if found is None or found["pipeline"] != pipeline:
            raise Refusal(
                f"{pipeline} has no batch {batch_id}: nothing can be certified",
                next_command=f"lockstep batches {pipeline}",
            )
        if found["state"] != BatchState.COMMITTED:
            raise Refusal(
                f"batch {batch_id} is {found['state']}, not committed: nothing can be certified",
                next_command=f"lockstep batch {batch_id}",
            )
        of = {"kind": "batch", "batch": batch_id, "ranges": chain.ranges_of_batch(cur, batch_id)}
        return _certificate(cur, pipeline, of, [batch_id], now)


def of_hour(conn: connection, pipeline: str, begin: datetime, now: datetime) -> CertificateDocument:
    """Returns the certificate of the hour that begins then. Raises `Refusal` for an hour that is not complete."""
    seal_all(conn, pipeline)
    with snapshot(conn, READER) as cur:
        found = hours.hour(cur, pipeline, begin + HOUR)
        if found is None:
            raise Refusal(
                f"{pipeline}: the hour from {begin:%Y-%m-%dT%H:%M} is not told complete: nothing can be certified",
                next_command=f"lockstep hours {pipeline}",
            )
        of = {
            "kind": "hour",
            "from": _text(begin),
            "until": _text(begin + HOUR),
            "offsets": found["offsets"],
            "losses": found["losses"],
        }
        return _certificate(cur, pipeline, of, found["batches"], now)


def beside_ledger(conn: connection, document: Mapping[str, Any]) -> Iterator[str]:
    """Yields the links of a certificate that the ledger's chain does not hold, and every fault of that chain."""
    told = {link["number"]: link["digest"] for link in (*document["links"], document["head"])}
    with snapshot(conn, READER) as cur:
        found = chain.digests(cur, document["pipeline"], told)
        wrong = chain.chain_check(cur, document["pipeline"])
        here = chain.ledger_id(cur)
    if (its := document.get("ledger", {}).get("id", here)) != here:
        yield f"it is of ledger {its}, and this is ledger {here}"
    for number in sorted(told):
        if number not in found:
            yield f"link {number} is not in the ledger"
        elif found[number] != told[number]:
            yield f"link {number} has another digest in the ledger"
    if not wrong.ok:
        yield wrong.detail


def _certificate(
    cur: cursor, pipeline: str, of: CertificateDocument, batches: list[int], now: datetime
) -> CertificateDocument:
    check = chain.chain_check(cur, pipeline)
    if not check.ok:
        raise Refusal(
            f"{pipeline}: the chain does not hold, {check.detail}: nothing can be certified",
            next_command=f"lockstep verify {pipeline}",
        )
    head = chain.head(cur, pipeline)
    links = chain.links_of(cur, pipeline, batches)
    ledger = chain.ledger_link(cur, pipeline)
    return certified_statement(pipeline, of, links, Head(head.number, head.digest), ledger, _text(now))


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
