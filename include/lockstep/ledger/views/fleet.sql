-- name: known
-- What a look at many pipelines rests on, one row for each that has a row in the ledger.
with moved as (
    select distinct on (pipeline) pipeline, at, detail #> '{to,topic}' as topic
    from lockstep.decision where kind = 'move' order by pipeline, decision_id desc),
paused as (
    select distinct on (pipeline) pipeline, who, why
    from lockstep.decision where kind = 'pause' order by pipeline, decision_id desc)
select p.name, p.paused, u.who, u.why, p.forgotten_by is not null as forgotten,
    exists (select from lockstep.batch b where b.pipeline = p.name and b.lane = 'live' and b.state = 'planned')
        or coalesce((select d.kind = 'promote' from lockstep.decision d where d.pipeline = p.name
            and d.kind in ('promote', 'withdraw') order by d.decision_id desc limit 1), false) as needs_plan,
    c.document || case when m.at > c.closed_at then jsonb_build_object('topic', m.topic) else '{}' end as document,
    s.streams, o.owned
from unnest(%(names)s::text[]) n (name) join lockstep.pipeline p on p.name = n.name
left join moved m on m.pipeline = p.name
left join paused u on u.pipeline = p.name
left join lateral (
    select b.closed_at, d.document - '{transform,expectations,decode}'::text[] as document
    from lockstep.batch b join lockstep.attempt a on a.batch_id = b.batch_id and a.token = b.token
    join lockstep.definition d using (definition_hash)
    where b.batch_id = (select l.batch_id from lockstep.batch l
        where l.pipeline = p.name and l.state = 'committed' order by l.batch_id desc limit 1)) c on true
left join lateral (
    select jsonb_agg(jsonb_build_array(s.stream_id, s.topic, s.partition, s.cluster_id, s.topic_id, s.incarnation, s.epoch,
        s.start_offset, s.position, s.leader_epoch) order by s.stream_id) as streams
    from lockstep.stream s where s.pipeline = p.name and s.retired_at is null) s on true
left join (
    select pipeline, jsonb_agg(jsonb_build_array(store, target, shared_with)) as owned
    from lockstep.target_owner group by pipeline) o on o.pipeline = p.name
