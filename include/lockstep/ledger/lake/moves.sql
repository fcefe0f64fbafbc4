-- name: pointer
-- Where the current metadata of a lake table is.
select metadata_location as address, coalesce(iceberg_type, 'TABLE') as kind from lockstep_lake.iceberg_tables
where catalog_name = %(catalog)s and table_namespace = %(namespace)s and table_name = %(name)s

-- name: make_pointer
-- A new table's pointer; who comes second finds that of the first.
insert into lockstep_lake.iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)
values (%(catalog)s, %(namespace)s, %(name)s, %(address)s, 'TABLE') on conflict do nothing

-- name: make_namespace
-- Readers list the namespaces that have a property.
insert into lockstep_lake.iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
values (%(catalog)s, %(namespace)s, 'exists', 'true') on conflict do nothing

-- name: move_pointer
-- Compare and set: the table shows what was prepared on its present state, or nothing moves.
update lockstep_lake.iceberg_tables set previous_metadata_location = metadata_location, metadata_location = %(after)s
where catalog_name = %(catalog)s and table_namespace = %(namespace)s and table_name = %(name)s and metadata_location = %(before)s

-- name: last_move
-- Who moved a table's pointer last.
select login, coalesce(application, '') as application, at, after from lockstep.lake_pointer
where catalog = %(catalog)s and namespace = %(namespace)s and name = %(name)s order by id desc limit 1

-- name: last_commit
-- What this ledger committed last into a table. Others may lead the pointer to the metadata of an older commit: that counts not.
-- Whether a pipeline did that which has ended since, so that its table is free.
select m.batch_id, m.table_uuid::text, m.snapshot_id, m.sequence, m.after, (
    select w.forgotten_by is not null from lockstep.batch b join lockstep.pipeline w on w.name = b.pipeline
    where b.batch_id = m.batch_id) as is_free
from lockstep.lake_commit m
join lockstep.lake_pointer p using (catalog, namespace, name, before, after)
where m.catalog = %(catalog)s and m.namespace = %(namespace)s and m.name = %(name)s order by p.id desc limit 1

-- name: moves_of_others
-- The newest moves of a table that neither a commit of this ledger nor its upkeep has made.
select p.login, coalesce(p.application, '') as application, p.at, p.after from lockstep.lake_pointer p
where p.catalog = %(catalog)s and p.namespace = %(namespace)s and p.name = %(name)s
  and p.id > (select min(f.id) from lockstep.lake_pointer f where (f.catalog, f.namespace, f.name) = (p.catalog, p.namespace, p.name))
  and not exists (
    select from lockstep.lake_commit m
    where (m.catalog, m.namespace, m.name, m.before, m.after) = (p.catalog, p.namespace, p.name, p.before, p.after))
  and not exists (
    select from lockstep.decision d where d.kind = 'upkeep' and d.detail ->> 'after' = p.after
      and d.detail ->> 'before' = p.before and d.detail ->> 'table' = concat_ws('.', p.catalog, p.namespace, p.name))
order by p.id desc limit 3

-- name: insert_prefix
-- Where an attempt writes for one target; a second try of the same attempt writes there, too.
insert into lockstep.lake_prefix (batch_id, token, place, location) values (%(batch_id)s, %(token)s, %(place)s, %(location)s)
on conflict do nothing

-- name: insert_file
-- A file that was read back from the store.
insert into lockstep.lake_file (batch_id, token, place, path, rows, bytes, streams, digests)
values (%(batch_id)s, %(token)s, %(place)s, %(path)s, %(rows)s, %(bytes)s, %(streams)s, %(digests)s)

-- name: files_of_attempt
-- The files that count of an attempt.
select place, path, rows, bytes, streams, digests from lockstep.lake_file
where batch_id = %(batch_id)s and token = %(token)s order by place, path

