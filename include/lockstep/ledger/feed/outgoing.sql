-- name: columns
-- The images' columns of the table, in its order, with their types.
select i.attname as name, y.typname as type, format_type(i.atttypid, i.atttypmod) as written from pg_attribute i join pg_type y on y.oid = i.atttypid
where i.attrelid = to_regclass(%(images)s) and i.attnum > 0 and not i.attisdropped
  and i.attname not in ('_change', '_change_set', '_ordinal_in_set') order by i.attnum

-- name: end_of_portion
-- The whole sets that fit, or a part of the first one.
select case when count(*) = 0 then %(begin)s
    else coalesce(max(c.ends) filter (where c.ends <= %(begin)s + %(most)s), %(begin)s + %(most)s) end as until
from (
    select first_number + changes as ends from lockstep.change_set
    where target = %(target)s and changes > 0 and first_number + changes > %(begin)s
      and first_number >= coalesce((
        select max(p.first_number) from lockstep.change_set p
        where p.target = %(target)s and p.changes > 0 and p.first_number <= %(begin)s), 0)
    order by first_number limit %(most)s) c

-- name: erased
-- Changes that are not sent: an erasure took their rows out.
select count(*) as erased
from lockstep.change_set s join {images} i on i._change_set = s.change_set_id and i._change = 'erased'
where s.target = %(target)s and s.changes > 0 and s.first_number < %(until)s
  and s.first_number >= coalesce((
    select max(p.first_number) from lockstep.change_set p
    where p.target = %(target)s and p.changes > 0 and p.first_number <= %(begin)s), 0)
  and i._ordinal_in_set >= %(begin)s - s.first_number and i._ordinal_in_set < %(until)s - s.first_number

-- name: sets
-- The change sets of a portion, in the order of their numbers. The images of each come in theirs, by their index, and all else is
-- looked up row by row, so the rows come in order: a sort of the whole portion would keep its sender waiting for the first.
(select s.*, (select f.timeline::text from lockstep.feed f where f.target = s.target) as timeline,
    (select max(l._ordinal_in_set) from {images} l where l._change_set = s.change_set_id and l._change <> 'erased') as last
from lockstep.change_set s
where s.target = %(target)s and s.changes > 0 and s.first_number < %(until)s
  and s.first_number >= coalesce((
    select max(p.first_number) from lockstep.change_set p
    where p.target = %(target)s and p.changes > 0 and p.first_number <= %(begin)s), 0)
order by s.first_number offset 0)

-- name: changes
-- The changes of the sets, each with the stream of its record.
{sets} s cross join lateral (
    select * from {images} i where i._change_set = s.change_set_id and i._change not in ('before', 'erased')
      and i._ordinal_in_set >= %(begin)s - s.first_number and i._ordinal_in_set < %(until)s - s.first_number
    order by i._ordinal_in_set) i
left join lateral (select k.topic, k.partition from lockstep.stream k where k.stream_id = {stream} offset 0) t on true

-- name: before_image
-- The row before a change.
left join lateral (
    select * from {images} w where w._change_set = i._change_set and w._ordinal_in_set = i._ordinal_in_set and w._change = 'before'
    offset 0) b on true

-- name: rows
-- Changes as rows: the row behind the change, none behind a deletion.
select s.first_number + i._ordinal_in_set as number, s.seq, s.kind, s.batch_id, s.timeline,
    case i._change when 'after' then 'update' else i._change end as op,
    t.topic, t.partition, {offset} as "offset", i._ordinal_in_set = s.last as is_last,
    (extract(epoch from s.at) * 1000)::bigint as at_ms, {key} as key,
    case when i._change <> 'delete' then {value}::text end as value
from {changes}

-- name: documents
-- Changes as documents: the row before and after, and where the change comes from.
select s.first_number + i._ordinal_in_set as number, s.seq, s.kind, s.batch_id, s.timeline,
    case i._change when 'after' then 'update' else i._change end as op,
    t.topic, t.partition, {offset} as "offset", i._ordinal_in_set = s.last as is_last,
    (extract(epoch from s.at) * 1000)::bigint as at_ms, {key} as key,
    (select row_to_json(d.*)::text from (select case i._change when 'after' then 'update' else i._change end as op,
        case i._change when 'delete' then {value} when 'after' then {before} end as before,
        case when i._change <> 'delete' then {value} end as after,
        json_build_object('target', s.target, 'number', s.first_number + i._ordinal_in_set, 'seq', s.seq, 'kind', s.kind,
            'batch', s.batch_id, 'topic', t.topic, 'partition', t.partition, 'offset', {offset},
            'at', to_char(s.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')) as source) d) as value
from {changes} {before_image}

-- name: typed
-- Changes as the texts of their columns, before and after, for an encoder that knows the columns' types.
select s.first_number + i._ordinal_in_set as number, s.seq, s.kind, s.batch_id, s.timeline,
    case i._change when 'after' then 'update' else i._change end as op,
    t.topic, t.partition, {offset} as "offset", i._ordinal_in_set = s.last as is_last,
    (extract(epoch from s.at) * 1000)::bigint as at_ms, (extract(epoch from s.at) * 1000000)::bigint as at_us, {key} as key,
    case i._change when 'delete' then {value} when 'after' then {before} end as before,
    case when i._change <> 'delete' then {value} end as after
from {changes} {before_image}
