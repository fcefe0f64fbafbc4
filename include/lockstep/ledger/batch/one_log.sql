-- name: last_records
-- The newest record that a batch delivered of each stream's log, and the times of the segment it stands in.
select w.stream_id, l.last_offset, l.min_timestamp, l.max_timestamp
from unnest(%(streams)s::int[]) as w (stream_id) join lockstep.stream s using (stream_id)
cross join lateral (
    select d.* from lockstep.stream o cross join lateral (
        select u.last_offset, u.min_timestamp, u.max_timestamp
        from lockstep.coverage c join lockstep.commit m using (batch_id, stream_id)
        join lockstep.result u using (batch_id, token, stream_id)
        where c.stream_id = o.stream_id and c.kind = 'batch' and u.last_offset is not null
        order by lower(c.offsets) desc limit 1) d
    where o.pipeline = s.pipeline and o.topic = s.topic and o.partition = s.partition and o.incarnation = s.incarnation
    order by o.stream_id desc limit 1) l
order by w.stream_id

-- name: keep_leader_epochs
-- Every record below these positions was written under these epochs or earlier ones; a stream that moved is left alone.
-- So is one that a live batch reads past its position: that batch may have read the log as it was before the new leader.
with compared as materialized (
    select s.stream_id, n.leader_epoch
    from unnest(%(streams)s::int[], %(positions)s::bigint[], %(epochs)s::int[]) as n (stream_id, position, leader_epoch)
    join lockstep.stream s on s.stream_id = n.stream_id and s.position = n.position
    where s.retired_at is null and not exists (
        select 1 from lockstep.claim k where k.stream_id = s.stream_id and upper(k.offsets) > s.position)
    order by s.stream_id for no key update of s)
update lockstep.stream s set leader_epoch = c.leader_epoch from compared c where c.stream_id = s.stream_id

-- name: planned_epochs
-- The leader epochs that a batch's streams were last seen under.
select r.stream_id, s.leader_epoch from lockstep.batch_range r join lockstep.stream s using (stream_id)
where r.batch_id = %(batch_id)s and s.leader_epoch is not null

-- name: keep_resumed_epochs
-- The same for a live batch that is resumed, once no older attempt at it can commit.
update lockstep.stream s set leader_epoch = n.leader_epoch
from unnest(%(streams)s::int[], %(positions)s::bigint[], %(epochs)s::int[]) as n (stream_id, position, leader_epoch)
where s.stream_id = n.stream_id and s.position = n.position and s.retired_at is null

-- name: outdate_attempts
-- The new token is that of no attempt, so each one that is open by now is refused at its commit.
update lockstep.batch set token = nextval('lockstep.token_seq') where batch_id = %(batch_id)s and state = 'planned'

-- name: shared_until
-- Up to where a stream's log is still the log that it was read from: where the first newer incarnation of the topic began below
-- its position, if any. One that goes on at the position replaced nothing.
select s.stream_id, min(n.start_offset) as shared_until
from lockstep.stream s left join lockstep.stream n on n.pipeline = s.pipeline and n.topic = s.topic
    and n.partition = s.partition and n.incarnation > s.incarnation and n.start_offset < s.position
where s.pipeline = %(pipeline)s group by s.stream_id
