-- name: tumbling
-- The one window of a moment, of a fixed size.
select b.begins as window_start, b.begins + {size} as window_end
from (select date_bin({size}, {moment}, {epoch}) as begins) b

-- name: hopping
-- The windows of a moment, of a fixed size, of which another one begins every so often.
select b.newest - hop * {every} as window_start, b.newest - hop * {every} + {size} as window_end
from (select date_bin({every}, {moment}, {epoch}) as newest) b cross join generate_series(0, {hops} - 1) hop

-- name: calendar
-- The one day, week or month of a moment, by the wall clock of a zone. A clock may go back behind midnight, to the day before:
-- what comes after the first midnight is of the next day.
select case when e.is_over then e.ends else lockstep.first_moment(b.begins, {zone}) end as window_start,
    case when e.is_over then lockstep.first_moment(b.begins + 2 * {step}, {zone}) else e.ends end as window_end
from (select date_trunc({unit}, {moment} at time zone {zone}) as begins) b
cross join lateral (select n.ends, {moment} >= n.ends as is_over
    from (select lockstep.first_moment(b.begins + {step}, {zone}) as ends) n) e

-- name: sized_end
-- The end of a window of a fixed size that begins at a moment.
{moment} + {size}

-- name: calendar_end
-- The end of a calendar's window that begins at a moment.
lockstep.first_moment(date_trunc({unit}, {moment} at time zone {zone}) + {step}, {zone})

-- name: lane
-- The lane of a batch, and whether it previews an admission.
select b.lane, exists (select from lockstep.request_admits a where a.request_id = b.request_id) as admits
from lockstep.batch b where b.batch_id = %(batch_id)s

-- name: of_plan
-- Live rows are judged by the watermark of their plan, and those of a fill by none.
(select coalesce(b.watermark, '-infinity') from lockstep.batch b where b.batch_id = {batch_id})

-- name: planned_at
-- Events behind it had not happened when the batch was planned.
(select b.planned_at from lockstep.batch b where b.batch_id = {batch_id})

-- name: of_offset
-- A replayed row is judged as its offset was at first. What was admitted since, or never judged, is not late.
coalesce((select case when j.offsets @> t._offset and j.admitted_by is null then j.watermark end from lockstep.judged j
    where j.stream_id = t._stream and lower(j.offsets) <= t._offset order by lower(j.offsets) desc limit 1), '-infinity')

-- name: of_offset_admitted
-- The preview of an admission judges as the replay behind the decision will.
coalesce((select case when j.offsets @> t._offset and j.admitted_by is null and not exists (
        select from lockstep.request_admits a join lockstep.batch b using (request_id)
        where b.batch_id = {batch_id} and a.stream_id = j.stream_id and a.offsets = j.offsets) then j.watermark end
    from lockstep.judged j
    where j.stream_id = t._stream and lower(j.offsets) <= t._offset order by lower(j.offsets) desc limit 1), '-infinity')

-- name: windowed
-- Each row once for each of its windows, with the watermark that it is judged by.
(select t.*, w.window_start, w.window_end, {watermark} as _watermark from {rows} t cross join lateral ({windows}) w)

-- name: late
-- The window was closed when the row was judged. A watermark that is the same for all rows is asked for once.
t.window_end <= (select {watermark} - {lateness})

-- name: keep_late
-- What does not count is kept, with the record's row.
insert into lockstep.late (target, stream_id, "offset", ordinal, window_start, window_end, key, event_time, watermark, batch_id, row)
select %(target)s, t._stream, t._offset, t._ordinal, t.window_start, t.window_end, jsonb_build_array({staged_keys}), {moment},
    t._watermark, %(batch_id)s, to_jsonb(t.*) - %(ours)s::text[]
from {windowed} t where {late}