-- name: insert_prepared
-- A preparation begins: from here on files may have its id in their names.
insert into lockstep.lake_prepared (commit_uuid, batch_id, token, place, before)
values (%(commit_uuid)s, %(batch_id)s, %(token)s, %(place)s, %(before)s)

-- name: swept_prepared
-- Nothing of a refused preparation is left.
update lockstep.lake_prepared set swept_at = clock_timestamp() where commit_uuid = %(commit_uuid)s

-- name: insert_commit
-- What a commit does to a lake table.
insert into lockstep.lake_commit (batch_id, place, token, catalog, namespace, name, table_uuid, before, after, snapshot_id,
    added_files, removed_files, rewritten_files, sequence)
values (%(batch_id)s, %(place)s, %(token)s, %(catalog)s, %(namespace)s, %(name)s, %(table_uuid)s, %(before)s, %(after)s,
    %(snapshot_id)s, %(added)s, %(removed)s, %(rewritten)s, %(sequence)s)

-- name: replaced
-- The segments whose rows a replay takes out.
select stream_id, lower(offsets) as from_offset, upper(offsets) as until_offset, expects_batch from lockstep.claim
where batch_id = %(batch_id)s and expects = 'batch' order by stream_id, lower(offsets)

-- name: offsets_to_compare
-- The offsets of a batch, whose rows a preview compares.
select stream_id, lower(offsets) as from_offset, upper(offsets) as until_offset from lockstep.batch_range
where batch_id = %(batch_id)s order by stream_id

-- name: ranges
-- What a batch reads, for the summary of its snapshot.
select s.topic, s.partition, lower(r.offsets) as from_offset, upper(r.offsets) as until_offset, b.lane
from lockstep.batch_range r join lockstep.stream s using (stream_id) join lockstep.batch b using (batch_id)
where r.batch_id = %(batch_id)s order by s.topic, s.partition, r.stream_id

-- name: staged_offsets
-- The offsets of staged rows, by stream: what the store must give back.
select t._stream as stream_id, count(*) as rows, sum(t._offset) as total, sum(t._offset::numeric * t._offset) as squares,
    min(t._offset) as first_offset, max(t._offset) as last_offset
from {rows} t group by t._stream

-- name: open_rows
-- The rows as they go into files: a stream's lie together, in the log's order.
select {columns} from {rows} t order by t._stream, t._offset, t._ordinal

-- name: dead_preparations
-- Preparations of attempts that are over whose files no pointer has ever shown.
select p.commit_uuid::text, p.before, x.location, coalesce((
        select lockstep.lake_folder(split_part(w.target, '.', 2), split_part(w.target, '.', 3))
        from lockstep.definition d cross join lateral lockstep.lake_tables(d.document) w
        where d.definition_hash = a.definition_hash and w.place = x.place), '') as folder
from lockstep.lake_prepared p
join lockstep.lake_prefix x using (batch_id, token, place)
join lockstep.attempt a using (batch_id, token)
where a.closed_at is not null
  -- once more after a day, as prefixes are
  and (p.swept_at is null or (p.swept_at < a.closed_at + interval '1 day' and a.closed_at < clock_timestamp() - interval '1 day'))
  and not exists (
    select from lockstep.lake_pointer m where m.before = p.before and strpos(m.after, p.commit_uuid::text) > 0)
order by p.at

-- name: dead_prefixes
-- Where attempts that are over, and have not committed, have written.
select x.batch_id, x.token, x.place, x.location, coalesce((
        select lockstep.lake_folder(split_part(w.target, '.', 2), split_part(w.target, '.', 3))
        from lockstep.definition d cross join lateral lockstep.lake_tables(d.document) w
        where d.definition_hash = a.definition_hash and w.place = x.place), '') as folder
from lockstep.lake_prefix x join lockstep.attempt a using (batch_id, token)
where a.closed_at is not null and a.state <> 'committed'
  -- once more after a day: a process that was taken for dead may have written behind the first sweep
  and (x.swept_at is null or (x.swept_at < a.closed_at + interval '1 day' and a.closed_at < clock_timestamp() - interval '1 day'))
  and not exists (
    select from lockstep.lake_commit m where m.batch_id = x.batch_id and m.token = x.token)
