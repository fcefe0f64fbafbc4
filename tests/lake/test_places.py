"""Tests places of the lake: what is written must be there before a pointer leads to it, and an address holds no login."""

from __future__ import annotations

import json
import os

import pytest

from lockstep.adapters.iceberg.folder import settle
from lockstep.adapters.iceberg.schema import make_table
from lockstep.adapters.iceberg.store import configured_lake, lake_place
from lockstep.core.errors import Refusal
from lockstep.core.pipeline.columns import parse_columns
from support.fakes.hollow_store import hollow_store

KEYS = {"s3.access-key-id": "canary-id", "s3.secret-access-key": "canary-secret"}


@pytest.fixture
def hollow(monkeypatch):
    with hollow_store() as store:
        monkeypatch.setenv("LOCKSTEP_LAKE_CONFIG", json.dumps(KEYS | {"s3.endpoint": store.endpoint}))
        yield store


def test_a_file_that_the_store_does_not_show_is_refused_before_a_pointer_leads_to_it(hollow, tmp_path):
    empty = tmp_path / "1.metadata.json"
    empty.touch()
    with pytest.raises(Refusal, match="does not show what it took"):
        settle([f"file://{empty}"])
    hollow.say(404)
    with pytest.raises(Refusal, match=r"does not show what it took|no such bucket"):
        settle(["s3://bucket/lake/1.metadata.json"])


def test_a_server_that_says_yes_to_anything_is_no_store(hollow):
    hollow.say(200)
    with pytest.raises(Refusal, match="what answers there is no object store"):
        make_table("s3://bucket/lake/sales/orders", parse_columns("id string"))


def test_an_address_with_a_login_is_refused_and_not_repeated():
    for address in ("s3://id:canary@bucket/lake", "s3://canary@bucket", "s3://bucket/lake?key=canary"):
        with pytest.raises(Refusal, match="holds a login or a query") as refused:
            lake_place(address)
        assert "canary" not in str(refused.value)


def test_keys_that_were_written_anew_are_the_login_from_then_on(tmp_path, monkeypatch):
    file = tmp_path / "lake.json"
    monkeypatch.setenv("LOCKSTEP_LAKE_CONFIG", str(file))
    for number, token in enumerate(("first", "second")):
        keys = {"s3.access-key-id": "id", "s3.secret-access-key": "key", "s3.session-token": token}
        file.write_text(json.dumps(keys))
        os.utime(file, (number, number))
        assert dict(configured_lake().values)["s3.session-token"] == token
    file.unlink()
    with pytest.raises(Refusal, match="neither a JSON object nor the path of a file that can be read"):
        configured_lake()
