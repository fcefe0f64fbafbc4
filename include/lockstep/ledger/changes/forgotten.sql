-- name: create_pipeline
-- The first plan of a pipeline writes its row. A former name of another one gets none.
insert into lockstep.pipeline (name) select %(pipeline)s
where not exists (select from lockstep.renaming where former = %(pipeline)s and pipeline <> former) on conflict do nothing

-- name: ledger_version
-- The newest migration. A ledger of any version answers it.
select max(version) as ledger_version from lockstep.migration

-- name: lock_pipeline
-- The lock under which everything is decided; a statement of its own, so that what is read next is not older than it. A ledger
-- of any version answers it.
select paused, (select max(version) from lockstep.migration) as ledger_version from lockstep.pipeline where name = %(pipeline)s for no key update

-- name: names
-- Every pipeline that the ledger has ever had, and whether it has ended.
select name, forgotten_by is not null as forgotten from lockstep.pipeline order by name

-- name: forgetting
-- The decision that ended a pipeline, or no row while it goes on.
select d.decision_id, d.who, d.why, d.at, d.detail -> 'tables' as tables
from lockstep.pipeline p join lockstep.decision d on d.decision_id = p.forgotten_by
where p.name = %(pipeline)s

-- name: close_requests
-- Nothing is read for it any more.
update lockstep.request set closed_at = clock_timestamp() where pipeline = %(pipeline)s and closed_at is null
returning request_id

-- name: free_tables
-- The pipeline owns no table any more. Those that it wrote before owners were recorded are free, too.
with freed as (delete from lockstep.target_owner where pipeline = %(pipeline)s returning store, target)
select store, target from freed
union
select w.store, w.target from lockstep.target_writer w
where w.pipeline = %(pipeline)s and not exists (
    select from lockstep.target_owner o where o.store = w.store and o.target = w.target and o.pipeline <> w.pipeline)

-- name: end_pipeline
-- The pipeline ends by its newest decision, or goes on by it.
update lockstep.pipeline set forgotten_by = %(decision)s where name = %(pipeline)s

-- name: positions
-- How far its open streams have come.
select topic, partition, position from lockstep.stream
where pipeline = %(pipeline)s and retired_at is null order by topic, partition

-- name: renamed
-- The pipeline that a former name leads to, and who renamed it.
select r.pipeline, d.who, d.why, d.at from lockstep.renaming r join lockstep.decision d using (decision_id)
where r.former = %(pipeline)s and not exists (select from lockstep.pipeline p where p.name = r.former)
order by r.decision_id desc limit 1

-- name: name_now
-- What a pipeline is called that had this name at first.
select lockstep.name_now(%(pipeline)s, 0) as name

-- name: rename_pipeline
-- The ledger's own way to another name: everything that bears the old one follows, in this transaction.
select lockstep.rename_pipeline(%(former)s, %(pipeline)s, %(who)s, %(why)s, %(more)s)
