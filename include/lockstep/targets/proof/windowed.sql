-- name: rows_not_counted
-- Every row of a segment counts in each of its windows, or is late there.
select s.topic, s.partition, u.batch_id, 'batch ' || u.batch_id || ': ' || coalesce(p.rows, u.rows) || ' rows recorded, each in '
    || %(windows)s || ' windows; ' || coalesce(c.rows, 0) + coalesce(f.records, 0) || ' count, ' || coalesce(l.rows, 0) || ' are late'
    || case when x.rows > 0 then ', ' || x.rows || ' are erased' else '' end as what
from lockstep.segment v
join lockstep.result u using (batch_id, token, stream_id) join lockstep.stream s using (stream_id)
left join lockstep.target_rows p on (p.batch_id, p.token, p.stream_id, p.target) = (u.batch_id, u.token, u.stream_id, %(target)s)
left join (
    select batch_id, stream_id, sum(records - folded) as rows from lockstep.contribution where target = %(target)s group by 1, 2) c
    on (c.batch_id, c.stream_id) = (u.batch_id, u.stream_id)
left join lockstep.folded f on (f.target, f.batch_id, f.stream_id) = (%(target)s, u.batch_id, u.stream_id)
left join (select batch_id, stream_id, count(*) as rows from lockstep.late where target = %(target)s group by 1, 2) l
    on (l.batch_id, l.stream_id) = (u.batch_id, u.stream_id)
left join (
    select batch_id, stream_id, sum(rows)::bigint as rows from lockstep.erased
    where relation in ('lockstep.contribution', 'lockstep.late') and target = %(target)s group by 1, 2) x
    on (x.batch_id, x.stream_id) = (u.batch_id, u.stream_id)
where s.pipeline = %(pipeline)s and coalesce(p.rows, u.rows) * %(windows)s <> coalesce(c.rows, 0) + coalesce(f.records, 0)
    + coalesce(l.rows, 0) + coalesce(x.rows, 0)
order by u.batch_id, s.partition

-- name: late_not_by_judgement
-- What is late was judged so, and belongs to a segment that the batch owns.
select s.topic, s.partition, 'offset ' || l."offset" || ' is kept as late for the window until ' || l.window_end
    || ', and was not judged so' as what
from lockstep.late l join lockstep.stream s using (stream_id)
where l.target = %(target)s and not (
    l.window_end <= l.watermark
    and exists (select from lockstep.judged j where j.stream_id = l.stream_id and j.offsets @> l."offset" and j.watermark = l.watermark)
    and exists (
        select from lockstep.segment v
        where v.stream_id = l.stream_id and v.offsets @> l."offset" and v.batch_id = l.batch_id))
order by s.partition, l."offset"

-- name: windows_not_added_up
-- Every shown window is what its contributions add up to, with the revision that the ledger knows; no other window has a row.
select null::text as topic, null::int as partition, l."Batch" as batch_id,
    'window ' || coalesce(k._key, jsonb_build_array({target_keys}))::text || case when k._key is null then ': its row is of no window that the ledger knows'
        else ', revision ' || k."Revision" || ': its row has (' || concat_ws(', ', {shown_of_row}, coalesce(t._revision::text, 'null'))
            || '), its contributions add up to (' || concat_ws(', ', {shown_of_left}) || ')' end as what
from (
    select c.key as _key, {kept_keys}, c.ends as "Ends", c.revision as "Revision" from lockstep.window_state c where c.target = %(target)s) k
left join (
    select c.key as _key, {combined}, max(c.batch_id) as "Batch" from lockstep.contribution c
    where c.target = %(target)s group by c.key) l using (_key)
full join {target} t on {same_as_kept}
where k._key is null or (t._stream is not null) <> (k."Revision" > 0 and l._key is not null)
    or t._stream is not null
        and ({names_of_row}, t.window_end, t._revision) is distinct from ({names_of_left}, k."Ends", k."Revision")
order by 3

-- name: windows_not_known
-- Every contribution is to a window that the ledger knows.
select s.topic, s.partition, 'batch ' || c.batch_id || ' contributes to window ' || c.key::text || ', which nobody knows' as what
from lockstep.contribution c join lockstep.stream s using (stream_id)
where c.target = %(target)s and not exists (
    select from lockstep.window_state w where w.target = c.target and w.key = c.key)
order by c.batch_id, s.partition

-- name: shown_too_early
-- No window is shown before the watermark has passed it.
select null::text as topic, null::int as partition, 'window ' || w.key::text || ' is shown, ends at ' || w.ends
    || ', and the watermark is ' || coalesce(e.watermark::text, 'not there') as what
from lockstep.window_state w left join lockstep.event_time e on e.pipeline = %(pipeline)s
where w.target = %(target)s and w.revision > 0 and (w.ends <= e.watermark) is not true order by 3

-- name: not_judged
-- Every offset that a batch covers was judged once.
select s.topic, s.partition, '[' || lower(v.offsets) || ', ' || upper(v.offsets) || ') is covered, and not judged as a whole' as what
from lockstep.coverage v join lockstep.stream s using (stream_id)
where s.pipeline = %(pipeline)s and v.kind = 'batch' and upper(v.offsets) - lower(v.offsets) <> (
    select coalesce(sum(upper(j.offsets * v.offsets) - lower(j.offsets * v.offsets)), 0) from lockstep.judged j
    where j.stream_id = v.stream_id and j.offsets && v.offsets)
order by s.partition, lower(v.offsets)

-- name: watermark_too_high
-- The watermark is no later than what each open stream has come to.
select s.topic, s.partition, 'the watermark is ' || e.watermark || ', and this stream has come to '
    || coalesce(greatest(t.opened_with, t.seen, t.idle_at)::text, 'nothing') as what
from lockstep.event_time e join lockstep.stream s using (pipeline) left join lockstep.stream_time t using (stream_id)
where e.pipeline = %(pipeline)s and s.retired_at is null and e.watermark > '-infinity'
  and (e.watermark <= greatest(t.opened_with, t.seen, t.idle_at)) is not true
order by s.partition
