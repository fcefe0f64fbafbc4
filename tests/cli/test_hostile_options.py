"""Tests hostile options: each is a wrong call or a refusal, in few words, without a traceback or an escape."""

from __future__ import annotations

import pytest

from lockstep.cli.exits import Exit
from support.inputs.hostile_settings import BOUNDS, COLUMNS

NOWHERE = "host=127.0.0.1 port=1 user=lockstep dbname=lockstep"
CALLS = {
    "replay": ("replay", "orders", "--reason", "r", "--from={}"),
    "fill": ("fill", "orders", "--until={}"),
    "skip": ("skip", "orders", "--reason", "r", "--to={}"),
    "loss": ("accept-loss", "orders", "--partition={}", "--from=0", "--until=1", "--reason=r"),
    "offset": ("lineage", "orders", "--partition=0", "--offset={}"),
    "key": ("blame", "orders", "--key={}"),
    "batch": ("batch", "{}"),
    "name": ("status", "{}"),
}
ESCAPES = ("\x1b", "\0", "\u202e")


@pytest.mark.parametrize("call", CALLS)
def test_every_hostile_option_is_answered_in_few_words(lockstep, call):
    assert len(BOUNDS) >= 30
    lockstep.define()
    lockstep.environ(LOCKSTEP_DSN=NOWHERE, LOCKSTEP_KAFKA="127.0.0.1:1")
    for value in BOUNDS:
        said = lockstep(*(part.replace("{}", value) for part in CALLS[call]))
        assert said.code in {Exit.REFUSED, Exit.USAGE, Exit.AWAY}, (value[:50], said)
        assert "Traceback" not in said.err
        assert not any(escape in said.out + said.err for escape in ESCAPES), (value[:50], said)
        assert len(said.err) < 3_000, (value[:50], len(said.err))


def test_every_hostile_schema_of_a_new_pipeline_is_answered_in_few_words(lockstep):
    written = 0
    for number, columns in enumerate(COLUMNS):
        said = lockstep("new", f"p{number}", "--topic", "t", f"--columns={columns}")
        assert said.code in {0, 1, 2}, (columns[:50], said)
        assert "Traceback" not in said.err
        assert not any(escape in said.err for escape in ESCAPES), (columns[:50], said)
        assert len(said.err) < 3_000, (columns[:50], len(said.err))
        if said.code == 0:
            written += 1
            assert lockstep("check", f"p{number}").code == 0, columns[:50]
        else:
            assert not (lockstep.pipelines / f"p{number}").exists()
    assert 0 < written < 10


TEXTS = (
    ("pause", "drill", "--reason", "{}"),
    ("run", "drill", "--key", "{}"),
    ("blame", "drill", "--key", "{}"),
    ("lineage", "drill", "--topic", "{}", "--partition", "0", "--offset", "0"),
    ("replay", "drill", "--reason", "{}"),
    ("skip", "drill", "--to", "latest", "--reason", "{}"),
    ("abandon", "1", "--reason", "{}"),
    ("retire", "drill", "--reason", "{}"),
    ("accept-loss", "drill", "--partition=0", "--from=0", "--until=1", "--reason={}"),
    ("forget", "drill", "--reason", "{}"),
    ("rename", "{}", "drill", "--reason", "r"),
    ("status", "{}"),
    ("changes", "drill", "--target", "{}"),
)


@pytest.mark.parametrize("call", TEXTS, ids=" ".join)
def test_a_text_that_is_no_utf_8_is_a_wrong_call_and_changes_nothing(lockstep, here, call):
    here.drain()
    said = lockstep(*(part.replace("{}", "caf\udce9") for part in call), "--json")
    assert said.code == Exit.USAGE, said
    assert "Traceback" not in said.err
    assert "caf\\udce9" in said.err
    assert said.err.count("\n") == 1
    assert here.drill.ask("select count(*) from lockstep.decision") == [(0,)]
