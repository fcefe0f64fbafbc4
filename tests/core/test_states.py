"""States are enumerations: the ledger's constraints list the same words, and code compares names, never text."""

import ast
import re
from pathlib import Path

import pytest

import lockstep
from lockstep.core import states
from lockstep.core.planning.history import HistoryAction, RunMode
from lockstep.core.states import (
    AttemptState,
    BatchState,
    CommitUnit,
    CoverageKind,
    Expected,
    Lane,
    RangeEnd,
    WindowState,
    WorkState,
)

ROOM = Path(lockstep.__file__).parent
SCHEMA = (ROOM / "ledger" / "schema.sql").read_text()
ENUMERATIONS = (
    AttemptState,
    BatchState,
    CommitUnit,
    CoverageKind,
    Expected,
    HistoryAction,
    Lane,
    RangeEnd,
    RunMode,
    WindowState,
    WorkState,
)
WORDS = {member.value for enumeration in ENUMERATIONS for member in enumeration}
AIRFLOWS = {"dev/drain.py"}  # compares the states of Airflow's runs, as its API says them
FIELDS = {"state", "lane", "unit", "coverage", "what", "mode", "action", "expects"}


@pytest.mark.parametrize(
    ("constraint", "enumeration"),
    [
        ("batch_lane_check", Lane),
        ("batch_state_check", BatchState),
        ("attempt_state_check", AttemptState),
        ("attempt_unit_check", CommitUnit),
        ("coverage_kind_check", CoverageKind),
        ("claim_expects_check", Expected),
    ],
)
def test_an_enumeration_has_exactly_the_words_that_the_ledger_takes(constraint, enumeration):
    (listed,) = re.findall(rf"constraint {constraint} check \(\w+ in \(([^)]*)\)", SCHEMA)
    assert set(re.findall(r"'([^']*)'", listed)) == set(enumeration)


def test_a_request_has_every_lane_but_the_live_one():
    (listed,) = re.findall(r"constraint request_lane_check check \(lane in \(([^)]*)\)", SCHEMA)
    assert set(re.findall(r"'([^']*)'", listed)) == set(Lane) - {Lane.LIVE}


def test_a_history_run_can_choose_each_lane_of_a_request():
    assert set(HistoryAction) >= set(Lane) - {Lane.LIVE}


def test_no_code_compares_a_state_with_text():
    lines = {str(path.relative_to(ROOM)): sorted(compared(path)) for path in ROOM.rglob("*.py")}
    assert {name: found for name, found in lines.items() if found and name not in AIRFLOWS} == {}
    assert all(lines[name] for name in AIRFLOWS), "an exception that nobody needs"


def test_the_look_at_comparisons_sees_each_form(tmp_path):
    code = tmp_path / "code.py"
    code.write_text(
        'batch.state == "committed"\nrow["lane"] != "live"\nlane in {"fill", "replay"}\n'
        "match answer.state:\n    case 'done':\n        pass\n"
        'batch.state == BatchState.COMMITTED\nname == "live"\nbatch.state == "of another kind"\n'
    )
    assert sorted(compared(code)) == [1, 2, 3, 5]


def compared(path):
    """Yields the lines that compare a field of a state with a word of an enumeration."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Compare():
                sides = [node.left, *node.comparators]
                if any(field_of(side) in FIELDS for side in sides) and any(words_of(side) & WORDS for side in sides):
                    yield node.lineno
            case ast.Match() if field_of(node.subject) in FIELDS:
                for case in node.cases:
                    if isinstance(case.pattern, ast.MatchValue) and words_of(case.pattern.value) & WORDS:
                        yield case.pattern.lineno


def field_of(node):
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Subscript(slice=ast.Constant(value=name)):
            return name
    return None


def words_of(node):
    match node:
        case ast.Constant(value=str(word)):
            return {word}
        case ast.Tuple(elts=parts) | ast.Set(elts=parts) | ast.List(elts=parts):
            return set().union(*(words_of(part) for part in parts))
    return set()


def test_every_enumeration_of_the_ledger_is_looked_for():
    defined = {
        value for value in vars(states).values() if isinstance(value, type) and value.__module__ == states.__name__
    }
    assert defined <= set(ENUMERATIONS)
