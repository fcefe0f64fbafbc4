"""Targets of the drills that deliver elsewhere."""

APPEND, UPSERT = 'Append("public.drill")', 'Upsert("public.drill", key=("id",))'
