"""Issues certificates of the commits of a batch or an hour, from a chain that holds."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lockstep.adapters.postgres import READER, snapshot
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.recorded import pipeline_of_document
from lockstep.core.planning.hours import HOUR
from lockstep.core.proof.certificate import CertificateDocument, Head, certified_statement
from lockstep.core.states import BatchState
from lockstep.ledger.proof import chain, row_hashes
from lockstep.ledger.views import hours, overview, reading
from lockstep.steps.batch.seal import seal_all

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from psycopg2.extensions import connection, cursor

    from lockstep.core.proof.certificate import Link


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
    told = {
        link["number"]: link["digest"] for link in (*document["links"], *document.get("hashes", ()), document["head"])
    }
    batches = sorted({json.loads(link["record"])["batch"] for link in document["links"]})
    with snapshot(conn, READER) as cur:
        found = chain.digests(cur, document["pipeline"], told)
        wrong = chain.chain_check(cur, document["pipeline"])
        here = chain.ledger_id(cur)
        hashes = row_hashes.hash_links(cur, document["pipeline"], batches)
        changed = _rows_changed(cur, document["pipeline"], batches, hashes)
    if (its := document.get("ledger", {}).get("id", here)) != here:
        yield f"it is of ledger {its}, and this is ledger {here}"
    for number in sorted(told):
        if number not in found:
            yield f"link {number} is not in the ledger"
        elif found[number] != told[number]:
            yield f"link {number} has another digest in the ledger"
    if not wrong.ok:
        yield wrong.detail
    yield from changed


def _certificate(
    cur: cursor, pipeline: str, of: CertificateDocument, batches: list[int], now: datetime
) -> CertificateDocument:
    check = chain.chain_check(cur, pipeline)
    if not check.ok:
        raise Refusal(
            f"{pipeline}: the chain does not hold, {check.detail}: nothing can be certified",
            next_command=f"lockstep verify {pipeline}",
        )
    hashes = row_hashes.hash_links(cur, pipeline, batches)
    if changed := _rows_changed(cur, pipeline, batches, hashes):
        raise Refusal(
            f"{pipeline}: {changed[0]}: nothing can be certified", next_command=f"lockstep verify {pipeline} --deep"
        )
    head = chain.head(cur, pipeline)
    links = chain.links_of(cur, pipeline, batches)
    ledger = chain.ledger_link(cur, pipeline)
    return certified_statement(pipeline, of, links, Head(head.number, head.digest), ledger, _text(now), hashes)


def _rows_changed(cur: cursor, pipeline: str, batches: Iterable[int], hashes: Sequence[Link]) -> list[str]:
    """Returns what is wrong with the rows of these batches, by the hashes that decisions keep of them."""
    document = overview.newest_definition(cur, pipeline) if hashes else None
    if document is None:
        return []
    checks = row_hashes.row_hash_checks(cur, pipeline_of_document(document), batches)
    return [check.detail for check in checks if not check.ok]


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
