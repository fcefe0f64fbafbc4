-- name: insert_manifest
-- What the tasks that won have read and written.
insert into lockstep.manifest (batch_id, token, task, stream_id, delivered, written, rejected, rows, bytes,
    digest_sum, digest_squares, first_offset, last_offset, min_timestamp, max_timestamp, rows_digest, rejects_digest)
values %s

-- name: stream_totals
-- The kept manifests of an attempt, added up per stream; streams that delivered nothing stand there with zeros. Each stream is
-- looked up by itself: Postgres takes a new batch for one row, and would compare all ranges with all lines.
select r.stream_id, s.partition, s.topic, lower(r.offsets) as from_offset, upper(r.offsets) as until_offset, t.*
from lockstep.batch_range r join lockstep.stream s using (stream_id)
cross join lateral (
    select coalesce(sum(m.delivered), 0)::bigint as delivered, coalesce(sum(m.written), 0)::bigint as written,
        coalesce(sum(m.rejected), 0)::bigint as rejected, 0::bigint as quarantined, coalesce(sum(m.rows), 0)::bigint as rows,
        coalesce(sum(m.bytes), 0)::bigint as bytes,
        coalesce(sum(m.digest_sum), 0) as digest_sum, coalesce(sum(m.digest_squares), 0) as digest_squares,
        min(m.first_offset) as first_offset, max(m.last_offset) as last_offset,
        min(m.min_timestamp) as min_timestamp, max(m.max_timestamp) as max_timestamp,
        case when count(m.task) = count(m.rows_digest) then coalesce(sum(m.rows_digest), 0) end as rows_digest,
        case when count(m.task) = count(m.rejects_digest) then coalesce(sum(m.rejects_digest), 0) end as rejects_digest
    from lockstep.manifest m
    where m.batch_id = r.batch_id and m.token = %(token)s and m.stream_id = r.stream_id) t
where r.batch_id = %(batch_id)s order by r.stream_id

-- name: insert_result
-- What this attempt read of one stream, reconciled.
insert into lockstep.result (batch_id, token, stream_id, delivered, written, filtered, rejected, quarantined, rows, bytes,
    first_offset, last_offset, min_timestamp, max_timestamp, digest_sum, digest_squares, log_start_before, log_start_after,
    rows_digest, rejects_digest)
values %s

-- name: insert_verdict
-- The verdict is kept whether it passes or not.
insert into lockstep.verdict (batch_id, token, definition_hash, suite, success, result)
values (%(batch_id)s, %(token)s, %(definition_hash)s, %(suite)s, %(success)s, %(result)s)
