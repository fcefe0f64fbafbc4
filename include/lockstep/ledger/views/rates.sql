-- name: rates
-- What each partition's records since a moment came to, and the hour with the most bytes. It begins at any ten minutes.
with read as (  -- between the neighbour's newest record and its own: an old record among new ones does not stretch it
    select s.partition, r.delivered, r.bytes, r.max_timestamp as until,
        least(r.max_timestamp, greatest(r.min_timestamp,
            lag(r.max_timestamp) over (partition by r.stream_id order by r.first_offset))) as since
    from lockstep.batch b
    join lockstep.commit c on c.batch_id = b.batch_id
    join lockstep.result r on r.batch_id = c.batch_id and r.token = c.token and r.stream_id = c.stream_id
    join lockstep.stream s on s.stream_id = c.stream_id
    where b.pipeline = %(pipeline)s and b.lane <> 'replay' and (b.closed_at is null or b.closed_at >= %(since)s)
        and s.topic = %(topic)s and r.delivered > 0 and r.max_timestamp >= %(since)s),
part as (  -- a batch is spread evenly over its time
    select read.partition, moment, sum(delivered * share) as records, sum(bytes * share) as bytes
    from read
    cross join lateral generate_series(date_bin('10 minutes', greatest(since, %(since)s), 'epoch'), least(until, %(now)s),
        interval '10 minutes') as moment
    cross join lateral (
        select case when until > since
            then extract(epoch from least(until, moment + interval '10 minutes') - greatest(since, moment))
                / extract(epoch from until - since) else 1 end) as of_part (share)
    group by read.partition, moment),
hourly as (
    select partition, moment - interval '50 minutes' as hour, records as own_records, bytes as own_bytes,
        sum(records) over hour as records, sum(bytes) over hour as bytes
    from part window hour as (partition by partition order by moment range interval '50 minutes' preceding))
select partition, sum(own_records)::float8 as records, sum(own_bytes)::float8 as bytes,
    (array_agg(hour order by bytes desc, hour))[1] as worst_hour,
    (array_agg(records order by bytes desc, hour))[1]::float8 as worst_records, max(bytes)::float8 as worst_bytes
from hourly group by partition order by partition
