"""Lists mutants of what keeps executors from the ledger, and passwords from a cluster."""

from __future__ import annotations

from mutants.mutant import Drop, Edit, one

RIGHTS = "tests/ledger/test_executors.py::"
TOLD = "tests/core/test_submitted.py::"
SUBMITTED = "tests/cluster/test_submission.py::"
MADE, STAGED = "ledger/migrations/0066_executors.sql", "for role lockstep_stager in schema lockstep_staging"

MUTANTS = [
    one(
        "a published partition stays open to executors",
        "a login that stages would write into a target",
        f"{RIGHTS}test_a_stagers_login_adds_staged_rows_and_can_read_or_change_nothing",
        Edit(MADE, "execute format('revoke all on %s from lockstep_executor', staged);", ""),
        long=True,
    ),
    one(
        "executors may read what is staged",
        "code in a transform would see the rows of every pipeline",
        f"{RIGHTS}test_a_stagers_login_adds_staged_rows_and_can_read_or_change_nothing",
        Drop(f"alter default privileges {STAGED} grant select on tables to lockstep_executor"),
        long=True,
    ),
    one(
        "sessions of the stager's login are not ended",
        "a dead attempt's task would go on writing",
        f"{RIGHTS}test_a_session_of_a_stagers_login_that_still_writes_is_ended",
        Edit("ledger/batch/commit.sql", "pg_has_role(usesysid, 'lockstep_executor', 'MEMBER')", "false"),
        long=True,
    ),
    one(
        "the driver's file may be read by everybody",
        "each user of a worker would have the ledger's password",
        (f"{TOLD}test_a_file_that_cannot_be_meant_is_refused_without_its_values[open to others]",),
        Edit("context/environment.py", "if facts.st_mode & OTHERS:", "if facts.st_mode & OTHERS and not facts:"),
        long=True,
    ),
    one(
        "the program that submits sends what it has",
        "the master would keep the ledger's password",
        f"{TOLD}test_a_program_that_submits_to_a_cluster_has_no_secret_to_send",
        Edit("adapters/withheld.py", "if OF_SUBMITTERS.fullmatch(name)}", "if OF_SUBMITTERS.pattern}"),
        long=True,
    ),
    one(
        "a driver does not take the permission to take over from its arguments",
        "a run that was triggered with it would wait for the holder",
        (f"{TOLD}test_a_driver_finds_in_its_arguments_the_task_that_it_works_for[one Airflow-a try-to take over]",),
        Edit("context/submitted.py", "take_over=TAKE_OVER in arguments,", "take_over=False,"),
        long=True,
    ),
    one(
        "a driver on Kubernetes is looked for on the machine that submits",
        "Spark would refuse it, or upload what the image has already",
        (f"{SUBMITTED}test_each_cluster_is_given_the_job_as_it_takes_it_and_no_secret[k8s]",),
        Edit("airflow/job.py", 'f"local://{self.application}"', "self.application"),
        long=True,
    ),
    one(
        "YARN starts a driver of the same try again",
        "it would work for an attempt that is over",
        (f"{SUBMITTED}test_each_cluster_is_given_the_job_as_it_takes_it_and_no_secret[yarn]",),
        Edit("airflow/job.py", '"spark.yarn.maxAppAttempts": "1", ', ""),
        long=True,
    ),
    one(
        "an application of YARN is ended by Airflow's own way",
        "its program would get the ledger's password, and most machines do not have it",
        f"{SUBMITTED}test_an_application_of_yarn_is_ended_behind_its_attempt_and_by_a_program_without_secrets",
        Edit("airflow/job.py", "elif application:", "elif not application:"),
        long=True,
    ),
]
