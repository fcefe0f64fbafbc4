-- name: streams
-- The pipeline and its streams, before anything was read.
insert into lockstep.pipeline (name) values ('bench');
insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset, position)
select 'bench', 'cluster', 'bench.v1', 'topic', p, 0, 0, 0, 0 from generate_series(0, %(streams)s - 1) p

-- name: history
-- %(depth)s segments a stream: by turns one batch over all streams, and batches over four streams each.
set local session_replication_role = replica;
insert into lockstep.definition (definition_hash, pipeline, document, code_version)
values (%(definition_hash)s, 'bench', %(document)s, 'bench');
create temp table segment on commit drop as
select dense_rank() over (order by i, part) as batch_id, stream_id, int8range(i * 100, i * 100 + 100) as offsets,
    timestamptz '2026-01-01' + i * interval '5 min' as at
from generate_series(0, %(depth)s - 1) i cross join lockstep.stream
cross join lateral (select case i %% 2 when 0 then 0 else 1 + (stream_id - 1) / 4 end as part) p
order by i, stream_id;
create temp table done on commit drop as select distinct batch_id, at from segment order by batch_id;
insert into lockstep.batch (batch_id, pipeline, lane, token, owner, lease_until, state, planned_at, closed_at)
overriding system value
select batch_id, 'bench', 'live', batch_id, 'host/1/1', at, 'committed', at, at + interval '30 s' from done;
insert into lockstep.call (pipeline, key, batch_id, at) select 'bench', 'run-' || batch_id, batch_id, at from done;
insert into lockstep.attempt (batch_id, token, definition_hash, owner, lease_until, state,
    opened_at, staged_at, validated_at, closed_at, effect)
select batch_id, batch_id, %(definition_hash)s, 'host/1/1', at, 'committed',
    at, at + interval '20 s', at + interval '25 s', at + interval '30 s', '{"inserted": 100}' from done;
insert into lockstep.verdict (batch_id, token, definition_hash, success, result, at)
select batch_id, batch_id, %(definition_hash)s, true, '{"success": true, "refusals": []}', at + interval '25 s' from done;
insert into lockstep.batch_range (batch_id, stream_id, offsets) select batch_id, stream_id, offsets from segment;
insert into lockstep.manifest (batch_id, token, task, stream_id, delivered, written, rejected, rows, bytes,
    digest_sum, digest_squares, first_offset, last_offset, min_timestamp, max_timestamp, rows_digest, rejects_digest)
select batch_id, batch_id, stream_id, stream_id, 100, 100, 0, 100, 20000, 4950, 328350,
    lower(offsets), upper(offsets) - 1, at - interval '5 min', at, 4611686018427387904000, 0 from segment;
insert into lockstep.result (batch_id, token, stream_id, delivered, written, filtered, rejected, rows, bytes,
    first_offset, last_offset, min_timestamp, max_timestamp, digest_sum, digest_squares, log_start_before, log_start_after,
    rows_digest, rejects_digest)
select batch_id, batch_id, stream_id, 100, 100, 0, 0, 100, 20000,
    lower(offsets), upper(offsets) - 1, at - interval '5 min', at, 4950, 328350, 0, 0, 4611686018427387904000, 0 from segment;
insert into lockstep.shape (hash, target, columns) values ('a', 'public.orders', '[]');
insert into lockstep.content (batch_id, stream_id, place, rows_digest, rejects_digest, shape_id, target_digest)
select batch_id, stream_id, 0, 4611686018427387904000, 0, 1, 4611686018427387904000 from segment;
insert into lockstep.commit (batch_id, stream_id, token, definition_hash, at)
select batch_id, stream_id, batch_id, %(definition_hash)s, at from segment;
insert into lockstep.coverage (stream_id, offsets, kind, batch_id)
select stream_id, offsets, 'batch', batch_id from segment order by batch_id, stream_id;
update lockstep.stream set position = %(depth)s * 100;
select setval('lockstep.token_seq', (select max(batch_id) from done)),
    setval(pg_get_serial_sequence('lockstep.batch', 'batch_id'), (select max(batch_id) from done))

-- name: size
-- What the ledger holds by now.
select (select count(*) from lockstep.stream) as streams, (select count(*) from lockstep.coverage) as segments,
    (select count(*) from lockstep.batch) as batches, pg_size_pretty(pg_database_size(current_database())) as size
