"""Names of Airflow's SDK. Airflow before 3.3 has them elsewhere, or has no retry policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import airflow.sdk

HAS_RETRY_POLICIES = hasattr(airflow.sdk, "ExceptionRetryPolicy")

if TYPE_CHECKING or HAS_RETRY_POLICIES:
    from airflow.sdk import (
        AssetOrTimeSchedule,
        CronDataIntervalTimetable,
        CronTriggerTimetable,
        ExceptionRetryPolicy,
        RetryAction,
        RetryRule,
    )
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowRescheduleException,
        AirflowSkipException,
    )
    from airflow.sdk.observability import stats
else:
    from airflow.configuration import conf
    from airflow.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowNotFoundException,
        AirflowRescheduleException,
        AirflowSkipException,
    )
    from airflow.stats import Stats as stats  # noqa: N813 - its name from 3.3 on
    from airflow.timetables.assets import AssetOrTimeSchedule
    from airflow.timetables.interval import CronDataIntervalTimetable
    from airflow.timetables.trigger import CronTriggerTimetable

__all__ = [
    "HAS_RETRY_POLICIES",
    "AirflowException",
    "AirflowFailException",
    "AirflowNotFoundException",
    "AirflowRescheduleException",
    "AirflowSkipException",
    "AssetOrTimeSchedule",
    "CronDataIntervalTimetable",
    "CronTriggerTimetable",
    "conf",
    "not_retried",
    "stats",
]


def not_retried(exception: type[BaseException]) -> dict[str, Any]:
    """Returns a task's settings with which this exception ends it without another try."""
    if not HAS_RETRY_POLICIES:
        return {}
    return {"retry_policy": ExceptionRetryPolicy(rules=[RetryRule(exception=exception, action=RetryAction.FAIL)])}
