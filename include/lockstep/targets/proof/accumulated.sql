-- name: contributions_of_strangers
-- Every contribution is of a segment that its batch owns.
select s.topic, s.partition, 'batch ' || c.batch_id || ' contributes to key ' || c.key::text || ', and owns nothing there' as what
from lockstep.contribution c join lockstep.stream s using (stream_id)
where c.target = %(target)s and not exists (
    select 1 from lockstep.segment g where g.stream_id = c.stream_id and g.batch_id = c.batch_id)
order by c.batch_id, s.partition

-- name: contributions_not_counted
-- Every segment contributes as many rows as its batch recorded.
select s.topic, s.partition, u.batch_id, 'batch ' || u.batch_id || ': ' || coalesce(p.rows, u.rows) || ' rows recorded, '
    || coalesce(c.rows, 0) || ' contribute' as what
from lockstep.segment v
join lockstep.result u using (batch_id, token, stream_id) join lockstep.stream s using (stream_id)
left join lockstep.target_rows p on (p.batch_id, p.token, p.stream_id, p.target) = (u.batch_id, u.token, u.stream_id, %(target)s)
left join (select batch_id, stream_id, sum(records) as rows from lockstep.contribution where target = %(target)s group by 1, 2) c
    on (c.batch_id, c.stream_id) = (u.batch_id, u.stream_id)
left join (
    select batch_id, stream_id, sum(rows) as rows from lockstep.erased
    where relation = 'lockstep.contribution' and target = %(target)s group by 1, 2) x
    on (x.batch_id, x.stream_id) = (u.batch_id, u.stream_id)
where s.pipeline = %(pipeline)s and coalesce(p.rows, u.rows) <> coalesce(c.rows, 0) + coalesce(x.rows, 0)
order by u.batch_id, s.partition

-- name: keys_doubled
-- Every key has one row.
select null::text as topic, null::int as partition,
    'key ' || jsonb_build_array({target_keys})::text || ': ' || count(*) || ' rows have this key' as what
from {target} t group by {target_keys} having count(*) > 1 order by 3

-- name: totals_not_added_up
-- Every row is what its key's contributions add up to, and names the newest record that counts.
select s.topic, s.partition, g.batch_id, 'key ' || coalesce(k._key, jsonb_build_array({target_keys}))::text || ': its row has ('
    || concat_ws(', ', {shown_of_row}) || '), its contributions add up to (' || concat_ws(', ', {shown_of_kept}) || ')' as what
from (select c.key as _key, {kept_keys}, {combined}, {newest} from lockstep.contribution c where c.target = %(target)s group by c.key) k
full join {target} t on {same_as_kept}
left join lockstep.stream s on s.stream_id = coalesce(t._stream, k._stream)
left join lockstep.segment g on g.stream_id = k._stream and g.offsets @> k._offset
where k._key is null or t._stream is null
    or ({names_of_row}, t._stream, t._offset, t._ordinal) is distinct from ({names_of_kept}, k._stream, k._offset, k._ordinal)
order by s.partition, coalesce(t._offset, k._offset)

-- name: of_segment
-- What a segment contributes, by key as text; numbers as text, too, for a reader that knows no exact ones.
select array(select p.value from jsonb_array_elements_text(c.key) with ordinality p (value, place) order by p.place) as key,
    c.records, c."offset", c.totals::text as totals
from lockstep.contribution c
where c.batch_id = %(batch_id)s and c.stream_id = %(stream_id)s and c.target = %(target)s
