"""Lists mutants of a newcomer's first inputs: jars, names, topics, files of records, the password of the pages."""

from __future__ import annotations

from mutants.mutant import Edit, one

COMMANDS = "tests/dev/test_dev_commands.py::"
JARS = "tests/dev/test_locked_jars.py::"
CALLS = "tests/kafka/test_calls.py::"
LINES = "tests/cli/test_dev_produce.py::test_one_bad_line_is_refused_by_its_number_and_no_line_is_sent"

MUTANTS = [
    one(
        "a jar is taken by its name",
        "a registry, a mirror or a proxy could hand out another broker",
        f"{JARS}test_a_jar_with_one_changed_byte_is_refused_by_name_with_the_next_command",
        Edit("adapters/jar_lock.py", ":= sha256(found[path])) != locked[path]", ":= locked[path]) != locked[path]"),
        long=True,
    ),
    one(
        "a pipeline may have a name of Python's own",
        "its folder would be __init__ or __pycache__",
        (
            "tests/core/test_names.py::test_a_name_that_no_pipeline_can_have_is_refused_with_one_that_it_can['__init__']",
        ),
        Edit("core/pipeline/names.py", 'name.startswith("__")', 'name.startswith("___")'),
        long=True,
    ),
    one(
        "another number of partitions is taken for the same topic",
        "its author would wait for partitions that are not there",
        ("tests/cli/test_dev_topic.py::test_another_number_of_partitions_is_refused_and_nothing_changes",),
        Edit("dev/records/topics.py", "if partitions not in {None, there}:", "if there == 0:"),
        long=True,
    ),
    one(
        "lines are sent before all of them are looked at",
        "half of a file would be on the topic when its bad line is met",
        (f"{LINES}[no json]", f"{LINES}[no key]", f"{LINES}[an object]"),
        Edit(
            "dev/records/lines.py", '_record(f"{shown}:{count}", line, key)', '_record(f"{shown}:{count}", line, None)'
        ),
        long=True,
    ),
    one(
        "status shows the password unasked",
        "it would stand in every report of a problem",
        (f"{COMMANDS}test_status_tells_where_airflows_pages_are_and_its_password_only_when_asked",),
        Edit("cli/dev.py", "    if not with_password:\n", "    if not login:\n"),
        long=True,
    ),
    one(
        "a run inherits the password of the pages",
        "each transform could log in as the admin",
        ("tests/dags/test_withheld.py::test_what_a_driver_inherits_holds_no_secret_of_airflow",),
        Edit("adapters/withheld.py", "|AIRFLOW_PASSWORD", ""),
        long=True,
    ),
    one(
        "a call takes another value than the folder's",
        "its author would change the value, and the folder's would run",
        (f"{CALLS}test_what_is_not_the_pipeline_on_disk_is_refused",),
        Edit("calls.py", " and folder.pipeline != pipeline:", " and False:"),
        long=True,
    ),
    one(
        "a blocked pipeline is a result",
        "a scheduler would call a load done that waits for a person",
        (f"{CALLS}test_a_key_is_one_batch_and_a_blocked_pipeline_needs_a_decision",),
        Edit(
            "calls.py",
            "        raise NeedsDecision(decision.reason, next_command=decision.next_command)\n",
            "        pass\n",
        ),
        long=True,
    ),
    one(
        "threads of one process work at once",
        "each would resume the batch of the other, for they are one holder",
        (f"{CALLS}test_threads_of_one_process_take_turns_and_no_record_is_read_twice",),
        Edit("calls.py", "        with _turns[folder.pipeline.name]:\n            yield at\n", "        yield at\n"),
        long=True,
    ),
]