-- name: contribute
-- What each of the batch's segments adds to each window. Windows that nobody knew are known from now on, and shown ones are touched.
-- The target is locked, and a row that cannot conflict is written in half the time. All rows are read once, the newest events of
-- each stream included: those that had happened when the batch was planned. A row without a key is neither late nor not.
-- All is written in the order of its indexes. A window that ends behind every hidden one and the watermark is known to be new: shown
-- windows are over by the watermark. The two spare a seventh of the commit.
with added as materialized (
    select t._stream as stream_id, jsonb_build_array({staged_keys}) as key, {end_of_window} as ends,
        case when num_nulls({staged_keys}) = 0 then {late} end as is_late,
        count(*) as records, max(array[t._offset, t._ordinal]) as newest_row, jsonb_build_object({staged_totals}) as totals,
        max({moment}) filter (where {moment} <= {planned_at}) as newest_event
    from {windowed} t group by t._stream, {staged_keys}, {late} order by key),
contributed as (
    insert into lockstep.contribution (target, key, batch_id, stream_id, records, "offset", ordinal, totals)
    select %(target)s, a.key, %(batch_id)s, a.stream_id, a.records, a.newest_row[1], a.newest_row[2], a.totals
    from added a where not a.is_late),
met as materialized (
    select a.key, a.ends, case when a.ends <= (select greatest(
            (select max(s.ends) from lockstep.window_state s where s.target = %(target)s and s.revision = 0),
            (select e.watermark from lockstep.event_time e join lockstep.batch b using (pipeline) where b.batch_id = %(batch_id)s)))
        then (select s.revision from lockstep.window_state s where s.target = %(target)s and s.key = a.key) end as revision
    from (select distinct on (key) key, ends from added where not is_late order by key) a),
known as (
    insert into lockstep.window_state (target, key, ends)
    select %(target)s, m.key, m.ends from met m where m.revision is null),
touched as (
    insert into window_touched select m.key from met m where m.revision > 0 on conflict do nothing),
seen as (
    insert into newest_event as n select a.stream_id, max(a.newest_event) from added a group by a.stream_id
    on conflict (stream_id) do update set moment = greatest(n.moment, excluded.moment))
select coalesce(sum(a.records) filter (where not a.is_late), 0)::bigint as in_time,
    coalesce(sum(a.records) filter (where a.is_late), 0)::bigint as late
from added a

-- name: make_touched
-- The windows that a batch changes; a replay begins with those that it takes out of.
create temp table if not exists window_touched (key jsonb primary key) on commit drop

-- name: make_newest
-- The newest events of each stream, in whichever target's rows, for the event time that moves behind the positions.
create temp table if not exists newest_event (stream_id int primary key, moment timestamptz) on commit drop

-- name: touch_replaced
-- The windows that the replaced segments contributed to.
insert into window_touched
select distinct c.key from lockstep.contribution c
join lockstep.claim k on k.expects_batch = c.batch_id and k.stream_id = c.stream_id
where k.batch_id = %(batch_id)s and k.expects = 'batch' and c.target = %(target)s

-- name: forget_late
-- A replay judges the replaced segments again.
delete from lockstep.late l using lockstep.claim k
where k.batch_id = %(batch_id)s and k.expects = 'batch' and l.target = %(target)s
  and l.stream_id = k.stream_id and l."offset" >= lower(k.offsets) and l."offset" < upper(k.offsets)

-- name: changed_windows
-- Shown windows whose row is not what their contributions add up to now.
create temp table window_change on commit drop as
select k.*, l.*
from (
    select c.key as _key, {kept_keys}, s.ends as window_end, s.revision + 1 as _revision
    from window_touched c join lockstep.window_state s on s.target = %(target)s and s.key = c.key where s.revision > 0) k
cross join lateral (
    select count(*) as "Contributions", {combined}, {newest} from lockstep.contribution c
    where c.target = %(target)s and c.key = k._key) l
left join {target} t on {same_as_kept}
where case when l."Contributions" = 0 then t._stream is not null
    else t._stream is null or ({names_of_row}) is distinct from ({names_of_left}) end

-- name: raise_revisions
-- A change of a shown window is one revision more, also when nothing is left of it.
update lockstep.window_state s set revision = k._revision from window_change k where s.target = %(target)s and s.key = k._key

-- name: delete_windows
-- A shown window that nothing is left of has no row.
delete from {target} t using window_change k where k."Contributions" = 0 and {same_as_kept}

