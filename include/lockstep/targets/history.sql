-- name: keep_versions
-- The staged records as versions, each with the moment from which it is valid.
create temp table version on commit drop as
select {staged}, t._stream, t._offset, t._ordinal, coalesce(t._deleted, false) as _deleted, {moment} as valid_from,
    s.epoch as "Epoch"
from {rows} t join lockstep.stream s on s.stream_id = t._stream

-- name: left_open
-- The first record that does not have all of its values.
select s.topic || '-' || s.partition as place, t._offset as "offset", t._unavailable as names
from {rows} t join lockstep.stream s on s.stream_id = t._stream
where t._unavailable <> '' and not coalesce(t._deleted, false) order by t._stream, t._offset limit 1

-- name: without
-- The first version that is null in one of these columns.
select s.topic || '-' || s.partition as place, n._offset as "offset"
from version n join lockstep.stream s on s.stream_id = n._stream
where {is_null} order by n._stream, n._offset limit 1

-- name: owner_of_versions
-- The pipeline whose records these are.
select s.pipeline from lockstep.stream s where s.stream_id = (select n._stream from version n limit 1)

-- name: owner_of_replayed
-- The pipeline whose records are replayed.
select s.pipeline from lockstep.claim k join lockstep.stream s using (stream_id) where k.batch_id = %(batch_id)s limit 1

-- name: make_touched
-- Room for each key that a batch adds to or takes from, with the first moment where it does.
create temp table touched on commit drop as select {target_keys}, t.valid_from as "Low" from {target} t with no data

-- name: touch_added
-- The keys of the new versions.
insert into touched select {keys}, min(n.valid_from) from version n group by {keys}

-- name: withdraw_versions
-- The versions of the segments that a replay replaces, found by where they were read.
with gone as (
    delete from {target} t using lockstep.claim k
    where k.batch_id = %(batch_id)s and k.expects = 'batch' and (%(stream_id)s is null or k.stream_id = %(stream_id)s)
      and t._stream = k.stream_id and t._offset >= lower(k.offsets) and t._offset < upper(k.offsets)
    returning {target_keys}, t.valid_from),
added as (insert into touched select {plain_keys}, min(valid_from) from gone group by {plain_keys})
select count(*) as withdrawn from gone

-- name: time_versions
-- The versions of touched keys, each with the moment at which a later one begins. Versions before the last one that stood
-- below the first moment keep their ends.
create temp table timed on commit drop as
with around as (
    select {target_keys}, t.valid_from, t.valid_until as "HeldUntil", t._deleted, t._stream, t._offset, t._ordinal,
        s.epoch as "Epoch", s.pipeline = %(pipeline)s as "Ours", false as "IsNew"
    from touched n cross join lateral (
        select coalesce(
            (select b.valid_from from {target} b where {same_key_before} and b.valid_from < n."Low"
                and (b.valid_until is null or b.valid_until > b.valid_from) order by b.valid_from desc limit 1),
            (select min(b.valid_from) from {target} b where {same_key_before})) as valid_from) first
    -- `offset 0`: a look into the index for each key, whatever Postgres thinks of the length of their histories
    cross join lateral (select * from {target} t where {same_key} and t.valid_from >= first.valid_from offset 0) t
    join lockstep.stream s on s.stream_id = t._stream
    {and_new}),
followed as (
    select *, min(valid_from) over (partition by {plain_keys}
        order by {order} "Ours" desc, "Epoch" desc, _offset desc, _stream desc, _ordinal desc
        rows between unbounded preceding and 1 preceding) as "Next"
    from around)
select {plain_keys}, _stream, _offset, _ordinal, "Epoch", "Ours", "IsNew", "HeldUntil",
    case when _deleted then valid_from when "Next" is not null then greatest(valid_from, "Next") end as valid_until
from followed

-- name: and_new
-- The versions to add, beside those that stand.
union all
select {keys}, n.valid_from, null, n._deleted, n._stream, n._offset, n._ordinal, n."Epoch", true, true from version n

-- name: moved
-- A key in two partitions of one epoch: nothing says which record comes first. Sorted, so that no plan hopes to meet one soon.
select jsonb_build_array({plain_keys}) as key, min(_stream) as one, max(_stream) as other
from timed where "Ours" group by {plain_keys}, "Epoch" having min(_stream) <> max(_stream) and bool_or("IsNew") order by key limit 1

-- name: end_versions
-- Versions that stand end where the next one begins now.
update {target} t set valid_until = w.valid_until from timed w
where not w."IsNew" and w."HeldUntil" is distinct from w.valid_until
  and t._stream = w._stream and t._offset = w._offset and t._ordinal = w._ordinal

-- name: insert_versions
-- Every staged row of a winning task becomes a version. The unique index refuses any second one.
insert into {target} ({columns}, valid_from, valid_until, _deleted, _stream, _offset, _ordinal, _batch)
select {new_columns}, n.valid_from, w.valid_until, n._deleted, n._stream, n._offset, n._ordinal, %(batch_id)s
from version n join timed w on w."IsNew" and n._stream = w._stream and n._offset = w._offset and n._ordinal = w._ordinal

-- name: forget
-- The next target of the same transaction has versions of its own.
drop table if exists pg_temp.version, pg_temp.touched, pg_temp.timed
