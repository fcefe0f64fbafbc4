-- name: owners
-- The recorded owners of a table.
select pipeline, shared_with from lockstep.target_owner where store = %(store)s and target = %(name)s order by pipeline

-- name: writers
-- The pipelines that have committed into a table.
select pipeline from lockstep.target_writer where store = %(store)s and target = %(name)s order by pipeline

-- name: is_missing
-- No table or view of this name is in this database.
select to_regclass(%(name)s) is null as yes

-- name: windows_of
-- The other pipelines whose records count in a table's windows, or are late there. They stay when a pipeline is forgotten.
-- Who writes windows asks for those whose records count in any totals.
select distinct s.pipeline from (
    select stream_id from lockstep.contribution where target = %(name)s
    union select stream_id from lockstep.late where target = %(name)s) c
join lockstep.stream s using (stream_id)
where %(store)s = '' and s.pipeline <> %(pipeline)s
  and (%(is_windows)s or exists (select from lockstep.window_state where target = %(name)s)) order by s.pipeline

-- name: lock_table
-- One registration or hand-over of a table at a time; the next one sees what it has written.
select pg_advisory_xact_lock(hashtextextended('lockstep.owner ' || %(store)s || ' ' || %(name)s, 0))

-- name: put_owner
-- The pipeline owns the table, or goes on owning it and shares it with others than before.
insert into lockstep.target_owner (store, target, pipeline, shared_with)
values (%(store)s, %(name)s, %(pipeline)s, %(shared_with)s::text[])
on conflict (store, target, pipeline) do update set shared_with = excluded.shared_with

-- name: remove_owner
-- The pipeline owns the table no longer.
delete from lockstep.target_owner where store = %(store)s and target = %(name)s and pipeline = %(pipeline)s

-- name: handed_over
-- The pipeline to which a decision gave this one's table last.
select lockstep.name_now(detail ->> 'to', decision_id) as receiver from lockstep.decision
where pipeline = %(pipeline)s and kind = 'hand-over' and (detail ->> 'store', detail ->> 'target') = (%(store)s, %(name)s)
  and lockstep.name_now(detail ->> 'from', decision_id) = %(pipeline)s
order by decision_id desc limit 1

-- name: unfinished_of
-- The batches of a pipeline that are planned and not closed.
select batch_id from lockstep.batch where pipeline = %(pipeline)s and state = 'planned' order by batch_id
