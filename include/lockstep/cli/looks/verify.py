"""Defines `verify`, which proves the promises again."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lockstep.cli.history import OfLedger, known_pipeline
from lockstep.cli.looks import certifying
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.cli.progress import shown_progress
from lockstep.context.systems import broker, configured_registry, open_ledger, results_elsewhere
from lockstep.core.errors import Refusal
from lockstep.core.text import printable_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockstep.core.pipeline.folder import PipelineFolder
    from lockstep.core.proof.extent import Proof
    from lockstep.core.proof.verification import PromiseCheck
    from lockstep.steps.rerun.remade import Rerunner

ProvedName = Annotated[
    str | None,
    typer.Argument(help="The pipeline; not needed with --certificate.", metavar="NAME", show_default=False),
]
Certificate = Annotated[str | None, typer.Option(help="Prove this certificate.", metavar="FILE", show_default=False)]
PublicKey = Annotated[
    str | None,
    typer.Option(help="The public key of who signed it, PEM.", metavar="FILE", show_default=False),
]
Deep = Annotated[
    bool, typer.Option("--deep", help="Read Kafka again and compare each record with its rows, values included.")
]

SinceWhen = Annotated[
    str | None,
    typer.Option(
        "--since",
        help="Look only at batches that have committed since: a time, or a batch's number.",
        metavar="WHEN|BATCH",
        show_default=False,
    ),
]


def verify_command(
    name: ProvedName = None,
    deep: Deep = False,
    certificate: Certificate = None,
    public_key: PublicKey = None,
    since: SinceWhen = None,
    as_json: AsJson = False,
) -> None:
    """Prove the promises again, and say how far.

    Compares the ledger with itself, and the target's coordinates with the ledger: the rows, and the batch of each. With
    --deep, reads Kafka again. Each record then has its rows or its reject, once (coordinates). The rows then hold what
    the record decodes to (contents). A transform is run again on each batch, by a local Spark, and its rows are compared.
    Not compared: what Kafka no longer holds, and what other code has made. The last line names the compared
    sides. Refuses a definition that is not the ledger's. Without a folder, goes by
    the ledger's definition, without --deep. With --since, only rows of batches that have committed since are looked at,
    and the ledger as a whole. With --certificate, proves that file instead: by its key alone, and with NAME
    by the ledger, too. When every check of --deep holds, keeps a SHA-256 of the rows of each batch and partition that
    has none.
    """
    if certificate is not None and since is not None:
        raise typer.BadParameter("a certificate names its batches itself", param_hint="--since")
    if certificate is not None:
        certifying.prove(certificate, public_key, name, as_json)
        return
    if name is None or public_key is not None:
        missing = "NAME" if name is None else "--certificate"
        raise typer.BadParameter("a pipeline, or a certificate with its public key, please", param_hint=missing)
    from lockstep.core.planning.bounds import parse_bound
    from lockstep.core.proof.extent import conclusion, proofs
    from lockstep.core.proof.given_up import offsets_of
    from lockstep.steps.evidence.keep_hashes import hashes_to_keep, keep_row_hashes
    from lockstep.steps.proof.verify import find_since
    from lockstep.steps.proof.verify import verify as prove
    from lockstep.steps.proof.verify import verify_of_ledger as prove_of_ledger

    found = known_pipeline(name)
    folder = found.folder if isinstance(found, OfLedger) else found
    if deep and isinstance(found, OfLedger):
        raise Refusal(
            f"{name}: --deep decodes by the definition's own files, and its folder is gone",
            next_command=f"lockstep verify {name}",
        )
    bound = parse_bound(since, "--since") if since is not None else None
    with open_ledger() as conn:
        its = find_since(conn, name, bound) if bound else None
        if isinstance(found, OfLedger):
            checks = prove_of_ledger(conn, folder.pipeline, its)
        else:
            elsewhere = results_elsewhere(folder.pipeline)
            registry = configured_registry()
            kafka = broker()
            hashes = hashes_to_keep(conn, folder.pipeline) if deep and its is None else []
            with _rerunner(folder, deep=deep) as runs:
                checks = prove(
                    conn, kafka, folder, deep=deep, results=elsewhere, registry=registry, since=its, rerunner=runs
                )
            kept = keep_row_hashes(conn, folder.pipeline.name, hashes, checks)
            sys.stderr.write(printable_line(kept) + "\n" if kept else "")
    ok = all(check.ok for check in checks)
    proved = proofs([target.table for target in folder.pipeline.targets], checks)
    offsets = offsets_of(checks)
    said = conclusion(name, proved, checks, its, offsets.given_up)
    left_out = [{"target": c.target, "check": c.name, "what": c.left_out} for c in checks if c.left_out]
    then = None if isinstance(found, OfLedger) else _next_command(name, checks, proved, since, deep=deep)
    document = {
        "pipeline": name,
        "ok": ok,
        "deep": deep,
        "since": its.document() if its else None,
        "proved": [asdict(proof) for proof in proved],
        "offsets": offsets.document(),
        "not_compared": left_out,
        "checks": [check.document() for check in checks],
        "conclusion": said,
        "next_command": then,
    }

    def for_people() -> None:
        rows = [[_outcome(check), check.name, check.detail] for check in checks]
        say_table(["", "check", "detail"], rows)
        for each in left_out:
            say(f"not compared: {each['what']}  ({each['check']})")
        say(said + (f"  Next: {then}" if then else ""))

    show(document, as_json, for_people)
    if not ok:
        raise typer.Exit(1)


def _next_command(
    name: str, checks: Sequence[PromiseCheck], proved: Sequence[Proof], since: str | None, *, deep: bool
) -> str | None:
    """Returns the command that mends what is wrong, or that compares more."""
    from lockstep.core.proof.extent import more_to_compare, next_look
    from lockstep.core.proof.verification import next_step

    if not all(check.ok for check in checks):
        return next_step(name, checks, deep=deep)
    again = f"lockstep verify {name} --deep" + (f" --since {since}" if since else "")
    return more_to_compare(name, checks) if deep else next_look(proved, again)


@contextmanager
def _rerunner(folder: PipelineFolder, *, deep: bool) -> Iterator[Rerunner | None]:
    """Yields what runs a transform again, and shows its progress. Yields None if there is no transform to run."""
    if not deep or not folder.transforms:
        yield None
        return
    from lockstep.dev.rerun import LocalRerunner

    with shown_progress("comparing", again=f"lockstep verify {folder.pipeline.name} --deep") as tell:
        yield LocalRerunner(broker(), folder, configured_registry(), tell)


def _outcome(check: PromiseCheck) -> str:
    if not check.is_made:
        return "not made"
    return "ok" if check.ok else "NO"
