"""`promote`: makes a file the one transform of a pipeline, from exact offsets on. `--withdraw` ends that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.adapters import folders
from lockstep.cli.options import Name, Reason
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.cli.pipelines.canarying import with_functions
from lockstep.context.systems import open_ledger, typing_person
from lockstep.core.changes.canary import CANARY_WORDS, figures
from lockstep.core.changes.promotion import DIGEST_DIGITS
from lockstep.core.errors import Refusal

if TYPE_CHECKING:
    from lockstep.core.pipeline.folder import PipelineFolder

PromotedOption = Annotated[
    Path | None,
    typer.Option("--transform", help="The file that makes the rows from now on.", show_default=False),
]
Canary = Annotated[
    Path | None,
    typer.Option("--canary", help="What `lockstep canary --json` printed of the file.", show_default=False),
]
Withdraw = Annotated[bool, typer.Option("--withdraw", help="Let any transform commit again.")]


def promote_command(
    name: Name,
    reason: Reason,
    transform: PromotedOption = None,
    canary: Canary = None,
    withdraw: Withdraw = False,
    as_json: AsJson = False,
) -> None:
    """Make a file the one transform of a pipeline, from the next offsets on.

    The ledger records the decision with the file's SHA-256 and, per partition, the first offset that is not committed.
    From there on it commits what this transform makes, and nothing else. The file is then written into the pipeline's
    folder as transform.py. If a folder has another one, plans are blocked until it is deployed. A second promotion
    supersedes the first, --withdraw ends it.
    """
    if withdraw:
        if transform or canary:
            raise typer.BadParameter("goes alone: it ends a promotion", param_hint="--withdraw")
        _withdraw(name, reason, as_json=as_json)
        return
    if transform is None:
        raise typer.BadParameter("name the file, or end a promotion with --withdraw", param_hint="--transform")
    from lockstep.steps.changes.promote import promote as record

    shown = folders.shown_path(transform)
    folder = with_functions(folders.load(name), transform, f"lockstep promote {name} --transform {shown} --reason ...")
    tried = _figures(canary, folder) if canary else None
    with open_ledger() as conn:
        made, changed = record(conn, folder, typing_person(reason), tried)
    document: dict[str, Any] = {"pipeline": name, "changed": changed, **made.document(), **_installed(folder)}
    show(document, as_json, lambda: _print(document))


def _withdraw(name: str, reason: str, *, as_json: bool) -> None:
    from lockstep.steps.changes.promote import withdraw_promotion

    pipeline = folders.load(name).pipeline
    with open_ledger() as conn:
        done = withdraw_promotion(conn, pipeline.name, typing_person(reason))
    document: dict[str, Any] = {
        "pipeline": name,
        "changed": done is not None,
        "withdrawn": done and done.promotion.document(),
        "decision": done and done.decision,
        "from": [{each: row[each] for each in ("topic", "partition", "offset")} for row in done.starts] if done else [],
    }

    def for_people() -> None:
        if done is None:
            say(f"{name}: no transform is promoted")
            return
        say(
            f"{name}: {done.promotion.file} is withdrawn in decision {done.decision}; any transform may commit from here"
        )
        _say_starts(document["from"])

    show(document, as_json, for_people)


def _figures(file: Path, folder: PipelineFolder) -> dict[str, Any]:
    """Returns the counts of a canary's document in a file."""
    name, shown = folder.pipeline.name, folders.shown_path(file)
    again = f"lockstep canary {name} --transform {folder.transform_file} --json"
    try:
        return figures(json.loads(file.read_text(encoding="utf-8")), name, folder.content_hash())
    except OSError as error:
        raise Refusal(f"{shown}: cannot be read: {error.strerror}", next_command=again) from None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        raise Refusal(f"{shown}: it is no JSON document", next_command=again) from None
    except ValueError as error:
        raise Refusal(f"{shown}: {error}", next_command=again) from None


def _installed(folder: PipelineFolder) -> dict[str, Any]:
    """Writes the file into the folder. Returns where it lies, or why it cannot be written."""
    try:
        return {"installed": folders.shown_path(folders.install_transform(folder)), "not_installed": None}
    except OSError as error:
        return {"installed": None, "not_installed": f"{folders.shown_path(folder.path)}: {error.strerror or error}"}


def _print(document: dict[str, Any]) -> None:
    name, file = document["pipeline"], document["file"]
    what = f"{file} ({document['transform'][:DIGEST_DIGITS]})"
    if document["changed"]:
        say(f"{name}: {what} makes the rows from these offsets on, by decision {document['decision']}")
    else:
        say(f"{name}: {what} was promoted by {document['who']} in decision {document['decision']}: {document['why']}")
    _say_starts(document["from"])
    if tried := document["canary"]:
        for table, counts in tried["targets"].items():
            said = ", ".join(f"{counts[kind]:,} {word}" for kind, word in CANARY_WORDS.items())
            say(f"canary of batch {', '.join(map(str, tried['batches']))}: {table}: {said}")
    if document["installed"]:
        say(
            f"{document['installed']} is this file.  Next: deploy the folder to where runs load it, then lockstep run {name}"
        )
    else:
        say(
            f"not installed: {document['not_installed']}.  Next: deploy {file} as {name}/transform.py; until then plans wait"
        )


def _say_starts(starts: list[dict[str, Any]]) -> None:
    say_table(
        ["  partition", "offset>"], [[f"  {each['topic']}-{each['partition']}", each["offset"]] for each in starts]
    )
