-- name: make_records
-- Room for one chunk of records that were decoded again, with the types of a staging table.
create temp table lockstep_reread ({columns}) on commit drop

-- name: make_placed
-- Room for the chunk's records, each once for each of its windows, with the watermark that it is judged by.
create temp table lockstep_placed (
    _offset bigint not null, window_start timestamptz not null, window_end timestamptz not null, _watermark timestamptz,
    "Late" boolean not null) on commit drop

-- name: make_recounted
-- Room for what each segment adds to each window and key, by its records.
create temp table lockstep_recounted (
    batch_id bigint not null, stream_id int not null, key jsonb not null, ends timestamptz not null, records bigint not null,
    "offset" bigint not null, totals jsonb not null) on commit drop

-- name: make_late
-- Room for the records that are late by the watermark of their batch.
create temp table lockstep_late_again (
    batch_id bigint not null, stream_id int not null, "offset" bigint not null, window_start timestamptz not null,
    window_end timestamptz not null, key jsonb not null, event_time timestamptz not null, watermark timestamptz not null,
    row jsonb not null, unsure text[] not null) on commit drop

-- name: make_segments
-- Room for the segments that were read again from their beginning to their end.
create temp table lockstep_segment_again (batch_id bigint not null, stream_id int not null) on commit drop

-- name: empty_chunk
-- The next chunk takes the place of the last one.
truncate pg_temp.lockstep_reread, pg_temp.lockstep_placed

-- name: drop_all
-- The next target has columns of its own.
drop table pg_temp.lockstep_reread, pg_temp.lockstep_placed, pg_temp.lockstep_recounted, pg_temp.lockstep_late_again,
    pg_temp.lockstep_segment_again

-- name: judgements
-- The watermark that the batch which first committed these offsets was planned with. Nothing is late that a decision admitted
-- before the owner's attempt was opened: the request of the same transaction has drawn its token between the two.
select lower(r.offsets) as from_offset, upper(r.offsets) as until_offset,
    case when b.lane = 'live' and b.watermark > '-infinity' and not exists (
        select from lockstep.judged j join lockstep.decision d on d.decision_id = j.admitted_by
        join lockstep.segment o on o.stream_id = j.stream_id and o.batch_id = %(batch_id)s
        where j.stream_id = r.stream_id and j.offsets = r.offsets and o.token > (
            select min(q.token) from lockstep.request q
            where q.pipeline = d.pipeline and q.lane = 'replay' and q.opened_at >= d.at)) then b.watermark end as watermark
from lockstep.batch_range r join lockstep.commit m using (batch_id, stream_id) join lockstep.batch b using (batch_id)
where r.stream_id = %(stream_id)s and b.lane <> 'replay' and r.offsets && int8range(%(from_offset)s, %(until_offset)s)
order by 1

-- name: recount
-- What the chunk's records add to each window and key.
insert into pg_temp.lockstep_recounted (batch_id, stream_id, key, ends, records, "offset", totals)
select %(batch_id)s, %(stream_id)s, jsonb_build_array({staged_keys}), max(t.window_end), count(*), max(t._offset),
    jsonb_build_object({staged_totals})
from (
    select e.*, p.window_start, p.window_end from pg_temp.lockstep_reread e join pg_temp.lockstep_placed p using (_offset)
    where not p."Late") t
group by {staged_keys}

-- name: recount_late
-- The chunk's records that are late, once for each window that they missed.
insert into pg_temp.lockstep_late_again
select %(batch_id)s, %(stream_id)s, t._offset, t.window_start, t.window_end, jsonb_build_array({staged_keys}), {moment}, t._watermark,
    to_jsonb(t.*) - %(ours)s::text[], coalesce(string_to_array(trim(both ',' from t."Unsure"), ','), '{{}}')
from (
    select e.*, p.window_start, p.window_end, p._watermark, p."Late"
    from pg_temp.lockstep_reread e join pg_temp.lockstep_placed p using (_offset) where p."Late") t

-- name: keep_segment
-- A segment of which every record was read again.
insert into pg_temp.lockstep_segment_again values (%(batch_id)s, %(stream_id)s)

-- name: forget_recounted
-- A segment with a record that has no value for a column, or that decode.py fails for, is not compared.
delete from pg_temp.lockstep_recounted where batch_id = %(batch_id)s and stream_id = %(stream_id)s

-- name: forget_late
-- Nor are its late records.
delete from pg_temp.lockstep_late_again where batch_id = %(batch_id)s and stream_id = %(stream_id)s

-- name: side_by_side
-- What each segment adds to each window by its records, beside what the ledger has of it.
with log as (
    select c.batch_id as "OfBatch", c.stream_id as "OfStream", c.key as _key, sum(c.records)::bigint as "Records",
        max(c."offset") as "Newest", {combined}
    from pg_temp.lockstep_recounted c group by c.batch_id, c.stream_id, c.key),
counted as (
    select c.batch_id as "OfBatch", c.stream_id as "OfStream", c.key as _key, sum(c.records)::bigint as "Records",
        max(c."offset") as "Newest", {combined}
    from lockstep.contribution c join pg_temp.lockstep_segment_again using (batch_id, stream_id)
    where c.target = %(target)s group by c.batch_id, c.stream_id, c.key)
