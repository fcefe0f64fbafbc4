"""Collects every mutant there is."""

from __future__ import annotations

from mutants.of_adoption import MUTANTS as ADOPTION
from mutants.of_approvals import MUTANTS as APPROVALS
from mutants.of_archive import MUTANTS as ARCHIVE
from mutants.of_authors import MUTANTS as AUTHORS
from mutants.of_avro import MUTANTS as AVRO
from mutants.of_chain import MUTANTS as CHAIN
from mutants.of_change import MUTANTS as CHANGE
from mutants.of_clusters import MUTANTS as CLUSTERS
from mutants.of_connections import MUTANTS as CONNECTIONS
from mutants.of_constraints import MUTANTS as CONSTRAINTS
from mutants.of_contents import MUTANTS as CONTENTS
from mutants.of_debezium import MUTANTS as DEBEZIUM
from mutants.of_decisions import MUTANTS as DECISIONS
from mutants.of_definitions import MUTANTS as DEFINITIONS
from mutants.of_elsewhere import MUTANTS as ELSEWHERE
from mutants.of_erased_images import MUTANTS as ERASED_IMAGES
from mutants.of_erasures import MUTANTS as ERASURES
from mutants.of_evolution import MUTANTS as EVOLUTION
from mutants.of_feeds import MUTANTS as FEEDS
from mutants.of_first_steps import MUTANTS as FIRST_STEPS
from mutants.of_fleet import MUTANTS as FLEET
from mutants.of_followed import MUTANTS as FOLLOWED
from mutants.of_guards import MUTANTS as GUARDS
from mutants.of_hidden_rows import MUTANTS as HIDDEN_ROWS
from mutants.of_hostile import MUTANTS as HOSTILE
from mutants.of_hours import MUTANTS as HOURS
from mutants.of_keyed_lake import MUTANTS as KEYED_LAKE
from mutants.of_lake import MUTANTS as LAKE
from mutants.of_lake_upkeep import MUTANTS as LAKE_UPKEEP
from mutants.of_leases import MUTANTS as LEASES
from mutants.of_logins import MUTANTS as LOGINS
from mutants.of_moves import MUTANTS as MOVES
from mutants.of_one_log import MUTANTS as ONE_LOG
from mutants.of_owners import MUTANTS as OWNERS
from mutants.of_parts import MUTANTS as PARTS
from mutants.of_promotions import MUTANTS as PROMOTIONS
from mutants.of_relays import MUTANTS as RELAYS
from mutants.of_retire import MUTANTS as RETIRE
from mutants.of_sends import MUTANTS as SENDS
from mutants.of_source_order import MUTANTS as SOURCE_ORDER
from mutants.of_the_edges import MUTANTS as EDGES
from mutants.of_the_engine import MUTANTS as ENGINE
from mutants.of_the_ledger import MUTANTS as LEDGER
from mutants.of_the_rest import MUTANTS as REST
from mutants.of_the_steps import MUTANTS as STEPS
from mutants.of_timelines import MUTANTS as TIMELINES
from mutants.of_topics import MUTANTS as TOPICS
from mutants.of_totals import MUTANTS as TOTALS
from mutants.of_upkeep import MUTANTS as UPKEEP
from mutants.of_verify import MUTANTS as VERIFY
from mutants.of_versions import MUTANTS as VERSIONS
from mutants.of_windows import MUTANTS as WINDOWS

MUTANTS = [
    *ADOPTION,
    *APPROVALS,
    *ARCHIVE,
    *AUTHORS,
    *AVRO,
    *CONNECTIONS,
    *CLUSTERS,
    *CONSTRAINTS,
    *CHAIN,
    *CHANGE,
    *CONTENTS,
    *DEBEZIUM,
    *DECISIONS,
    *DEFINITIONS,
    *EDGES,
    *ELSEWHERE,
    *ENGINE,
    *ERASED_IMAGES,
    *ERASURES,
    *FEEDS,
    *FLEET,
    *FOLLOWED,
    *FIRST_STEPS,
    *EVOLUTION,
    *PROMOTIONS,
    *GUARDS,
    *HIDDEN_ROWS,
    *HOSTILE,
    *HOURS,
    *KEYED_LAKE,
    *LAKE,
    *LAKE_UPKEEP,
    *LEASES,
    *LEDGER,
    *LOGINS,
    *MOVES,
    *ONE_LOG,
    *OWNERS,
    *PARTS,
    *RELAYS,
    *SENDS,
    *REST,
    *RETIRE,
    *SOURCE_ORDER,
    *STEPS,
    *TIMELINES,
    *TOPICS,
    *TOTALS,
    *UPKEEP,
    *VERIFY,
    *VERSIONS,
    *WINDOWS,
]
