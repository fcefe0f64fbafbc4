"""A scrape as Prometheus reads it: values by metric and labels."""

from __future__ import annotations

import math

from prometheus_client.parser import text_string_to_metric_families

Values = dict[tuple[str, ...], float]


def values(text: str) -> Values:
    """Each sample by its name and its labels' values, in the order of the labels' names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def health(found: Values, pipeline: str) -> str:
    """The one state of a pipeline's health that is 1."""
    (state,) = [key[1] for key, on in found.items() if key[0] == "lockstep_health" and key[2] == pipeline and on == 1]
    return state


def conditions(found: Values, pipeline: str) -> set[str]:
    """The conditions of a pipeline that are 1."""
    return {key[1] for key, on in found.items() if key[0] == "lockstep_condition" and key[2] == pipeline and on == 1}


def unknown(found: Values, metric: str, pipeline: str) -> bool:
    """Returns True if a metric is there and tells that its value is not known."""
    return math.isnan(found[f"lockstep_{metric}", pipeline])
