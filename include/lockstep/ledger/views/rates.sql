-- name: rates
-- What each partition's records since a moment came to, and which of its hours had the most bytes.
-- A segment of the log came in between its neighbour's newest record and its own: one old record among new ones moves neither.
with read as (
    select s.partition, r.delivered, r.bytes, r.max_timestamp as until,
        least(r.max_timestamp, greatest(r.min_timestamp,
            lag(r.max_timestamp) over (partition by r.stream_id order by r.first_offset))) as since
    from lockstep.batch b
    join lockstep.commit c on c.batch_id = b.batch_id
    join lockstep.result r on r.batch_id = c.batch_id and r.token = c.token and r.stream_id = c.stream_id
    join lockstep.stream s on s.stream_id = c.stream_id
    where b.pipeline = %(pipeline)s and b.lane <> 'replay' and (b.closed_at is null or b.closed_at >= %(since)s)
        and s.topic = %(topic)s and r.delivered > 0 and r.max_timestamp >= %(since)s),
hourly as (
    select read.partition, hour, sum(delivered * share) as records, sum(bytes * share) as bytes
    from read
    cross join lateral generate_series(date_trunc('hour', greatest(since, %(since)s), 'UTC'), least(until, %(now)s),
        interval '1 hour') as hour
    cross join lateral (
        select case when until > since then extract(epoch from least(until, hour + interval '1 hour') - greatest(since, hour))
            / extract(epoch from until - since) else 1 end) as of_hour (share)
    group by read.partition, hour)
select partition, sum(records)::float8 as records, sum(bytes)::float8 as bytes,
    (array_agg(hour order by bytes desc, hour))[1] as worst_hour,
    (array_agg(records order by bytes desc, hour))[1]::float8 as worst_records, max(bytes)::float8 as worst_bytes
from hourly group by partition order by partition
