-- name: feed
-- Where a feed stands; no row: the table has none.
select target, name, key, kept_from, next_number, last_seq, keep::text as keep, opened_at, timeline::text as timeline
from lockstep.feed
where target = %(target)s

-- name: changes
-- The images of the changes from a number on, before ahead of after. Sets that end below are passed over by their index.
select s.first_number + i._ordinal_in_set as number, s.seq, s.kind, s.batch_id, s.at, i._change as change,
    (to_jsonb(i.*) - array['_change', '_change_set', '_ordinal_in_set'])::text as row
from lockstep.change_set s join {rows} i on i._change_set = s.change_set_id
where s.target = %(target)s and s.changes > 0 and s.first_number < %(until)s
  and s.first_number >= coalesce((
    select max(p.first_number) from lockstep.change_set p
    where p.target = %(target)s and p.changes > 0 and p.first_number <= %(begin)s), 0)
  and s.first_number + i._ordinal_in_set >= %(begin)s and s.first_number + i._ordinal_in_set < %(until)s
order by 1, i._change = 'after'

-- name: change_sets
-- What a batch announced, by feed: one set, or one for each of its ranges.
select c.change_set_id, c.target, f.name, s.topic, s.partition, lower(r.offsets) as from_offset, upper(r.offsets) as until_offset,
    c.seq, c.first_number, c.changes
from lockstep.change_set c join lockstep.feed f using (target)
left join lockstep.batch_range r on r.batch_id = c.batch_id and r.stream_id = c.stream_id
left join lockstep.stream s on s.stream_id = c.stream_id
where c.batch_id = %(batch_id)s order by c.target, c.seq

-- name: sets
-- The newest change sets of a feed below a seq. A batch's lane tells a replay apart.
select c.change_set_id, c.target, f.name, c.seq, c.first_number, c.changes, c.kind, c.batch_id as batch, b.lane,
    s.topic, s.partition, c.why, c.at
from lockstep.change_set c join lockstep.feed f using (target) left join lockstep.batch b using (batch_id)
left join lockstep.stream s on s.stream_id = c.stream_id
where c.target = %(target)s and c.seq < coalesce(%(before)s::bigint, 9223372036854775807)
order by c.seq desc limit %(most)s

-- name: set_of_feed
-- One change set of a feed.
select c.target, c.seq, c.first_number, c.changes, c.kind, c.batch_id as batch, b.lane, s.topic, s.partition, c.why, c.at,
    c.changes > 0 and c.first_number < f.kept_from as is_trimmed
from lockstep.change_set c join lockstep.feed f using (target) left join lockstep.batch b using (batch_id)
left join lockstep.stream s on s.stream_id = c.stream_id
where c.target = %(target)s and c.seq = %(seq)s

-- name: counts
-- How many rows each set inserted, updated and deleted. A set that is trimmed has none.
select _change_set as change_set_id, count(*) filter (where _change = 'insert') as inserted,
    count(*) filter (where _change = 'after') as updated, count(*) filter (where _change = 'delete') as deleted
from {images} where _change_set = any(%(sets)s::bigint[]) group by _change_set

-- name: announced
-- How many changes a batch announced to each feed.
select target, sum(changes)::bigint as changes from lockstep.change_set where batch_id = %(batch_id)s group by target

-- name: snapshot
-- The table's rows, in the order of its key.
select to_jsonb(t.*)::text as row from {rows} t order by {keys}
