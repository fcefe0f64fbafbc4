"""Expectations: the pipeline's Great Expectations suite over what the winners staged, never over the whole table."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

import great_expectations as gx
from great_expectations.data_context.types.base import ProgressBarsConfig
from psycopg2.extensions import parse_dsn
from sqlalchemy.engine import URL

from lockstep.adapters.postgres import STAGER, last_line
from lockstep.core.errors import BadData
from lockstep.core.staging import STAGING_SCHEMA

if TYPE_CHECKING:
    from lockstep.core.folder import PipelineFolder
    from lockstep.core.staging import AttemptId

COORDINATES = ["_stream", "_offset"]
COORDINATES_KEPT = 20
WINNERS = """
select t.* from {schema}.{table} t
where t._reason is null and not coalesce(t._deleted, false)
  and t._task in (select m.task from lockstep.manifest m where m.batch_id = {batch_id} and m.token = {token})
"""


def judge(dsn: str, folder: PipelineFolder, attempt: AttemptId) -> dict[str, Any]:
    """Runs the suite; `violations` names each failed critical expectation and the coordinates of bad rows."""
    for name in ("great_expectations", "great_expectations.execution_engine"):
        logging.getLogger(name).setLevel(logging.ERROR)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    query = WINNERS.format(
        schema=STAGING_SCHEMA, table=attempt.table, batch_id=int(attempt.batch_id), token=int(attempt.token)
    )
    try:
        source = context.data_sources.add_postgres(folder.pipeline.name, connection_string=_as_stager(dsn))
        asset = source.add_query_asset(attempt.table, query)
        batch = asset.add_batch_definition_whole_table("winners").get_batch()
        suite = gx.ExpectationSuite(**(folder.expectations or {}))
    except Exception as error:  # noqa: BLE001 - GX raises its own kinds without a common parent
        raise BadData(f"{folder.pipeline.name}: expectations.json cannot be run: {last_line(error)}") from None
    outcome = batch.validate(
        suite, result_format={"result_format": "COMPLETE", "unexpected_index_column_names": COORDINATES}
    )
    document: dict[str, Any] = outcome.to_json_dict()  # type: ignore[no-untyped-call]  # GX gives it no type
    document["violations"] = [
        _violation(result) for result in document["results"] if not result["success"] and _is_critical(result)
    ]
    for result in document["results"]:
        _keep_few(result.get("result") or {})
    return document


def _is_critical(result: dict[str, Any]) -> bool:
    severity = (result.get("expectation_config") or {}).get("severity") or "critical"
    return str(severity).endswith("critical")


def _violation(result: dict[str, Any]) -> str:
    config = result["expectation_config"]
    what = f"{config['type']} on {config['kwargs'].get('column', 'the rows')} failed"
    if (result.get("exception_info") or {}).get("raised_exception"):
        return f"{what}: {result['exception_info'].get('exception_message', 'it raised an error')}"
    rows = (result.get("result") or {}).get("unexpected_index_list") or []
    where = ", ".join(f"stream {row['_stream']} offset {row['_offset']}" for row in rows[:3])
    return f"{what} for {len(rows)} rows, such as {where}" if rows else what


def _keep_few(result: dict[str, Any]) -> None:
    for name, value in result.items():
        if isinstance(value, list):
            result[name] = value[:COORDINATES_KEPT]


def _as_stager(dsn: str) -> str:
    parts = parse_dsn(dsn)
    options = f"{parts.get('options', '')} -c role={STAGER}".strip()
    known = {name: parts.pop(name, None) for name in ("user", "password", "host", "port", "dbname")}
    query = {**{k: str(v) for k, v in parts.items()}, "options": options, "application_name": "lockstep validate"}
    url = URL.create(
        "postgresql+psycopg2",
        username=known["user"],
        password=known["password"],
        host=known["host"],
        port=int(known["port"]) if known["port"] else None,
        database=known["dbname"],
        query=query,
    )
    return url.render_as_string(hide_password=False)
