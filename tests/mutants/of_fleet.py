"""Lists mutants of the look at all pipelines, of the DAGs that work on them, and of wake-ups."""

from __future__ import annotations

from mutants.mutant import Edit, one

CLOSER = "tests/core/test_fleet.py::test_where_a_plan_must_look_closer_nothing_is_said"
GLANCE = "core/fleet/glance.py"
WORK = "airflow/fleet/work.py"
WAKING = "core/fleet/waking.py"
OF_WORK = "tests/dags/test_fleet_dag.py::"
WOKEN = "tests/core/test_waking.py::test_a_run_is_woken_for_what_the_last_wake_up_was_not_for"

MUTANTS = [
    one(
        "a look sees no other leader",
        "the log may have lost its end and grown past the position again, and the look would say idle",
        (f"{CLOSER}[another leader]",),
        Edit(GLANCE, "        and not any(has_new_epoch(stream, view) for stream in known.streams)\n", ""),
        long=True,
    ),
    one(
        "a look sees no new partition",
        "its records would wait unseen",
        (f"{CLOSER}[a partition is new]",),
        Edit(GLANCE, "} == view.partitions.keys()", "} <= view.partitions.keys()"),
        long=True,
    ),
    one(
        "a look begins in a table of another pipeline",
        "its run would be blocked each time that the look has named it",
        (f"{CLOSER}[no table is recorded as its own]", f"{CLOSER}[a table is shared]"),
        Edit(
            GLANCE,
            "        case Start() as start if _owns_its_tables(pipeline, known):",
            "        case Start() as start:",
        ),
        long=True,
    ),
    one(
        "a look overlooks an unfinished batch",
        "the batch that somebody left would be idle for good",
        (f"{CLOSER}[a batch is unfinished, or a transform is promoted]",),
        Edit(GLANCE, "        not known.needs_plan\n        and pipeline", "        pipeline"),
        long=True,
    ),
    one(
        "a broken definition hides all DAGs",
        "one mistake in one folder would stop every pipeline of the file",
        ("tests/dags/test_dag_files.py::test_one_file_makes_the_dags_of_all_and_a_broken_definition_hides_no_other",),
        Edit("airflow/bundle.py", "Refusal) and not isinstance(folder, BadDefinition):", "Refusal):"),
        long=True,
    ),
    one(
        "a second try of a fleet's task works again",
        "a pipeline that ends its process would end each try, and stop the others for good",
        (f"{OF_WORK}test_a_second_try_leaves_all_to_tasks_of_their_own",),
        Edit(WORK, '    if get_current_context()["ti"].try_number > 1:\n        return names\n', ""),
        long=True,
    ),
    one(
        "a pipeline of a fleet fails unseen",
        "its run would be green, and nobody would be asked to decide",
        (f"{OF_WORK}test_a_pipeline_that_fails_is_left_and_the_next_one_goes_on",),
        Edit(WORK, "            left.append(name)\n", ""),
        long=True,
    ),
    one(
        "a task of its own announces no committed batch",
        "the events of a process that died behind its commit would be lost",
        (f"{OF_WORK}test_a_task_of_its_own_announces_what_is_committed_and_fails_as_it_fails",),
        Edit(WORK, "page, is_retry=True)", "page, is_retry=False)"),
        long=True,
    ),
    one(
        "each new record wakes a run",
        "runs would pile up in Airflow for as long as a batch takes",
        (f"{WOKEN}[the run still works]",),
        Edit(WAKING, " or seconds >= WAKE_AGAIN_SECONDS", " or seconds >= 0"),
        long=True,
    ),
    one(
        "a rest wakes no run",
        "a backlog would wait for the schedule after each batch",
        (f"{WOKEN}[the run has left a rest]",),
        Edit(WAKING, "woken is None or now.positions != woken.positions or", "woken is None or"),
        long=True,
    ),
]
