"""Tests that verify hashes each recorded definition again, and that a hash has every letter of SHA-256."""

from __future__ import annotations

import re

import pytest

from lockstep.core.pipeline.folder import SHORT_HASH, hash_of, is_hash_of
from lockstep.ledger.proof.definitions import DEFINITIONS_CHECK
from lockstep.steps.proof.verify import verify_of_ledger
from support.scenes.erasing import detail_of, wrong


@pytest.mark.parametrize(
    "change", ["jsonb_set(document, '{transform}', '\"harmless\"')", "document || '{\"more\": 1}'"]
)
def test_a_definition_whose_text_was_changed_is_named_with_its_first_batch(contents, change):
    here = contents()
    here.drain()
    assert wrong(here, deep=False) == []
    assert detail_of(here, DEFINITIONS_CHECK) == "1 texts by their SHA-256"
    here.sql(f"update lockstep.definition set document = {change}")
    ((name, detail),) = wrong(here, deep=False)
    assert name == DEFINITIONS_CHECK
    assert re.fullmatch(r"the text of definition [0-9a-f]{64} is not what batch 1 ran", detail)


def test_a_ledger_without_its_folder_hashes_definitions_too(contents):
    here = contents()
    here.drain()
    pipeline = here.folder.pipeline
    here.sql("update lockstep.definition set document = document || '{\"more\": 1}'; drop table public.drill")
    found = [check for check in verify_of_ledger(here.at.conn, pipeline) if check.name == DEFINITIONS_CHECK]
    assert [check.ok for check in found] == [False]


def test_a_hash_from_before_has_the_first_letters_and_no_others_pass():
    document = {
        "name": "orders",
        "expectations": {"expectations": [{"kwargs": {"max_value": 0.00001, "min_value": 1.0}}]},
    }
    whole = hash_of(document)
    assert len(whole) == 64
    assert is_hash_of(whole, document)
    assert is_hash_of(whole[:SHORT_HASH], document)
    assert not is_hash_of(whole[:32], document)
    assert not is_hash_of(whole, document | {"name": "other"})
