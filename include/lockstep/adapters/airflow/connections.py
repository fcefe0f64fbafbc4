"""Converts Airflow's connections to the environment variables of Lockstep."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from airflow.sdk import Connection

from lockstep.adapters.airflow.names import AirflowNotFoundException
from lockstep.core.errors import BadDefinition
from lockstep.core.kafka_options import from_extra
from lockstep.core.lake.catalogs import Catalog
from lockstep.core.lake.lake_options import KEY_ID, SECRET_KEY
from lockstep.core.pipeline.stores import Files, connection_of
from lockstep.core.settings import ENVIRONMENT, KAFKA_OPTIONS, LAKE_CONFIG, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockstep.core.pipeline.stores import Store

log = logging.getLogger(__name__)
LAKE_CONNECTION = "lockstep_lake"
# The keys of a connection's extra for libpq. The rest is for Airflow's own hook.
OF_LIBPQ = frozenset(
    {
        "sslmode",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "sslcrl",
        "connect_timeout",
        "target_session_attrs",
        "channel_binding",
    }
)


def connection_environment(
    postgres_conn_id: str,
    kafka_conn_id: str,
    environ: Mapping[str, str] = ENVIRONMENT,
    *,
    registry_conn_id: str | None = None,
    store: Store | None = None,
    lake: bool = False,
) -> dict[str, str]:
    """Returns addresses of servers and store, and options of clients. Omits variables that are already set."""
    found: dict[str, str] = {}
    given = settings_of(environ)
    if not given.dsn:
        found["LOCKSTEP_DSN"] = connection_dsn(postgres_conn_id, environ)
    if not given.kafka:
        found |= _kafka(_connection(kafka_conn_id, "LOCKSTEP_KAFKA"))
    if registry_conn_id and not given.registry:
        address, options = registry_variables(_connection(registry_conn_id, "LOCKSTEP_REGISTRY"))
        found |= {"LOCKSTEP_REGISTRY": address, "LOCKSTEP_REGISTRY_CONFIG": json.dumps(options)}
    if store and store.variable and not environ.get(store.variable):
        found[store.variable] = _address(_connection(connection_of(store), store.variable), store)
    if lake and not environ.get(LAKE_CONFIG):
        found |= {name: value for name, value in _lake().items() if not environ.get(name)}
    return found


def kafka_variables(kafka_conn_id: str, environ: Mapping[str, str] = ENVIRONMENT) -> dict[str, str]:
    """Returns the address of the brokers and the options of their clients: those that are set, else the connection's."""
    given = settings_of(environ)
    if given.kafka:
        return {"LOCKSTEP_KAFKA": given.kafka, KAFKA_OPTIONS: given.kafka_options}
    return _kafka(_connection(kafka_conn_id, "LOCKSTEP_KAFKA"))


def connection_dsn(postgres_conn_id: str, environ: Mapping[str, str] = ENVIRONMENT) -> str:
    """Returns the DSN of the ledger's database, with the command for its password if there is one."""
    given = settings_of(environ)
    dsn = given.dsn or _dsn(_connection(postgres_conn_id, "LOCKSTEP_DSN"))
    from lockstep.adapters.connection.dsn import with_password_command  # noqa: PLC0415 - DAG files import this module

    return with_password_command(dsn, given.password_command)


def _connection(conn_id: str, variable: str) -> Connection:
    try:
        found: Connection = Connection.get(conn_id)
    except AirflowNotFoundException:
        raise BadDefinition(
            f"Airflow has no connection {conn_id}, and {variable} is not set",
            next_command=f"airflow connections add {conn_id} ...",
        ) from None
    return found


def _dsn(connection: Connection) -> str:
    """Converts the connection to a URI of libpq."""
    login = quote(connection.login or "", safe="")
    if connection.password:
        login += f":{quote(connection.password, safe='')}"
    options = {name: str(value) for name, value in connection.extra_dejson.items() if name in OF_LIBPQ}
    port = f":{connection.port}" if connection.port else ""
    hosts = ",".join(f"{_host(each.strip())}{port}" for each in (connection.host or "").split(","))
    query = f"?{urlencode(options)}" if options else ""
    return f"postgresql://{login}@{hosts}/{quote(connection.schema or '', safe='')}{query}"


def _host(name: str) -> str:
    """Returns a host as a URI holds it. The folder of a socket has slashes, and an address of IPv6 has colons."""
    return f"[{name}]" if ":" in name and not name.startswith("[") else quote(name, safe="[]:")


def _address(connection: Connection, store: Store) -> str:
    """Returns a store's address: a URI of libpq, the settings of a catalog, or for files the connection's path."""
    if isinstance(store, Catalog):
        return json.dumps(catalog_options(connection))
    return str(connection.extra_dejson.get("path", "")) if isinstance(store, Files) else _dsn(connection)


def _kafka(connection: Connection) -> dict[str, str]:
    bootstrap, options, left_out = from_extra(connection.extra_dejson)
    if left_out:
        log.info("Connection %s: %s are for consumers and not used.", connection.conn_id, ", ".join(left_out))
    return {"LOCKSTEP_KAFKA": bootstrap, "LOCKSTEP_KAFKA_CONFIG": json.dumps(options)}


def _lake() -> dict[str, str]:
    """Returns the lake's address and its store's options, of a connection that a lake in a folder does not need.

    Login and password are the keys. Its extra holds the address as `path`, and the other options.
    """
    try:
        connection = Connection.get(LAKE_CONNECTION)
    except AirflowNotFoundException:
        return {}
    options = dict(connection.extra_dejson)
    address = str(options.pop("path", ""))
    if connection.login:
        options |= {KEY_ID: connection.login, SECRET_KEY: connection.password or ""}
    return {"LOCKSTEP_LAKE": address, LAKE_CONFIG: json.dumps(options)}


def catalog_options(connection: Connection) -> dict[str, object]:
    """Returns the settings of a catalog. Login and password are its credential, and a password alone is its token.

    Host, schema and port are the address. The extra holds all other settings.
    """
    options: dict[str, object] = dict(connection.extra_dejson)
    if host := connection.host:
        port = f":{connection.port}" if connection.port else ""
        address = host if "://" in host else f"{connection.schema or 'https'}://{host}"
        options.setdefault("uri", f"{address}{port}")
    if connection.login:
        options.setdefault("credential", f"{connection.login}:{connection.password or ''}")
    elif connection.password:
        options.setdefault("token", connection.password)
    return options


def registry_variables(connection: Connection) -> tuple[str, dict[str, object]]:
    """Returns the registry's address, and its client's options, of a connection.

    Its schema is http or https. Login and password are the client's. Its extra holds the client's options.
    """
    host, options = connection.host or "", dict(connection.extra_dejson)
    address = host if "://" in host else f"{connection.schema or 'http'}://{host}"
    if connection.login:
        options["basic.auth.user.info"] = f"{connection.login}:{connection.password or ''}"
    port = f":{connection.port}" if connection.port else ""
    return f"{address}{port}", options
