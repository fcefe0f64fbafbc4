-- name: insert_request
-- A wish to fill or replay; its token is newer than that of every commit so far, so these are due.
insert into lockstep.request (pipeline, lane, token, who, why, preview)
values (%(pipeline)s, %(lane)s, nextval('lockstep.token_seq'), %(who)s, %(why)s, %(preview)s) returning request_id

-- name: insert_window
-- What it is about: stretches of offsets, per stream.
insert into lockstep.request_window (request_id, stream_id, offsets)
select %(request_id)s, w.stream_id, int8range(w.from_offset, w.until_offset)
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) as w (stream_id, from_offset, until_offset)

-- name: request
-- One request, whether it is still open, and what a preview has found.
select r.request_id, r.pipeline, r.lane, r.token, r.preview, r.closed_at is not null as closed, r.who, r.why,
    h.content_hash, h.difference
from lockstep.request r left join lockstep.rehearsal h using (request_id) where r.request_id = %(request_id)s

-- name: open_requests
-- The requests of a pipeline that were not completed, the oldest first.
select r.request_id, r.lane, r.who, r.why, r.opened_at from lockstep.request r
where r.pipeline = %(pipeline)s and r.closed_at is null and not r.preview order by r.request_id

-- name: same_request
-- An open request of the same lane for the very same offsets: asked again, it goes on.
select r.request_id from lockstep.request r
where r.pipeline = %(pipeline)s and r.lane = %(lane)s and r.closed_at is null and not r.preview
  and (select array_agg(array[w.stream_id, lower(w.offsets), upper(w.offsets)] order by w.stream_id, w.offsets)
       from lockstep.request_window w where w.request_id = r.request_id)
    = (select array_agg(array[w.stream_id, w.from_offset, w.until_offset] order by w.stream_id, w.from_offset)
       from unnest(%(streams)s::bigint[], %(froms)s::bigint[], %(untils)s::bigint[]) as w (stream_id, from_offset, until_offset))
order by r.request_id limit 1

-- name: windows
-- The offsets a request is about.
select w.stream_id, s.topic, s.partition, lower(w.offsets) as from_offset, upper(w.offsets) as until_offset
from lockstep.request_window w join lockstep.stream s using (stream_id)
where w.request_id = %(request_id)s order by s.partition, w.stream_id, w.offsets

-- name: close_request
-- Nothing is planned for it any more.
update lockstep.request set closed_at = clock_timestamp() where request_id = %(request_id)s and closed_at is null

-- name: close_requests_of
-- Requests about streams that are closed for good, or of batches that a person abandons, end with them.
update lockstep.request r set closed_at = clock_timestamp() where r.closed_at is null and (
    exists (select 1 from lockstep.request_window w where w.request_id = r.request_id and w.stream_id = any(%(streams)s))
    or exists (select 1 from lockstep.batch b where b.request_id = r.request_id and b.batch_id = any(%(batches)s)))

-- name: log_streams
-- Every stream of today's log. Growth closes streams and keeps the log. A truncation keeps the topic id and not the log.
select s.stream_id, s.topic, s.partition, s.cluster_id, s.topic_id, s.incarnation, s.epoch, s.start_offset, s.position, s.leader_epoch
from lockstep.stream s
where s.pipeline = %(pipeline)s and s.cluster_id = %(cluster_id)s and s.topic_id = %(topic_id)s and not exists (
    select 1 from lockstep.stream n where n.pipeline = s.pipeline and n.topic = s.topic and n.partition = s.partition
        and n.incarnation > s.incarnation)
order by s.partition, s.stream_id

-- name: streams_of
-- The streams that a request is about, whatever log they are of.
select stream_id, topic, partition, cluster_id, topic_id, incarnation, epoch, start_offset, position, leader_epoch
from lockstep.stream where stream_id in (select w.stream_id from lockstep.request_window w where w.request_id = %(request_id)s)
order by stream_id

-- name: segments_within
-- The segments that batches own of a stretch of one stream.
select lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.batch_id from lockstep.coverage c
where int4range(c.stream_id, c.stream_id, '[]') && int4range(%(stream_id)s, %(stream_id)s, '[]')
  and c.offsets && int8range(%(from_offset)s, %(until_offset)s) and c.kind = 'batch' order by 1

-- name: segments_of
-- Everything that these batches own today; a merged stretch stands for what they own in it.
select c.stream_id, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.batch_id from lockstep.coverage c
where c.batch_id = any(%(batches)s)
union
select c.stream_id, lower(c.offsets), upper(c.offsets), o.batch_id
from lockstep.batch_range o cross join lateral (
    select c.stream_id, c.offsets, c.batch_id from lockstep.coverage c
    where c.stream_id = o.stream_id and lower(c.offsets) <= lower(o.offsets) order by lower(c.offsets) desc limit 1) c
