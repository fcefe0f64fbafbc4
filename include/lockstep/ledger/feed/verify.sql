-- name: misses
-- In words, what keeps the table's changes from being caught; and whether all of its rows were announced and are kept.
select lockstep.feed_misses(f.target) as misses, f.key, f.began_empty and f.kept_from = 0 as whole
from lockstep.feed f where f.target = %(target)s

-- name: numbers_with_gaps
-- Sets follow one another in number and seq up to the feed's, and each kept one has as many images as it tells. A change without
-- a row is one that an erasure names.
with s as (
    select c.*, lag(c.seq, 1, 0::bigint) over w as seq_before, lag(c.first_number + c.changes, 1, 0::bigint) over w as ended
    from lockstep.change_set c where c.target = %(target)s window w as (order by c.seq)),
i as (
    select _change_set, count(*) filter (where _change <> 'before') as changes, count(distinct _ordinal_in_set) as numbers,
        max(_ordinal_in_set) as last, count(*) filter (where _change = 'before') as befores,
        count(*) filter (where _change = 'after') as afters
    from {images} group by 1)
select null::text as topic, null::int as partition, w.what from (
    select s.seq, 'set ' || coalesce(s.seq::text, 'of id ' || s.change_set_id) || ' begins at number ' || s.first_number
        || ', set ' || s.seq_before || ' before it ends at ' || s.ended as what
    from s where s.seq is distinct from s.seq_before + 1 or s.first_number is distinct from s.ended
    union all
    select f.last_seq, 'the feed stands at seq ' || f.last_seq || ' and number ' || f.next_number || ', its sets end at '
        || coalesce(s.seq, 0) || ' and ' || coalesce(s.first_number + s.changes, 0)
    from lockstep.feed f left join (select * from s order by seq desc limit 1) s on true
    where f.target = %(target)s and (f.last_seq, f.next_number) <> (coalesce(s.seq, 0), coalesce(s.first_number + s.changes, 0))
    union all
    select s.seq, 'numbers [' || s.first_number || ', ' || s.first_number + s.changes || ') of set ' || s.seq || ' have '
        || coalesce(i.changes, 0) || ' changes'
    from s join lockstep.feed f using (target) left join i on i._change_set = s.change_set_id
    where (s.first_number >= f.kept_from or i.changes > 0) and s.changes > 0 and (
        i.changes is null or (i.changes, i.numbers, i.last + 1) <> (s.changes, s.changes, s.changes) or i.befores <> i.afters)
    union all
    select s.seq, 'change ' || s.first_number + i._ordinal_in_set || ' has lost its row, and no erasure names it'
    from {images} i join s on s.change_set_id = i._change_set
    where i._change = 'erased' and not exists (
        select from lockstep.blank_change b where (b.change_set_id, b.ordinal) = (i._change_set, i._ordinal_in_set))
    union all
    select s.seq, 'change ' || s.first_number + b.ordinal || ' has its row, and erasure ' || b.erasure_id
        || ' took it out'
    from lockstep.blank_change b join s using (change_set_id)
    join {images} i on (i._change_set, i._ordinal_in_set) = (b.change_set_id, b.ordinal) and i._change in ('before', 'after')
    union all
    select null, i.changes || ' changes are of set id ' || i._change_set || ', which is none of this feed''s'
    from i where not exists (select from s where s.change_set_id = i._change_set)) w
order by w.seq

-- name: commits_not_told
-- Each commit of the pipeline since the feed was opened has told it what it did.
select s.topic, s.partition, 'batch ' || c.batch_id || ' has not told the feed' as what
from lockstep.commit c join lockstep.batch b using (batch_id) join lockstep.stream s on s.stream_id = c.stream_id
join lockstep.feed f on f.target = %(target)s and c.at > f.opened_at
where b.pipeline = %(pipeline)s and not exists (
    select from lockstep.change_set t where t.target = f.target and t.batch_id = c.batch_id
      and (t.stream_id is null or t.stream_id = c.stream_id))
order by c.batch_id, s.partition

-- name: not_folded
-- Each image before is what the last one of its key left, and the last ones are the table's rows. Without the columns of ours,
-- and without changes that have lost their row.
with told as (
    select jsonb_build_array({image_keys}) as key, to_jsonb(i.*) - %(ours)s::text[] as image, i._change as change,
        s.first_number + i._ordinal_in_set as number
    from {image_rows} i join lockstep.change_set s on s.change_set_id = i._change_set where i._change <> 'erased'),
ordered as (
    select told.*, lag(change) over w as change_before, lag(image) over w as image_before, lead(number) over w is null as is_last
    from told window w as (partition by key order by number, change = 'after')),
there as (select jsonb_build_array({row_keys}) as key, to_jsonb(t.*) - %(ours)s::text[] as image from {target_rows} t)
select null::text as topic, null::int as partition, w.what from (
    select number, 'change ' || number || ' of ' || key::text || ' begins at another row than the change before it left' as what
    from ordered where change in ('before', 'delete') and change_before is not null
      and (change_before in ('before', 'delete') or image_before <> image)
    union all
    select number, 'change ' || number || ' of ' || key::text || ' begins at a row that no change has told of'
    from ordered where change in ('before', 'delete') and change_before is null and %(whole)s
    union all
    select number, 'change ' || number || ' inserts ' || key::text || ', which is there'
    from ordered where change = 'insert' and change_before in ('insert', 'after')
    union all
    select number, 'change ' || number || ' of ' || key::text || ' has no row before it'
    from ordered where change = 'after' and change_before is distinct from 'before'
    union all
    select number, 'the row of ' || key::text || ' is not what change ' || number || ' has left'
    from ordered left join there using (key)
    where is_last and case when change in ('insert', 'after') then there.image is distinct from ordered.image
        else change = 'before' or there.image is not null end
    union all
    select null, 'the row of ' || key::text || ' was never told of' from there
    where %(whole)s and not exists (select from told where told.key = there.key)) w
order by w.number
