-- name: erased_by
-- The newest decision that erased a record: of this offset of the log, or of this Kafka key below the bound of its erasure.
select lockstep.erasure_decision(e.erasure_id) as decision_id
from lockstep.stream s join lockstep.erasure e on e.pipeline = any(lockstep.line_of(s.pipeline))
join lockstep.erasure_salt z on z.pipeline = e.pipeline
where s.stream_id = %(stream_id)s and (
    exists (
        select from lockstep.erased x join lockstep.stream o on o.stream_id = x.stream_id
        where x.erasure_id = e.erasure_id and x."offset" = %(offset)s and (o.topic_id, o.partition) = (s.topic_id, s.partition))
    or exists (
        select from lockstep.erasure_bound b
        where b.erasure_id = e.erasure_id and b.topic_id = s.topic_id and b.partition = s.partition and %(offset)s < b.until_offset
          and e.digest in (select lockstep.key_digest(z.salt, k) from unnest(%(keys)s::bytea[]) k)))
order by 1 desc limit 1
