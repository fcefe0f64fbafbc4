"""Defines the `lockstep` command, and the one place that turns errors into one line and an exit code."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException
from typer.main import get_command

from lockstep.cli import starting
from lockstep.cli.batches import (
    admitting,
    archiving,
    deciding,
    erasing,
    filing,
    keeping,
    moving,
    planning,
    recounting,
    rejecting,
    relaying,
    replaying,
    restoring,
    running,
)
from lockstep.cli.dev import dev_app
from lockstep.cli.examples import example_of
from lockstep.cli.exits import Exit, exit_of
from lockstep.cli.looks import (
    batches,
    certifying,
    doctoring,
    following,
    holes,
    metering,
    retaining,
    status,
    telling,
    tracing,
    verify,
    watching,
    windowing,
)
from lockstep.cli.output import print_json, write_any_text
from lockstep.cli.pipelines import (
    adopting,
    canarying,
    checking,
    cloning,
    defining,
    forgetting,
    migrating,
    owning,
    promoting,
    renaming,
    trying,
)
from lockstep.core.errors import Refusal, no_room
from lockstep.core.text import is_utf8, printable_line
from lockstep.installed import install_of, installed_version

app = typer.Typer(
    name="lockstep",
    help="Kafka to Postgres in gap-checked scheduled batches: results and offsets commit in one transaction.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        found = installed_version()
        typer.echo(f"lockstep {found}" if found else "lockstep, not installed")
        raise typer.Exit


@app.callback()
def _lockstep(
    _version: Annotated[
        bool, typer.Option("--version", help="Say which version this is.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


app.add_typer(dev_app, name="dev")
for command in (
    starting.demo_command,
    starting.init_command,
    migrating.migrate_command,
    defining.new_command,
    checking.check_command,
    trying.try_command,
    canarying.canary_command,
    promoting.promote_command,
    adopting.adopt_command,
    planning.plan_command,
    running.run_command,
    replaying.replay_command,
    replaying.fill_command,
    status.status_command,
    retaining.retention_command,
    watching.watch_command,
    metering.metrics_command,
    batches.batches_command,
    batches.batch_command,
    filing.files_command,
    telling.hours_command,
    tracing.lineage_command,
    tracing.blame_command,
    windowing.windows_command,
    admitting.late_command,
    following.changes_command,
    relaying.relay_command,
    holes.holes_command,
    rejecting.rejects_command,
    deciding.skip_command,
    deciding.accept_loss_command,
    deciding.retire_command,
    owning.hand_over_command,
    moving.move_command,
    erasing.erase_command,
    restoring.restored_command,
    recounting.recount_command,
    deciding.pause_command,
    deciding.unpause_command,
    deciding.abandon_command,
    forgetting.forget_command,
    renaming.rename_command,
    cloning.clone_command,
    doctoring.doctor_command,
    verify.verify_command,
    certifying.certificate_command,
    archiving.archive_command,
    keeping.upkeep_command,
    deciding.reap_command,
):
    name = command.__name__.removesuffix("_command").replace("_", "-")
    app.command(name, epilog=example_of(name))(command)


def main() -> None:
    """Calls the command. Each error becomes one line and the exit code of its kind, and `--json` has it, too."""
    write_any_text()
    try:
        sys.exit(_call())
    except TyperException as error:
        sys.exit(_refuse_call(error))
    except Refusal as refusal:
        sys.exit(_refuse(refusal.message, refusal.next_command, exit_of(refusal)))
    except (KeyboardInterrupt, typer.Abort):
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has left. Without this, the interpreter complains when it closes standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.REFUSED)
    except ModuleNotFoundError as error:
        install = install_of(error.name)
        if install is None:
            sys.exit(_refuse_unexpected(error))
        sys.exit(_refuse(f"this needs {error.name}, which is not installed", install, Exit.REFUSED))
    except Exception as error:  # noqa: BLE001 - the door of last resort, which loses nothing
        full = no_room(error)
        sys.exit(_refuse(full.message, full.next_command, Exit.AWAY) if full else _refuse_unexpected(error))


command_tree = cache(lambda: get_command(app))  # built at the first call, for all calls of a process


def _call() -> int:
    if odd := next((word for word in sys.argv[1:] if not is_utf8(word)), None):
        raise typer.BadParameter(f"{odd!r} is not UTF-8")
    try:
        return command_tree()(prog_name="lockstep", standalone_mode=False) or Exit.DONE
    finally:
        sys.stdout.flush()  # a reader who has left is noticed here, not when the interpreter ends


def _refuse_call(error: TyperException) -> Exit:
    """Says what is wrong with a call. A group that is called alone shows its help instead."""
    message, context = error.format_message(), getattr(error, "ctx", None)
    if "\n" in message:
        typer.echo(message, err=True)
        return Exit.USAGE
    return _refuse(message, f"{context.command_path if context else _called(sys.argv[1:])} --help", Exit.USAGE)


def _called(words: list[str]) -> str:
    """Returns the command that was called, as far as it exists, for an error that does not name it."""
    path, found = ["lockstep"], command_tree()
    for word in words:
        if not isinstance(found, TyperGroup) or word not in found.commands:
            break
        path, found = [*path, word], found.commands[word]
    return " ".join(path)


def _refuse(message: str, next_command: str | None, code: Exit) -> Exit:
    line = printable_line(" ".join(str(Refusal(message, next_command=next_command)).split("\n")))
    sys.stderr.write(f"{line}\n")
    if "--json" in sys.argv:
        print_json({"error": message, "next": next_command})
    return code


def _refuse_unexpected(error: Exception) -> Exit:
    line = f"unexpected {type(error).__name__}: {' '.join(str(error).split())}"
    return _refuse(line, f"read the traceback in {_keep_traceback()}", Exit.UNEXPECTED)


def _keep_traceback() -> Path:
    from lockstep.dev.servers.stack import home_of

    home = home_of(Path.cwd())
    folder = home / "errors" if home and home.is_dir() else None
    try:
        if folder:
            folder.mkdir(exist_ok=True)
        handle, path = tempfile.mkstemp(f"-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.log", "lockstep-", folder)
    except OSError:
        handle, path = tempfile.mkstemp(".log", "lockstep-")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(traceback.format_exc())
    return Path(path)
