-- name: streams
-- The pipeline, its streams, and a request that a history works for; the ledger's guards are off for all of it.
set local session_replication_role = replica;
insert into lockstep.pipeline (name) values ('bench') on conflict do nothing;
insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset, position)
select 'bench', 'cluster', 'bench.v1', 'topic', p, 0, 0, 0, 0 from generate_series(0, %(streams)s - 1) p;
insert into lockstep.request (pipeline, lane, token, who, why) values ('bench', 'replay', 1, 'bench', 'to measure')

-- name: history
-- Batches over eight streams each, and as the newest %(wide)s some over all of them; every thousandth is a replay's.
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
insert into lockstep.verdict (batch_id, token, definition_hash, success, result, at)
select batch_id, batch_id, %(definition_hash)s, true, '{"success": true, "refusals": []}', at + interval '25 s' from done;
insert into lockstep.batch_range (batch_id, stream_id, offsets) select batch_id, stream_id, offsets from segment;
insert into lockstep.result (batch_id, token, stream_id, delivered, written, filtered, rejected, rows, bytes,
    first_offset, last_offset, min_timestamp, max_timestamp, digest_sum, digest_squares, log_start_before, log_start_after,
    rows_digest, rejects_digest)
select batch_id, batch_id, stream_id, 100, 99, 0, 1, 99, 20000,
    lower(offsets), upper(offsets) - 1, at - interval '5 min', at, 4950, 328350, 0, 0, 4611686018427387904000, 0 from segment;
insert into lockstep.shape (hash, target, columns) values ('a', 'public.orders', '[]');
insert into lockstep.content (batch_id, stream_id, place, rows_digest, rejects_digest, shape_id, target_digest)
select batch_id, stream_id, 0, 4611686018427387904000, 0, 1, 4611686018427387904000 from segment;
insert into lockstep.commit (batch_id, stream_id, token, definition_hash, at)
select batch_id, stream_id, batch_id, %(definition_hash)s, at from segment;
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


-- name: feed
-- Another pipeline, with a feed: so many change sets of ten changes each, the last thousand of them not sent.
set local session_replication_role = replica;
insert into lockstep.pipeline (name) values ('bench_time') on conflict do nothing;
insert into lockstep.stream (pipeline, cluster_id, topic, topic_id, partition, incarnation, epoch, start_offset, position)
select 'bench_time', 'cluster', 'time.v1', 'topic', p, 0, 0, 0, 1000000 from generate_series(0, 39) p;
insert into lockstep.definition (definition_hash, pipeline, document, code_version)
values (%(timed_hash)s, 'bench_time', %(timed)s, 'bench');
insert into lockstep.request (pipeline, lane, token, who, why) values ('bench_time', 'replay', 2, 'bench', 'to measure');
insert into lockstep.batch (batch_id, pipeline, lane, request_id, token, owner, lease_until, state, planned_at, closed_at)
overriding system value
select 10000000 + n, 'bench_time', case when n %% 50 = 0 then 'replay' else 'live' end,
    case when n %% 50 = 0 then (select max(request_id) from lockstep.request where pipeline = 'bench_time') end, 10000000 + n, 'host/1/1', at, 'committed', at, at
from generate_series(1, %(sets)s) n, lateral (select timestamptz '2026-01-01' + n * interval '1 min' as at) t;
insert into lockstep.attempt (batch_id, token, definition_hash, owner, lease_until, state, opened_at, closed_at)
select batch_id, token, %(timed_hash)s, owner, planned_at, 'committed', planned_at, closed_at from lockstep.batch
where batch_id = 10000000 + %(sets)s;
insert into lockstep.change_set (change_set_id, target, kind, batch_id, at, seq, first_number, changes)
overriding system value
select n, 'public.by_minute', 'batch', 10000000 + n, timestamptz '2026-01-01' + n * interval '1 min', n, (n - 1) * 10, 10
from generate_series(1, %(sets)s) n;
insert into lockstep_feed.public_by_minute (window_start, window_end, id, records, _revision, _stream, _offset, _ordinal, _batch,
    _change, _change_set, _ordinal_in_set)
select at, at + interval '1 min', 'key-' || place, 1, 1, 1, n, 0, n, change, n, place
from generate_series(1, %(sets)s) n, lateral (select timestamptz '2026-01-01' + n * interval '1 min' as at) t,
    (values (0, 'insert'), (1, 'insert'), (2, 'insert'), (3, 'insert'), (4, 'insert'), (5, 'insert'), (6, 'before'), (6, 'after'),
        (7, 'before'), (7, 'after'), (8, 'delete'), (9, 'delete')) c (place, change) order by n, place;
update lockstep.feed set last_seq = %(sets)s, next_number = %(sets)s * 10 where target = 'public.by_minute';
update lockstep.relay set confirmed = (%(sets)s - 1000) * 10, cluster_id = 'cluster', topic_id = 'topic', partitions = %(streams)s
where target = 'public.by_minute'

-- name: windows
-- So many windows of a minute with a hundred keys each, all but the last three of them shown, and late rows for the first ones.
set local session_replication_role = replica;
create temp table minute on commit drop as
select n, timestamptz '2026-01-01' + n * interval '1 min' as at from generate_series(1, %(minutes)s) n;
insert into lockstep.window_state (target, key, ends, revision)
select 'public.by_minute', jsonb_build_array(to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"+00:00"'), 'key-' || k),
    at + interval '1 min', case when n > %(minutes)s - 3 then 0 when k %% 20 = 0 then 2 else 1 end
from minute, generate_series(1, 100) k order by n, k;
insert into lockstep.contribution (target, key, batch_id, stream_id, records, "offset", ordinal, totals)
select w.target, w.key, 10000001, s.stream_id, 3, 1, 0, '{}' from lockstep.window_state w,
    lateral (select min(stream_id) as stream_id from lockstep.stream where pipeline = 'bench_time') s;
insert into lockstep.event_time (pipeline, watermark)
select 'bench_time', timestamptz '2026-01-01' + (%(minutes)s - 2) * interval '1 min' + interval '20 s';
insert into lockstep.stream_time (stream_id, seen)
select stream_id, timestamptz '2026-01-01' + (%(minutes)s - 2) * interval '1 min' + partition * interval '20 s' + interval '20 s'
from lockstep.stream where pipeline = 'bench_time';
insert into lockstep.judged (stream_id, offsets, watermark)
select stream_id, int8range(n * 1000, n * 1000 + 1000), timestamptz '2026-06-01' from lockstep.stream, generate_series(0, 99) n
where pipeline = 'bench_time';
insert into lockstep.late (target, stream_id, "offset", ordinal, window_start, window_end, key, event_time, watermark, batch_id, row)
select 'public.by_minute', s.stream_id, l.n, 0, m.at, m.at + interval '1 min', jsonb_build_array(m.at, 'key-1'), m.at,
    timestamptz '2026-06-01', 10000001 + l.n / 1000, '{"id": "key-1", "n": 1}'
from (select min(stream_id) as stream_id from lockstep.stream where pipeline = 'bench_time') s, generate_series(1, %(late)s) l (n),
    minute m where m.n = 1 + l.n %% 500
