"""Defines `lockstep dev`: the embedded stack, its topics and its records."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lockstep.cli import feeding
from lockstep.cli.examples import example_of
from lockstep.cli.output import AsJson, say, say_table, show
from lockstep.context import systems
from lockstep.core.errors import Refusal
from lockstep.core.settings import ENVIRONMENT
from lockstep.dev.servers import ports, stack

if TYPE_CHECKING:
    from lockstep.dev.servers.stack import ServerState, Stack

VARIABLES = {
    "dsn": "LOCKSTEP_DSN",
    "kafka": "LOCKSTEP_KAFKA",
    "registry": "LOCKSTEP_REGISTRY",
    "spark_remote": "SPARK_REMOTE",
    "airflow_url": "LOCKSTEP_AIRFLOW_URL",
    "airflow_user": "LOCKSTEP_AIRFLOW_USER",
    "airflow_password": "LOCKSTEP_AIRFLOW_PASSWORD",
}

dev_app = typer.Typer(no_args_is_help=True, help="The embedded stack: Postgres, Kafka, Airflow, topics and records.")


@dev_app.command("up", epilog=example_of("dev up"))
def up_command(
    airflow: Annotated[bool, typer.Option("--airflow", help="Airflow too, with the DAGs of this project.")] = False,
    spark_connect: Annotated[
        bool, typer.Option("--spark-connect", help="A warm Spark too: no run starts a JVM.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start the servers that are not running. Leave the others alone."""
    from lockstep.dev.servers import switch

    running = switch.start_servers(_home(), _progress, with_airflow=airflow, with_spark=spark_connect)
    show(_described(running), as_json, lambda: say("\n".join(["the stack is up", *_pages(running)])))


@dev_app.command("down", epilog=example_of("dev down"))
def down_command(
    airflow: Annotated[bool, typer.Option("--airflow", help="Airflow alone.")] = False, as_json: AsJson = False
) -> None:
    """Stop the servers that were started here. Their data stay."""
    from lockstep.dev.servers import switch

    stopped = switch.stop_servers(_home(), _progress, only_airflow=airflow)
    show(_described(stopped), as_json, lambda: say(f"{'Airflow' if airflow else 'the stack'} is down"))


@dev_app.command("status", epilog=example_of("dev status"))
def dev_status_command(
    password: Annotated[bool, typer.Option("--password", help="Show the password of Airflow's pages, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what runs, and where."""
    home = _home()
    known = stack.read(home) or stack.Stack(home)
    if password and not _login(known):
        raise Refusal("the embedded Airflow is not running.", next_command=f"{stack.UP} --airflow")
    described = _described(known, with_password=password)
    rows = [[part["name"], part["state"], part["address"], part["pid"]] for part in described["parts"]]

    def for_people() -> None:
        say_table(["part", "state", "address", "pid>"], rows)
        for line in _pages(known, with_password=password):
            say(line)

    show(described, as_json, for_people)


@dev_app.command("env", epilog=example_of("dev env"))
def env_command(as_json: AsJson = False) -> None:
    """Print the exports that lead to the stack."""
    known = stack.find_stack()
    for part, given in ((known.postgres, "LOCKSTEP_DSN"), (known.broker, "LOCKSTEP_KAFKA")) if known else ():
        if not ENVIRONMENT.get(given) and not (part and part.lives):
            raise Refusal("the stack is down.", next_command=stack.UP)
    document = {"dsn": systems.plain_dsn(), "kafka": systems.kafka()}
    if address := ENVIRONMENT.get("LOCKSTEP_REGISTRY"):
        document["registry"] = address
    if remote := systems.spark_remote():
        document["spark_remote"] = remote
    login = _login(known) if known else {}
    document |= {f"airflow_{name}": value for name, value in login.items()}
    commands = _for_airflow_commands(known) if known and login else {}
    exports = {VARIABLES[name]: value for name, value in document.items()} | commands
    lines = [f"export {name}={shlex.quote(value)}" for name, value in exports.items()]
    show(document | ({"airflow_cli": commands} if commands else {}), as_json, lambda: say("\n".join(lines)))


@dev_app.command("jars", epilog=example_of("dev jars"))
def jars_command(as_json: AsJson = False) -> None:
    """Fetch the jars of the Kafka broker, each by its SHA-256, and keep Spark's classes. Say where they are."""
    from lockstep.dev.setup import class_data, jars

    folder = jars.folder()
    jars.ensure_jars(folder, _progress)
    class_data.ensure_class_data(_progress)
    show({"jars": str(folder)}, as_json, lambda: say(f"the jars are in {folder}"))


dev_app.command("topic", epilog=example_of("dev topic"))(feeding.topic_command)
dev_app.command("produce", epilog=example_of("dev produce"))(feeding.produce_command)


def _home() -> Path:
    if home := stack.home_of(Path.cwd()):
        return home
    raise Refusal(
        f"no project in or above {Path.cwd()}.",
        next_command="lockstep init, or cd to a project, or export LOCKSTEP_HOME=FOLDER",
    )


def _described(known: Stack, *, with_password: bool = False) -> dict[str, Any]:
    """Describes the running servers. Passwords are left out unless they are asked for."""
    login = _login(known)
    if not with_password:
        login.pop("password", None)
    parts = (
        ("postgres", known.postgres, "LOCKSTEP_DSN"),
        ("kafka", known.broker, "LOCKSTEP_KAFKA"),
        ("airflow", known.airflow, ""),
        ("spark connect", known.spark, "SPARK_REMOTE"),
    )
    described = {name: {"name": name} | _part(part, given) for name, part, given in parts}
    described["airflow"] |= login
    return {"home": str(known.home), "parts": list(described.values())}


def _login(known: Stack) -> dict[str, str]:
    """Returns where Airflow's pages are, and who may log in. Empty while it does not run."""
    if not (known.airflow and known.airflow.lives):
        return {}
    from lockstep.dev.servers.airflow_settings import USER, secrets_of

    password = secrets_of(known.home / "airflow").password
    return {"url": f"http://127.0.0.1:{known.airflow.port}", "user": USER, "password": password}


def _for_airflow_commands(known: Stack) -> dict[str, str]:
    """Returns what leads the command `airflow` to the running Airflow."""
    from lockstep.dev.project import find_project
    from lockstep.dev.servers.airflow_settings import for_commands

    found = find_project(ENVIRONMENT)
    leads = for_commands((known.home / "airflow").resolve(), found.dags, found.plugins)
    return leads | found.exports(ENVIRONMENT) if leads else {}


def _pages(known: Stack, *, with_password: bool = False) -> list[str]:
    login = _login(known)
    if not login:
        return []
    password = login["password"] if with_password else "is shown by lockstep dev status --password"
    return [f"Airflow's pages: {login['url']}  user {login['user']}  password {password}"]


def _part(part: ServerState | None, variable: str) -> dict[str, Any]:
    if ENVIRONMENT.get(variable):
        return {"state": f"given by {variable}", "address": None, "pid": None}
    if part is None or part.process is None or not part.lives:
        return {"state": "down", "address": None, "pid": None}
    state = "up" if ports.answers(part.port) else "not answering"
    return {"state": state, "address": f"127.0.0.1:{part.port}", "pid": part.process.pid}


def _progress(line: str) -> None:
    typer.echo(line, err=True)
