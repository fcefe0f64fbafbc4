-- name: owners_missing
-- Tables that the pipeline has written since owners are recorded, that nobody owns, and that no decision gave away.
select null as topic, null as partition, w.target || ' has no recorded owner, and no decision gave it away' as what
from lockstep.target_writer w
where w.pipeline = %(pipeline)s
  and not exists (select from lockstep.target_owner o where o.store = w.store and o.target = w.target)
  and not exists (
    select from lockstep.decision d where d.pipeline = w.pipeline and case d.kind
        when 'hand-over' then (d.detail ->> 'store', d.detail ->> 'target') = (w.store, w.target)
        when 'forget' then d.detail -> 'tables' @> jsonb_build_array(jsonb_build_object('store', w.store, 'target', w.target))
        else false end)
  and exists (
    select from lockstep.batch b join lockstep.attempt a using (batch_id, token)
    join lockstep.definition f using (definition_hash) cross join lateral lockstep.written_tables(f.document) t
    where b.pipeline = w.pipeline and b.state = 'committed' and (t.store, t.target) = (w.store, w.target)
      and b.planned_at > (select m.applied_at from lockstep.migration m where m.version = 21))
order by w.target

-- name: paused_undecided
-- A pipeline is paused if its last decision about that says so.
select null as topic, null as partition, 'the ledger says ' || case when p.paused then 'paused' else 'not paused' end
    || ', and the last decision about it says ' || coalesce(d.kind, 'nothing') as what
from lockstep.pipeline p left join lateral (
    select d.kind from lockstep.decision d where d.pipeline = p.name and d.kind in ('pause', 'unpause')
    order by d.decision_id desc limit 1) d on true
where p.name = %(pipeline)s and p.paused <> coalesce(d.kind = 'pause', false)
