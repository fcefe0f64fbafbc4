"""Leads from a batch's rejects to the form of the history DAG, with the values that a redrive needs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lockstep.core.pipeline.names import SUFFIX
from lockstep.web.dags import known_dags

if TYPE_CHECKING:
    from collections.abc import Sequence


def redrive_page(pipeline: str, batch_id: int, ranges: Sequence[Any]) -> dict[str, Any]:
    """Returns the form's page and its values as JSON: a replay of these segments. Airflow fills in no form by a link.

    Without a history DAG in Airflow there is no form, and the page is None. `next_command` does the same.
    """
    dag_id = f"{pipeline}{SUFFIX}"
    topics = {row.topic for row in ranges}
    conf = {
        "action": "replay",
        "reason": f"redrive of the rejects of batch {batch_id}",
        "topic": next(iter(topics), None),
        "from_offsets": [f"{row.partition}:{row.from_offset}" for row in ranges],
        "until_offsets": [f"{row.partition}:{row.until_offset}" for row in ranges],
    }
    return {
        # The form names one topic, and its offsets are those of it.
        "form": f"/dags/{quote(dag_id, safe='')}" if known_dags([dag_id]) and len(topics) == 1 else None,
        "dag_id": dag_id,
        "conf": json.dumps(conf, indent=2),
        "next_command": f"lockstep rejects {pipeline} --batch {batch_id} --redrive",
    }
