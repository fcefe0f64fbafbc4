-- name: add_column
-- A new column, which may be null: no row is touched.
alter table {table} add column if not exists {column} {type}

-- name: widen_column
-- A column whose type holds every value of its type of before.
alter table {table} alter column {column} type {type}

-- name: lock_target
-- Nobody reads, writes or alters the table until the change is committed.
lock table {table} in access exclusive mode

-- name: lock_writers_out
-- Nobody writes or alters the table until its index is committed. Readers go on.
lock table {table} in share mode

-- name: altered
-- The newest decision that ran a proposal of this digest.
select decision_id, who, at from lockstep.decision
where pipeline = %(pipeline)s and kind = 'alter' and detail ->> 'digest' = %(digest)s order by decision_id desc limit 1
