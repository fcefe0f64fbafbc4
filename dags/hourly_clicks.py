"""Runs once for each complete hour of clicks, and prints its number of records.

This is an example of a DAG behind a pipeline.
"""

from datetime import timedelta

from airflow.providers.common.sql.operators.sql import SQLExecuteQueryOperator
from airflow.sdk import DAG, PartitionedAssetTimetable

from lockstep.airflow import hours_of
from pipelines.clicks import CLICKS

OF_AN_HOUR = """
select count(c._offset) as clicks, count(distinct c.url) as pages
from lockstep.hour_offsets h left join public.clicks c
    on c._stream = h.stream_id and c._offset >= h.from_offset and c._offset < h.until_offset
where h.pipeline = 'clicks' and h.until = %(hour)s::timestamptz + interval '1 hour'
"""

with DAG(
    "hourly_clicks",
    schedule=PartitionedAssetTimetable(assets=hours_of(CLICKS)),
    catchup=False,
    tags=["lockstep", "example"],
    default_args={"owner": "web", "retries": 2, "retry_delay": timedelta(seconds=30)},
    doc_md="The partition key is the hour, in UTC. It runs when every record of that hour is in the table, and not before.",
) as dag:
    SQLExecuteQueryOperator(
        task_id="count",
        conn_id="postgres_default",
        sql=OF_AN_HOUR,
        parameters={"hour": "{{ dag_run.partition_key }}Z"},
    )
