"""Defines the targets of the drills that deliver to other stores."""

APPEND, UPSERT = 'Append("public.drill")', 'Upsert("public.drill", key=("id",))'
