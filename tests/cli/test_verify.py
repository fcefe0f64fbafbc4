"""Tests that `lockstep verify` says what it compared: to a person in its last lines, to a program in fixed fields."""

from __future__ import annotations


def test_verify_says_in_its_last_line_what_was_compared(lockstep, here):
    here.drain()

    said = lockstep("verify", "drill")
    assert (said.code, said.out.splitlines()[-1]) == (
        0,
        (
            "drill: every check holds. public.drill: coordinates and contents compared with the ledger."
            "  Next: lockstep verify drill --deep"
        ),
    )
    deep = lockstep("verify", "drill", "--deep")
    last = "drill: every check holds. public.drill: coordinates and contents compared with Kafka."
    assert (deep.code, deep.out.splitlines()[-1]) == (0, last)


def test_what_was_not_compared_has_a_line_of_its_own(lockstep, here):
    (here.drill.home / "drill" / "transform.py").write_text("def transform(records):\n    return records\n")
    here.engine.folder.transform  # noqa: B018 - the folder has one now
    said = lockstep("verify", "drill", "--deep")
    assert "not compared: transform.py makes the rows  (every row is what its record says)" in said.out.splitlines()


def test_the_document_of_verify_has_fixed_fields(lockstep, here):
    here.drain()
    here.drill.ask("update public.drill set n = -1 where n = 7 returning 1")

    said = lockstep("verify", "drill", "--deep", "--json")

    document = said.document
    assert said.code == 1
    assert list(document) == ["pipeline", "ok", "deep", "proved", "not_compared", "checks", "conclusion"]
    assert (document["pipeline"], document["ok"], document["deep"]) == ("drill", False, True)
    assert document["proved"] == [{"target": "public.drill", "coordinates": "log", "contents": "wrong"}]
    assert document["not_compared"] == []
    fields = {"name", "ok", "detail", "proves", "target", "against", "left_out"}
    assert all(set(check) == fields for check in document["checks"])
    failed = [check for check in document["checks"] if not check["ok"]]
    assert {(c["proves"], c["against"], c["target"]) for c in failed} == {
        ("contents", "ledger", "public.drill"),
        ("contents", "log", "public.drill"),
    }
    assert document["conclusion"].startswith("drill: NOT every check holds: 2 of ")


def test_a_definition_that_is_not_the_ledgers_is_refused_in_one_line(lockstep, here):
    here.drain()
    here.rewrite('Append("public.drill")', 'Append("public.elsewhere")')

    said = lockstep("verify", "drill")

    assert said.code == 1
    assert "its target was" in said.err
    assert "every check holds" not in said.out


def test_the_help_says_what_is_compared(lockstep):
    said = " ".join(lockstep("verify", "--help").out.split())
    assert "coordinates" in said
    assert "contents" in said
    assert "a transform" in said
