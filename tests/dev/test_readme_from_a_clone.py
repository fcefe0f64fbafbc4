"""Types every command of README's "A pipeline of your own" in a fresh clone, and logs in to the Airflow that it starts."""

from __future__ import annotations

import re
import time

import httpx
import pytest

from lockstep.dev.servers.airflow_api import AirflowApi
from support.scenes.clone import a_clone, login_of, typed_in_one_shell
from support.scenes.typed import MOST_COMMANDS, own_pipeline, write_refunds

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


@pytest.fixture
def clone(tmp_path):
    """Yields a clone with the user's own file in it."""
    with a_clone(tmp_path.resolve() / "lockstep") as folder:
        write_refunds(folder)
        yield folder


def test_the_readme_alone_leads_from_a_clone_to_ones_own_records_in_airflow(clone):
    commands = own_pipeline()
    assert len(commands) <= MOST_COMMANDS

    printed = typed_in_one_shell(commands, clone)

    assert list(printed) == commands, "all of them were typed"
    assert "1,000 records onto refunds.v1" in printed["lockstep dev produce refunds --from refunds.jsonl --key id"]
    assert "1000 written, 0 rejected" in printed["lockstep run refunds --until-idle"]
    assert "refunds: every check holds." in printed["lockstep verify refunds --deep"]
    login = login_of(printed["lockstep dev status --password"])
    address, api = login[0], AirflowApi(*login)
    assert httpx.get(f"{address}/lockstep/").status_code in {401, 403}, "nobody looks without a login"
    end = time.monotonic() + 180
    while "refunds" not in (pipelines := api.page("/lockstep/").text):
        assert time.monotonic() < end, "Airflow has not parsed the DAG"
        time.sleep(1)
    (line,) = [row for row in pipelines.split("<tr") if "<strong>refunds</strong>" in row]
    (batch,) = re.findall(r">batch (\d+)</a>", line)
    batches = api.page("/lockstep/dags/refunds/batches").text
    assert re.search(rf'/batches/{batch}">{batch}</a></td><td class="committed">committed</td><td>live</td>', batches)
    assert '<td class="n" data-value="1000">1,000</td>' in batches
    record = api.page(f"/lockstep/dags/refunds/batches/{batch}")
    assert (record.status_code, "refunds.v1-3" in record.text) == (200, True)
