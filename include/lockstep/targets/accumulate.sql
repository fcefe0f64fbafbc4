-- name: lock_target
-- One commit at a time writes this target: lanes may meet on one key, and what is added is added to what is there.
select pg_advisory_xact_lock(hashtextextended('lockstep.target ' || %(target)s, 0))

-- name: null_key
-- A record without a key: its totals would belong to nobody.
select s.topic, s.partition, t._offset as "offset", array_remove(array[{null_keys}], null) as names
from {rows} t join lockstep.stream s on s.stream_id = t._stream
where num_nulls({staged_keys}) > 0 order by t._stream, t._offset limit 1

-- name: contribute
-- What each of the batch's segments adds to each key.
insert into lockstep.contribution (target, key, batch_id, stream_id, records, "offset", ordinal, totals)
select %(target)s, jsonb_build_array({staged_keys}), %(batch_id)s, t._stream, count(*),
    (max(array[t._offset, t._ordinal]))[1], (max(array[t._offset, t._ordinal]))[2], jsonb_build_object({staged_totals})
from {rows} t group by t._stream, {staged_keys}

-- name: add
-- A key's row takes in what the batch contributes; its history is not read.
with added as (
    insert into {target} as t ({keys}, {names}, _stream, _offset, _ordinal, _batch)
    select {kept_keys}, {combined}, {newest}, %(batch_id)s
    from lockstep.contribution c where c.batch_id = %(batch_id)s and c.target = %(target)s group by c.key
    on conflict ({keys}) do update set {additions},
        _stream = (greatest({there}, {coming}))[1], _offset = (greatest({there}, {coming}))[2],
        _ordinal = (greatest({there}, {coming}))[3], _batch = excluded._batch
    returning xmax = 0 as is_new)
select count(*) filter (where is_new) as inserted, count(*) filter (where not is_new) as updated from added

-- name: keep_touched
-- The keys that the replaced segments contributed to.
create temp table touched on commit drop as
select distinct c.key from lockstep.contribution c join lockstep.claim k on k.expects_batch = c.batch_id and k.stream_id = c.stream_id
where k.batch_id = %(batch_id)s and k.expects = 'batch' and c.target = %(target)s

-- name: withdraw_contributions
-- The replaced segments contribute nothing any more.
delete from lockstep.contribution c using lockstep.claim k
where k.batch_id = %(batch_id)s and k.expects = 'batch' and c.target = %(target)s
  and c.batch_id = k.expects_batch and c.stream_id = k.stream_id

-- name: take_anew
-- A touched key's totals are what the contributions that are left add up to.
update {target} t set ({names}, _stream, _offset, _ordinal) = ({names_of_left}, l._stream, l._offset, l._ordinal),
    _batch = %(batch_id)s
from (select {kept_keys}, {combined}, {newest}
      from touched u join lockstep.contribution c on c.target = %(target)s and c.key = u.key group by c.key) l
where {same_as_left}

-- name: delete_rows
-- A touched key that nothing is left of has no row.
delete from {target} t using (
    select {kept_keys} from touched c where not exists (
        select 1 from lockstep.contribution o where o.target = %(target)s and o.key = c.key)) l
where {same_as_left}

-- name: forget_touched
-- The next target of the same transaction has touched keys of its own.
drop table touched
