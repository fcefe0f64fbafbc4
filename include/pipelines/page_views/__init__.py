"""Appends page views at least once: none may be missing, and a crash may count some of them twice."""

from lockstep import Append, AtLeastOnce, Json, Limits, Pipeline

PAGE_VIEWS = Pipeline(
    name="page_views",
    topic="page_views.v1",
    format=Json("page string, visitor string, at timestamp"),
    target=Append("public.page_views"),
    guarantee=AtLeastOnce(),
    limits=Limits(records=500_000, seconds=120),
    schedule="*/5 * * * *",
    owner="web",
)
