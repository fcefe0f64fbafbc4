-- Coverage that cannot be replayed any more is merged, so it names one batch of many: who owns what is answered by history.

-- Every segment that a batch owns today. Segments are never split, so a newer one that overlaps an older one holds it whole.
create view segment as
select stream_id, offsets, batch_id, token
from (select r.stream_id, r.offsets, m.batch_id, m.token, max(upper(r.offsets)) over (
          partition by r.stream_id order by lower(r.offsets), upper(r.offsets) desc, m.token desc
          rows between unbounded preceding and 1 preceding) as reached
      from lockstep.batch_range r join lockstep.commit m using (batch_id, stream_id)) committed
where reached is null or reached < upper(offsets);

grant select on segment to lockstep_planner, lockstep_stager, lockstep_committer, lockstep_partition, lockstep_reader;
