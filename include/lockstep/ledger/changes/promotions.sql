-- name: in_force
-- The newest decision about a promoted transform, unless it withdraws one.
select d.decision_id, d.who, d.why, d.at, d.detail from (
    select * from lockstep.decision
    where pipeline = %(pipeline)s and kind in ('promote', 'withdraw') order by decision_id desc limit 1) d
where d.kind = 'promote'

-- name: starts
-- The offsets that the ledger has written into a decision.
select detail -> 'from' as starts from lockstep.decision where decision_id = %(decision_id)s
