-- name: open_changes
-- A set for what this commit does to one target; in words, what keeps it from being told.
select lockstep.open_changes(%(target)s, %(batch_id)s, %(stream_id)s) as misses

-- name: hold_trimming
-- Upkeep that trims locks images before the feed, and an erasure the feed before images.
select pg_advisory_xact_lock(hashtextextended('lockstep.trim ' || %(target)s, 0))

-- name: manual_change
-- A set for what a person's decision does to a table, beside its commits.
select lockstep.manual_change(%(target)s, %(why)s)

-- name: open_emission
-- The set of the windows that are shown for the first time; or in words, why the table cannot be followed.
select lockstep.open_emission(%(target)s) as misses

-- name: net_changes
-- What a replay undid and did again has not changed.
select lockstep.net_changes()

-- name: ask_deferred
-- What the constraints ask at COMMIT they ask now: behind the next statement, others wait for this transaction.
set constraints lockstep.no_gap, lockstep.committed_whole, lockstep.withdrawn_whole, lockstep.hour_is_whole,
    lockstep.erasure_is_decided, lockstep.adopted_as_decided, lockstep.moved_as_decided, lockstep.truncated_is_empty,
    lockstep.shown_with_commit, lockstep.shown_by_commit, lockstep.offsets_with_pointer, lockstep.part_landed,
    lockstep.given_up_by_decision, lockstep.owner_stays, lockstep.paused_by_decision, lockstep.ends_by_decision,
    lockstep.read_again immediate

-- name: number_changes
-- Each open set gets the next numbers of its feed.
select lockstep.number_changes()