order by x.batch_id, x.token, x.place

-- name: kept_prefixes
-- Where attempts that have committed have written: tries of tasks that lost have left files beside those that count.
select x.batch_id, x.token, x.place, x.location, array(
    select f.path from lockstep.lake_file f where (f.batch_id, f.token, f.place) = (x.batch_id, x.token, x.place)) as paths, coalesce((
        select lockstep.lake_folder(split_part(w.target, '.', 2), split_part(w.target, '.', 3))
        from lockstep.definition d cross join lateral lockstep.lake_tables(d.document) w
        where d.definition_hash = a.definition_hash and w.place = x.place), '') as folder
from lockstep.lake_prefix x join lockstep.attempt a using (batch_id, token)
where a.state = 'committed' and (x.swept_at is null
    or (x.swept_at < a.closed_at + interval '1 day' and a.closed_at < clock_timestamp() - interval '1 day'))
order by x.batch_id, x.token, x.place

-- name: is_preview
-- Whether a batch is compared and never committed.
select coalesce(bool_or(r.preview), false) as preview from lockstep.batch b left join lockstep.request r using (request_id)
where b.batch_id = %(batch_id)s

-- name: expected_digests
-- The digest of the values of each segment that a batch owns, as tasks have written them into files.
select c.batch_id, c.stream_id, f.digests -> 'columns' as columns,
    sum((f.digests -> 'streams' ->> c.stream_id::text)::numeric) as digest
from lockstep.segment c join lockstep.stream s using (stream_id)
join lockstep.lake_commit m on m.batch_id = c.batch_id and m.place = %(place)s
join lockstep.lake_file f on f.batch_id = m.batch_id and f.token = m.token and f.place = m.place
    and f.digests -> 'streams' ? c.stream_id::text
where s.pipeline = %(pipeline)s group by 1, 2, 3 order by 1, 2

-- name: swept_prefix
-- Nothing of a dead attempt is left there.
update lockstep.lake_prefix set swept_at = clock_timestamp()
where batch_id = %(batch_id)s and token = %(token)s and place = %(place)s

-- name: files_of_pipeline
-- What the commits of a pipeline have brought into its lake tables, the newest first.
select m.batch_id, m.place, concat_ws('.', m.catalog, m.namespace, m.name) as target, m.snapshot_id, m.at, f.path, f.rows, f.bytes
from lockstep.lake_commit m join lockstep.batch b using (batch_id)
left join lockstep.lake_file f on (f.batch_id, f.token, f.place) = (m.batch_id, m.token, m.place)
where b.pipeline = %(pipeline)s and (%(batch_id)s::bigint is null or m.batch_id = %(batch_id)s)
order by m.place, m.batch_id desc, f.path

-- name: expected
-- What each segment has in a lake table, as it was read back before its commit. Rows of a former owner of the
-- same table are among them. Coverage that upkeep has merged names one batch of many, and segments name each.
select c.batch_id, c.stream_id, s.topic, s.partition, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset,
    f.streams -> c.stream_id::text as sums
from lockstep.lake_commit m join lockstep.segment c on c.batch_id = m.batch_id join lockstep.stream s using (stream_id)
left join lockstep.lake_file f on f.batch_id = m.batch_id and f.token = m.token and f.place = m.place
    and f.streams ? c.stream_id::text
where m.namespace = %(namespace)s and m.name = %(name)s
  and (s.pipeline = %(pipeline)s or m.table_uuid = %(uuid)s) order by c.stream_id, c.offsets

-- name: known_bounds
-- What was read back of these files, by stream.
select path, streams from lockstep.lake_file where path = any (%(paths)s)

-- name: batches_of_files
-- The batches that have brought these files.
select path, batch_id from lockstep.lake_file where path = any (%(paths)s)