join lockstep.batch_range n on n.batch_id = c.batch_id and n.stream_id = c.stream_id and n.offsets <> c.offsets
where o.batch_id = any(%(batches)s) and c.offsets @> o.offsets order by 1, 2

-- name: due_segments
-- The next segments of each window that an older token owns (T10); the lateral keeps a long request from being read whole.
select w.stream_id, s.topic, s.partition, d.from_offset, d.until_offset, d.batch_id
from lockstep.request r join lockstep.request_window w using (request_id) join lockstep.stream s using (stream_id)
cross join lateral (
    select lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.batch_id
    from lockstep.coverage c join lockstep.commit m on m.batch_id = c.batch_id and m.stream_id = c.stream_id
    where c.stream_id = w.stream_id and lower(c.offsets) >= coalesce((
        -- a merged stretch may begin before the window: it is found, and then refused
        select lower(p.offsets) from lockstep.coverage p
        where p.stream_id = w.stream_id and lower(p.offsets) <= lower(w.offsets) and p.offsets && w.offsets
        order by lower(p.offsets) desc limit 1), lower(w.offsets))
      and lower(c.offsets) < upper(w.offsets) and c.kind = 'batch' and m.token < r.token
    order by lower(c.offsets) limit %(most)s) d
where r.request_id = %(request_id)s order by w.stream_id, d.from_offset

-- name: owners_behind
-- Which of these owners have due segments behind the last ones that were looked at.
select distinct c.batch_id
from lockstep.request r join lockstep.request_window w using (request_id)
join unnest(%(streams)s::int[], %(lasts)s::bigint[]) as l (stream_id, last_begin) on l.stream_id = w.stream_id
join lockstep.coverage c on c.stream_id = w.stream_id and lower(c.offsets) > l.last_begin and lower(c.offsets) < upper(w.offsets)
join lockstep.commit m on m.batch_id = c.batch_id and m.stream_id = c.stream_id
where r.request_id = %(request_id)s and c.kind = 'batch' and c.batch_id = any(%(owners)s::bigint[]) and m.token < r.token

-- name: free_offsets
-- What is still to fill: readable, below the position, and neither a batch's nor lost.
select w.stream_id, s.topic, s.partition, lower(f.offsets) as from_offset, upper(f.offsets) as until_offset
from lockstep.request_window w join lockstep.stream s using (stream_id)
join unnest(%(streams)s::int[], %(held)s::text[]) as b (stream_id, held) on b.stream_id = w.stream_id
cross join lateral unnest(
    int8multirange(w.offsets * int8range(null, s.position)) * b.held::int8multirange
    - coalesce((select range_agg(c.offsets) from lockstep.coverage c
                where int4range(c.stream_id, c.stream_id, '[]') && int4range(w.stream_id, w.stream_id, '[]')
                  and c.offsets && w.offsets and c.kind <> 'skipped'), '{}')) as f (offsets)
where w.request_id = %(request_id)s order by w.stream_id, f.offsets

-- name: skipped_within
-- The skipped stretches of a request's windows.
select c.stream_id, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset
from lockstep.request_window w join lockstep.coverage c
  on int4range(c.stream_id, c.stream_id, '[]') && int4range(w.stream_id, w.stream_id, '[]') and c.offsets && w.offsets
where w.request_id = %(request_id)s and c.kind = 'skipped' order by c.stream_id, c.offsets

-- name: claims_within
-- Who works on offsets of a request's windows.
select k.stream_id, lower(k.offsets) as from_offset, upper(k.offsets) as until_offset, k.batch_id
from lockstep.request_window w join lockstep.claim k
  on int4range(k.stream_id, k.stream_id, '[]') && int4range(w.stream_id, w.stream_id, '[]') and k.offsets && w.offsets
where w.request_id = %(request_id)s order by k.stream_id, k.offsets

-- name: previewed
-- What a preview has been through: the ranges of its batches, which it abandons one after another.
select g.stream_id, lower(g.offsets) as from_offset, upper(g.offsets) as until_offset
from lockstep.batch b join lockstep.request r using (request_id) join lockstep.batch_range g using (batch_id)
where b.request_id = %(request_id)s and b.state = 'abandoned' and r.preview order by g.stream_id, g.offsets

