-- name: streams
-- The pipeline, its streams, and a request that a history works for.
insert into lockstep.pipeline (name) values ('bench');
insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset, position)
select 'bench', 'cluster', 'bench.v1', 'topic', p, 0, 0, 0, 0 from generate_series(0, %(streams)s - 1) p;
insert into lockstep.request (pipeline, lane, token, who, why) values ('bench', 'replay', 1, 'bench', 'to measure')

-- name: history
-- Batches over eight streams each, and as the newest %(wide)s some over all of them; every thousandth is a replay's.
set local session_replication_role = replica;
insert into lockstep.definition (definition_hash, pipeline, document, code_version)
values (%(definition_hash)s, 'bench', %(document)s, 'bench');
create temp table planned on commit drop as
select n + 1 as batch_id, n / (%(streams)s / 8) as place, n %% (%(streams)s / 8) as part,
    case when (n + 1) %% 1000 = 0 then 'replay' else 'live' end as lane
from generate_series(0, %(narrow)s - 1) n
union all
select %(narrow)s + n + 1, %(narrow)s / (%(streams)s / 8) + n, null, 'live' from generate_series(0, %(wide)s - 1) n;
create temp table segment on commit drop as
select p.batch_id, s.stream_id, int8range(p.place * 100, p.place * 100 + 100) as offsets, p.at
from (select *, timestamptz '2026-01-01' + place * interval '5 min' + coalesce(part, 0) * interval '1 s' as at from planned) p
join lockstep.stream s on p.part is null or (s.stream_id - 1) / 8 = p.part
order by p.batch_id, s.stream_id;
create temp table done on commit drop as
select p.batch_id, p.lane, g.at from planned p join (select distinct batch_id, at from segment) g using (batch_id)
order by p.batch_id;
insert into lockstep.batch (batch_id, pipeline, lane, request_id, token, owner, lease_until, state, planned_at, closed_at)
overriding system value
select batch_id, 'bench', lane, case lane when 'replay' then 1 end, batch_id, 'host/1/1', at, 'committed', at, at + interval '30 s'
from done;
insert into lockstep.call (pipeline, key, batch_id, at)
select 'bench', 'scheduled__' || batch_id, batch_id, at from done where lane = 'live';
insert into lockstep.attempt (batch_id, token, definition_hash, owner, lease_until, dag_id, dag_run_id, task_instance_id, try_number,
    spark_application_id, state, opened_at, staged_at, validated_at, closed_at, effect)
select batch_id, batch_id, %(definition_hash)s, 'bench run ' || batch_id, at,
    case lane when 'live' then 'bench' else 'bench_history' end, case lane when 'live' then 'scheduled__' || batch_id else 'backfill__1' end,
    gen_random_uuid(), 1, 'local-' || batch_id, 'committed',
    at, at + interval '20 s', at + interval '25 s', at + interval '30 s', '{"inserted": 100}' from done;
insert into lockstep.verdict (batch_id, token, success, result, at)
select batch_id, batch_id, true, '{"success": true, "refusals": []}', at + interval '25 s' from done;
insert into lockstep.batch_range (batch_id, stream_id, offsets) select batch_id, stream_id, offsets from segment;
insert into lockstep.result (batch_id, token, stream_id, delivered, written, filtered, rejected, rows, bytes,
    first_offset, last_offset, min_timestamp, max_timestamp, digest_sum, digest_squares, log_start_before, log_start_after,
    rows_digest, rejects_digest)
select batch_id, batch_id, stream_id, 100, 99, 0, 1, 99, 20000,
    lower(offsets), upper(offsets) - 1, at - interval '5 min', at, 4950, 328350, 0, 0, 4611686018427387904000, 0 from segment;
insert into lockstep.shape (hash, target, columns) values ('a', 'public.orders', '[]');
insert into lockstep.content (batch_id, stream_id, place, rows_digest, rejects_digest, shape_id, target_digest)
select batch_id, stream_id, 0, 4611686018427387904000, 0, 1, 4611686018427387904000 from segment;
insert into lockstep.commit (batch_id, stream_id, token, at) select batch_id, stream_id, batch_id, at from segment;
insert into lockstep.coverage (stream_id, offsets, kind, batch_id)
select stream_id, offsets, 'batch', batch_id from segment order by batch_id, stream_id;
insert into lockstep.reject (stream_id, "offset", batch_id, timestamp, key, value, reason)
select stream_id, lower(offsets) + 7, batch_id, at, 'k', '{', 'not one JSON object' from segment where (lower(offsets) / 100) %% 10 = 0;
insert into public.bench (id, _stream, _offset, _ordinal, _batch)
select 'id-' || stream_id || '-' || lower(offsets), stream_id, lower(offsets), 0, batch_id from segment
where (lower(offsets) / 100) %% 10 = 0;
update lockstep.stream set position = (select max(upper(offsets)) from segment);
select setval('lockstep.token_seq', (select max(batch_id) from done)),
    setval(pg_get_serial_sequence('lockstep.batch', 'batch_id'), (select max(batch_id) from done))
