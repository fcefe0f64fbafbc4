"""Tests the cookbook's recipe for a lake in a bucket, typed as it stands on the page."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import psycopg2
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"
RECIPE = re.compile(r"^## Every shipment in a bucket\n\n```python\n((?:.*\n)+?)```\n\n((?: {4}.*\n)+)", re.MULTILINE)
POINTER = "select metadata_location from lockstep_lake.iceberg_tables where table_name = 'shipments'"
SENT = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_cookbooks_recipe_brings_every_shipment_into_a_bucket_once(
    database, kafka, topic, produce, store, prefix, tmp_path
):
    from pyiceberg.table import StaticTable  # noqa: PLC0415 - the extra may be missing

    name = topic(partitions=2)
    sent = [{"shipment_id": f"s{n}", "weight": f"{n}.125", "sent_at": SENT.isoformat()} for n in range(50)]
    produce(name, [(each["shipment_id"], json.dumps(each)) for each in sent])
    recipe, typed = RECIPE.findall(PAGE.read_text())[0]
    (tmp_path / "pipelines" / "shipments").mkdir(parents=True)
    (tmp_path / "pipelines" / "shipments" / "__init__.py").write_text(
        f"from lockstep import Append, Iceberg, Json, Pipeline\nP = {recipe.replace('shipments.v1', name)}"
    )
    config = tmp_path / "lake.json"
    config.write_text(json.dumps(store.options()))
    for ours, theirs in (("s3://analytics/lake", f"s3://lake/{prefix}"), ("/etc/lockstep/lake.json", str(config))):
        assert ours in typed
        typed = typed.replace(ours, theirs)
    environ = os.environ | {
        "LOCKSTEP_PIPELINES": str(tmp_path / "pipelines"),
        "LOCKSTEP_DSN": database,
        "LOCKSTEP_KAFKA": kafka,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-eu"],
        input=typed,
        env=environ,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "shipments: every check holds" in done.stdout
    assert f"s3://lake/{prefix}/logistics/shipments/data/" in done.stdout
    assert store.secret not in done.stdout + done.stderr
    with closing(psycopg2.connect(database)) as conn, conn, conn.cursor() as cur:
        cur.execute(POINTER)
        ((address,),) = cur.fetchall()
    held = StaticTable.from_metadata(address, store.options()).scan().to_arrow().to_pylist()
    rows = sorted((row["shipment_id"], row["weight"], row["sent_at"]) for row in held)
    assert rows == sorted((each["shipment_id"], Decimal(each["weight"]), SENT) for each in sent)