-- name: write_windows
-- The rows of shown windows, as they add up now.
insert into {target} as t ({keys}, window_end, {names}, _revision, _stream, _offset, _ordinal, _batch)
select {keys}, window_end, {names}, _revision, _stream, _offset, _ordinal, %(batch_id)s
from window_change where "Contributions" > 0
on conflict ({keys}) do update set ({names}, _revision, _stream, _offset, _ordinal, _batch)
    = row({excluded_names}, excluded._revision, excluded._stream, excluded._offset, excluded._ordinal, excluded._batch)

-- name: forget_changes
-- The next target of the same transaction has windows of its own.
drop table window_touched, window_change

-- name: has_due
-- Whether the watermark has passed windows that nobody has been shown. Asked before anything is written. `offset 0` keeps each look
-- for contributions one into their index: of a table that has just grown, Postgres expects few, and compares all with all.
select exists (
    select from lockstep.window_state s
    where s.target = %(target)s and s.revision = 0
      and s.ends <= (select e.watermark from lockstep.event_time e where e.pipeline = %(pipeline)s)
      and exists (select from lockstep.contribution c where c.target = s.target and c.key = s.key offset 0)) as found

-- name: due
-- Windows that the watermark has passed and nobody has been shown, the oldest first, as their contributions add up.
create temp table window_due on commit drop as
select k.*, l.* from (
    select c.key as _key, {kept_keys}, c.ends as window_end from lockstep.window_state c
    where c.target = %(target)s and c.revision = 0
      and c.ends <= (select e.watermark from lockstep.event_time e where e.pipeline = %(pipeline)s)) k
cross join lateral (
    select count(*) as "Contributions", {combined}, {newest},
        (max(array[c.stream_id, c."offset", c.ordinal, c.batch_id]))[4] as _batch
    from lockstep.contribution c where c.target = %(target)s and c.key = k._key) l
where l."Contributions" > 0 order by k.window_end limit %(most)s

-- name: show
-- They are shown for the first time.
update lockstep.window_state s set revision = 1 from window_due d where s.target = %(target)s and s.key = d._key

-- name: write_due
-- Their rows.
insert into {target} ({keys}, window_end, {names}, _revision, _stream, _offset, _ordinal, _batch)
select {keys}, window_end, {names}, 1, _stream, _offset, _ordinal, _batch from window_due

-- name: added_up
-- Each window as its contributions add up, whether time has passed it or not.
select {kept_keys}, {end_of_key} as window_end, {combined}, 1 as _revision, {newest},
    (max(array[c.stream_id, c."offset", c.ordinal, c.batch_id]))[4] as _batch
from lockstep.contribution c where c.target = %(target)s group by c.key order by c.key

-- name: forget_due
-- The next transaction has windows of its own.
drop table window_due

-- name: odd_events
-- Records whose event is at no time that a calendar has windows for.
select distinct t._stream as stream_id, s.topic, s.partition, t._offset as "offset", {moment}::text as moment
from {rows} t join lockstep.stream s on s.stream_id = t._stream
where ({moment} >= {earliest} and {moment} < {latest}) is not true order by 1, 4

-- name: late_share
-- How many rows a live batch would count, and how many of them would be late.
select count(*) as rows, count(*) filter (where {late}) as late from {windowed} t where {moment} >= {earliest} and {moment} < {latest}

-- name: see
-- The newest events of each stream that had happened when the batch was planned. Without a row, a record's own time counts. Where
-- the clock was stepped back meanwhile, a stream has come to its time of now.
with found as (
    select u.stream_id, case when n.stream_id is not null then n.moment
        when u.max_timestamp <= b.planned_at then u.max_timestamp end as moment
    from lockstep.result u join lockstep.batch b using (batch_id) left join newest_event n using (stream_id)
    where u.batch_id = %(batch_id)s and u.token = %(token)s)
update lockstep.stream_time m set seen = least(f.moment, clock_timestamp()) from found f
where m.stream_id = f.stream_id and least(f.moment, clock_timestamp()) > coalesce(m.seen, '-infinity')
