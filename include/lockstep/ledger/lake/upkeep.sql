-- name: lock_table
-- One upkeep of a table at a time. The session keeps it, and loses it when it ends.
select pg_try_advisory_lock(hashtextextended('lockstep.lake ' || %(table)s, 0)) as taken

-- name: unlock_table
-- The next upkeep may begin.
select pg_advisory_unlock(hashtextextended('lockstep.lake ' || %(table)s, 0))

-- name: begin_step
-- A step begins: from here on files may have its id in their names.
insert into lockstep.lake_upkeep (commit_uuid, catalog, namespace, name, step, before, prefix)
values (%(commit_uuid)s, %(catalog)s, %(namespace)s, %(name)s, %(step)s, %(before)s, %(prefix)s)

-- name: end_step
-- A step ends once: with its move, or because nobody goes on with it.
update lockstep.lake_upkeep set ended_at = clock_timestamp() where commit_uuid = %(commit_uuid)s and ended_at is null

-- name: dead_steps
-- Steps of a table that no pointer has shown, for a sweep at once and another a day later.
select u.commit_uuid::text, u.before, u.prefix, coalesce(lockstep.lake_folder(u.namespace, u.name), '') as folder
from lockstep.lake_upkeep u
where (u.catalog, u.namespace, u.name) = (%(catalog)s, %(namespace)s, %(name)s)
  and (u.swept_at is null or (u.swept_at < u.ended_at + interval '1 day' and u.ended_at < clock_timestamp() - interval '1 day'))
  and not exists (
    select from lockstep.lake_pointer m
    where (m.catalog, m.namespace, m.name) = (u.catalog, u.namespace, u.name) and strpos(m.after, u.commit_uuid::text) > 0)
order by u.at

-- name: swept_step
-- Nothing of a dead step is left.
update lockstep.lake_upkeep set swept_at = clock_timestamp() where commit_uuid = %(commit_uuid)s

-- name: old_metadata
-- Metadata files that readers were led away from before a time, and that nothing has led them to since.
select away.before as path from lockstep.lake_pointer away
where away.catalog = %(catalog)s and away.namespace = %(namespace)s and away.name = %(name)s and away.before is not null
  and not exists (select from lockstep.lake_gone g where g.path = away.before)
group by away.before
having max(away.at) < %(until)s and not exists (
    select from lockstep.lake_pointer here
    where (here.catalog, here.namespace, here.name) = (%(catalog)s, %(namespace)s, %(name)s)
      and here.after = away.before and here.id > max(away.id))
order by 1

-- name: insert_gone
-- Files that nothing holds any more, with the decision that took them out.
insert into lockstep.lake_gone (path, catalog, namespace, name, decision_id)
select path, %(catalog)s, %(namespace)s, %(name)s, %(decision_id)s from unnest(%(paths)s::text[]) path
on conflict do nothing

-- name: files_to_delete
-- Files of a table that are decided about, and perhaps not deleted yet.
select path from lockstep.lake_gone where deleted_at is null
  and catalog = %(catalog)s and namespace = %(namespace)s and name = %(name)s order by path limit %(most)s

-- name: deleted
-- These files are deleted.
update lockstep.lake_gone set deleted_at = clock_timestamp() where path = any (%(paths)s)
