"""Lists mutants of the look at all pipelines, and of the file that makes all DAGs."""

from __future__ import annotations

from mutants.mutant import Edit, one

CLOSER = "tests/core/test_fleet.py::test_where_a_plan_must_look_closer_nothing_is_said"
GLANCE = "core/fleet/glance.py"

MUTANTS = [
    one(
        "a look sees no other leader",
        "the log may have lost its end and grown past the position again, and the look would say idle",
        (f"{CLOSER}[another leader]",),
        Edit(GLANCE, "        and not any(has_new_epoch(stream, view) for stream in known.streams)\n", ""),
    ),
    one(
        "a look sees no new partition",
        "its records would wait unseen",
        (f"{CLOSER}[a partition is new]",),
        Edit(GLANCE, "} == view.partitions.keys()", "} <= view.partitions.keys()"),
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
    ),
    one(
        "a look overlooks an unfinished batch",
        "the batch that somebody left would be idle for good",
        (f"{CLOSER}[a batch is unfinished, or a transform is promoted]",),
        Edit(GLANCE, "        not known.needs_plan\n        and pipeline", "        pipeline"),
    ),
    one(
        "a broken definition hides all DAGs",
        "one mistake in one folder would stop every pipeline of the file",
        ("tests/dags/test_dag_files.py::test_one_file_makes_the_dags_of_all_and_a_broken_definition_hides_no_other",),
        Edit("airflow/bundle.py", "            found[name] = broken\n", "            raise\n"),
        long=True,
    ),
]