-- name: given_up
-- How often a batch of an open request was abandoned by itself, and what its last attempt said.
select count(*) as times, (
    select split_part(a.error, e'\n', 1) from lockstep.attempt a join lockstep.batch b using (batch_id)
    where b.request_id = %(request_id)s and b.state = 'abandoned' order by a.batch_id desc, a.token desc limit 1) as error
from lockstep.batch where request_id = %(request_id)s and state = 'abandoned'

-- name: claim_pieces
-- What a fill or replay will replace, a row for each piece.
insert into lockstep.claim (stream_id, offsets, batch_id, expects, expects_batch)
select p.stream_id, int8range(p.from_offset, p.until_offset), %(batch_id)s, p.expects, p.owner
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[], %(expects)s::text[], %(owners)s::bigint[])
    as p (stream_id, from_offset, until_offset, expects, owner) order by p.stream_id, p.from_offset

-- name: boundary
-- The offset that a time was resolved to, by the oldest stream of this one's incarnation that asked (T13).
select d."offset" from lockstep.stream o join lockstep.stream s on s.pipeline = o.pipeline and s.topic = o.topic
    and s.partition = o.partition and s.incarnation = o.incarnation
join lockstep.boundary d on d.stream_id = s.stream_id
where o.stream_id = %(stream_id)s and d.at = %(at)s order by d.stream_id limit 1

-- name: ranges_of_batches
-- What batches were planned to read, whoever owns it today.
select g.batch_id, g.stream_id, s.partition, lower(g.offsets) as from_offset, upper(g.offsets) as until_offset
from lockstep.batch_range g join lockstep.batch b using (batch_id) join lockstep.stream s using (stream_id)
where b.pipeline = %(pipeline)s and g.batch_id = any(%(batches)s) order by g.batch_id, s.partition, g.stream_id

-- name: rejected_segments
-- The segments that hold rejects, and how many: what a redrive runs again.
select c.stream_id, lower(c.offsets) as from_offset, upper(c.offsets) as until_offset, c.batch_id, count(*) as rejects
from lockstep.reject j join lockstep.coverage c
  on int4range(c.stream_id, c.stream_id, '[]') && int4range(j.stream_id, j.stream_id, '[]') and c.offsets @> j."offset"
where c.kind = 'batch' and j.stream_id = any(%(streams)s) and j.batch_id = coalesce(%(batch_id)s, j.batch_id)
group by c.stream_id, c.offsets, c.batch_id order by 1, 2

-- name: rejects_elsewhere
-- Rejects of logs that are not there any more: the topic was recreated since.
select s.topic, s.partition, min(j."offset") as from_offset, max(j."offset") + 1 as until_offset, count(*) as rejects
from lockstep.reject j join lockstep.stream s using (stream_id)
where s.pipeline = %(pipeline)s and not s.stream_id = any(%(streams)s) and s.partition = coalesce(%(partition)s, s.partition)
  and s.topic = coalesce(%(topic)s, s.topic) and j.batch_id = coalesce(%(batch_id)s, j.batch_id)
group by s.stream_id, s.topic, s.partition order by s.partition, s.stream_id

-- name: rejects_within
-- Why records of these stretches are rejects now; what an expectation has seen is left off, so that its records are counted together.
select regexp_replace(j.reason, '^(expectation [a-z0-9_]+\([^)]*\)): .*$', '\1') as reason, count(*) as count
from unnest(%(streams)s::int[], %(froms)s::bigint[], %(untils)s::bigint[]) as w (stream_id, from_offset, until_offset)
join lockstep.reject j on j.stream_id = w.stream_id and j."offset" >= w.from_offset and j."offset" < w.until_offset
group by 1 order by count(*) desc, 1

-- name: unfinished_of
-- The batches of a request that are planned and not closed.
select batch_id from lockstep.batch where request_id = %(request_id)s and state = 'planned' order by batch_id

-- name: abandoned_previews
-- Open previews whose process is gone: an hour old without a batch, or with one whose leases are over.
select r.request_id, b.batch_id from lockstep.request r
left join lockstep.batch b on b.request_id = r.request_id and b.state = 'planned'
left join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token
where r.preview and r.closed_at is null
  and case when b.batch_id is null then r.opened_at < clock_timestamp() - interval '1 hour'
      else b.lease_until < clock_timestamp() and coalesce(a.lease_until < clock_timestamp(), true) end
order by r.request_id

-- name: every_stream
-- Every stream of a pipeline, of whatever log, the oldest of each partition first.
select stream_id, topic, partition, cluster_id, topic_id, incarnation, epoch, start_offset, position, leader_epoch
from lockstep.stream where pipeline = %(pipeline)s order by partition, stream_id