select s.topic, s.partition, coalesce(l."OfBatch", k."OfBatch") as batch_id,
    'batch ' || coalesce(l."OfBatch", k."OfBatch") || ', window ' || coalesce(l._key, k._key)::text || {found} as what
from log l full join counted k on (k."OfBatch", k."OfStream", k._key) = (l."OfBatch", l."OfStream", l._key)
join lockstep.stream s on s.stream_id = coalesce(l."OfStream", k."OfStream")
where {is_wrong} order by coalesce(l."OfBatch", k."OfBatch"), s.partition, 3

-- name: is_miscounted
-- Another number of records, or another newest one.
(l."Records", l."Newest") is distinct from (k."Records", k."Newest")

-- name: said_of_count
-- What is said of a wrong count.
case when k._key is null then ': its ' || l."Records" || ' records in the log do not count'
    when l._key is null then ': ' || k."Records" || ' records count, and the log has none for it'
    else ': ' || l."Records" || ' records up to offset ' || l."Newest" || ' in the log, ' || k."Records" || ' up to ' || k."Newest"
        || ' counted' end

-- name: is_changed
-- The same records, and other totals.
l._key is not null and k._key is not null and ({names_of_left}) is distinct from ({names_of_kept})

-- name: said_of_change
-- What is said of changed totals.
': its records give (' || concat_ws(', ', {shown_of_left}) || '), counted was (' || concat_ws(', ', {shown_of_kept}) || ')'

-- name: late_differently
-- Records that are late by their batch's watermark and not kept so, and the other way round.
select s.topic, s.partition, 'offset ' || coalesce(l."offset", k."offset") || case
        when k."offset" is null then ' is late for the window until ' || l.window_end || ', by the watermark ' || l.watermark
            || ' of its batch''s plan, and is not kept as late'
        when l."offset" is null then ' is kept as late for the window until ' || k.window_end
            || ', and no record there is late by the watermark of its batch''s plan'
        else ': its late row for the window until ' || l.window_end || ' is not what its record says' end as what
from pg_temp.lockstep_late_again l full join (
    select o.* from lockstep.late o join pg_temp.lockstep_segment_again using (batch_id, stream_id) where o.target = %(target)s) k
    on (k.stream_id, k."offset", k.ordinal, k.window_start) = (l.stream_id, l."offset", 0, l.window_start)
join lockstep.stream s on s.stream_id = coalesce(l.stream_id, k.stream_id)
where l."offset" is null or k."offset" is null
    or (l.batch_id, l.window_end, l.key, l.event_time, l.watermark, l.row - l.unsure)
        is distinct from (k.batch_id, k.window_end, k.key, k.event_time, k.watermark, k.row - l.unsure)
order by s.partition, coalesce(l."offset", k."offset"), coalesce(l.window_start, k.window_start)

-- name: beside_others
-- Windows that records count in which were not read again.
select distinct c.key from lockstep.contribution c join lockstep.segment o using (batch_id, stream_id)
where c.target = %(target)s and not exists (
    select from pg_temp.lockstep_segment_again a where (a.batch_id, a.stream_id) = (c.batch_id, c.stream_id))

-- name: rows_differ
-- The row of each window is what its records add up to, with its end and its revision; no other window has a row.
with others as ({beside_others}),
looked_at as (select t.*, count(*) over (partition by {target_keys}) as "Copies" from {target} t)
select null::text as topic, null::int as partition, 'window ' || coalesce(k._key, jsonb_build_array({target_keys}))::text || case
        when t."Copies" > 1 then ': it has ' || t."Copies" || ' rows'
        when k._key is null then ': no record of the log made its row'
        when t._stream is null and w.revision is null then ': no window of it is known'
        when t._stream is null then ': its row is missing'
        when w.revision is null or w.revision = 0 then ': it is not shown yet, and a row is there'
        else ': its row has (' || concat_ws(', ', {shown_of_row}, t.window_end, coalesce(t._revision::text, 'null'))
            || '), its records give (' || concat_ws(', ', {shown_of_kept}, k."Ends", w.revision) || ')' end as what
from (
    select c.key as _key, {kept_keys}, max(c.ends) as "Ends", {combined} from pg_temp.lockstep_recounted c group by c.key) k
full join looked_at t on {same_as_kept}
left join lockstep.window_state w on w.target = %(target)s and w.key = coalesce(k._key, jsonb_build_array({target_keys}))
where not exists (select from others o where o.key = coalesce(k._key, jsonb_build_array({target_keys}))) and case
    when t."Copies" > 1 or k._key is null then true
    when t._stream is null then coalesce(w.revision > 0, true)
    when coalesce(w.revision = 0, true) then true
    else ({names_of_row}, t.window_end, t._revision) is distinct from ({names_of_kept}, k."Ends", w.revision) end
order by 3

-- name: counts
-- How many windows and records were recounted, how many windows as a whole, how many records were late, and the other windows.
with others as ({beside_others})
select count(distinct c.key) as windows, coalesce(sum(c.records), 0)::bigint as records,
    count(distinct c.key) filter (where not exists (select from others o where o.key = c.key)) as whole,
    (select count(*) from pg_temp.lockstep_late_again) as late, (select count(*) from others) as others
from pg_temp.lockstep_recounted c
