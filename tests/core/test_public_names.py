"""Keeps one meaning for each public name: a name is defined in one module, or stands here with its reason."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ENGINE = Path(__file__).parents[2] / "include" / "lockstep"
MOST_SHARED = 9
SERVERS = "each server of the embedded stack has it, and `switch` calls each by it"
# Names that several modules define, each with its reason. The list only shrinks.
SHARED = {
    "Q": "the statements of the `.sql` file beside the module",
    "kill": SERVERS,
    "log": "the module's logger, as every Python program names it",
    "main": "the entry of a module that is run as a program",
    "publish": "each kind of target has it, and `targets.publish` chooses the kind",
    "running": SERVERS,
    "start": SERVERS,
    "stop": SERVERS,
    "withdraw": "each kind of target has it, and `targets.withdraw` chooses the kind",
}


def public_names(source):
    """Returns the public names that a module itself defines: classes, functions, constants and aliases of types."""
    names = set()
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Assign(targets=targets):
                names.update(each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return {name for name in names if not name.startswith("_")}


def shared_names(sources):
    """Returns, for each name that more than one of these modules defines, its modules."""
    modules = defaultdict(list)
    for module, source in sources.items():
        for name in public_names(source):
            modules[name].append(module)
    return {name: sorted(found) for name, found in modules.items() if len(found) > 1}


def test_a_public_name_means_one_thing():
    sources = {str(file.relative_to(ENGINE)): file.read_text(encoding="utf-8") for file in ENGINE.rglob("*.py")}
    shared = shared_names(sources)
    assert {name: modules for name, modules in shared.items() if name not in SHARED} == {}
    assert [name for name in SHARED if name not in shared] == []
    assert len(SHARED) <= MOST_SHARED


def test_a_name_of_two_modules_is_found_whatever_defines_it():
    modules = {
        "a": "find, MOST = 1, 2\nclass Row: pass\nasync def read(): pass\n_own = 1",
        "b": "def find():\n    inner = 1\nRow: type = int\nMOST = 3\n_own = 2",
        "c": "from a import Row\ninner = read = 1",
    }
    assert shared_names(modules) == {
        "MOST": ["a", "b"],
        "Row": ["a", "b"],
        "find": ["a", "b"],
        "read": ["a", "c"],
    }
