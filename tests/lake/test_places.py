"""Tests places of the lake: what is written must be there before a pointer leads to it, and an address holds no login."""

from __future__ import annotations

import json
import os
from uuid import uuid4

import pytest

from lockstep.adapters.iceberg.folder import settle
from lockstep.adapters.iceberg.schema import make_table
from lockstep.adapters.iceberg.store import configured_lake, lake_place
from lockstep.core.errors import Refusal
from lockstep.core.lake.addresses import CHARACTERS_OF_A_FILE, MOST_CHARACTERS, address_of_table
from lockstep.core.lake.iceberg import Iceberg
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


@pytest.mark.parametrize(
    ("warehouse", "why"),
    [
        ("file:///srv/per%20cent", "has a %, which readers"),
        ("s3://bucket/per%20cent", "has a %, which readers"),
        ("file:///srv/lake#1", "has a #, which readers"),
        ("file:///srv/lake?1", r"has a \?, which readers"),
        (f"file:///srv/{'l' * 900}", "has 925 characters, and at most 900 are taken"),
    ],
    ids=["an-escape", "an-escape-in-a-bucket", "a-fragment", "a-query", "too-long"],
)
def test_an_address_that_will_not_do_is_refused_before_a_table_is_made(warehouse, why):
    with pytest.raises(Refusal, match=why) as no:
        address_of_table("drill", warehouse, Iceberg("sales.orders"))
    assert no.value.next_command == "set LOCKSTEP_LAKE to another address, then lockstep migrate drill"


def test_the_longest_address_leaves_room_for_the_names_of_metadata_files():
    warehouse = f"file:///{'l' * (MOST_CHARACTERS - CHARACTERS_OF_A_FILE - len('file:////sales/orders'))}"
    address = address_of_table("drill", f"{warehouse}/", Iceberg("sales.orders"))
    longest = f"/metadata/{2**31:05}-{uuid4()}.metadata.json"
    assert len(address + longest) <= MOST_CHARACTERS
